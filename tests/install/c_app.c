/* The C library of an installed Braze: a program is compiled for a GPU, and its PTX is there. */
#include <braze.h>
#include <stdio.h>

int main(void) {
  braze_compile_options options = BRAZE_COMPILE_OPTIONS;
  braze_executable* twice = NULL;
  char* ptx = NULL;
  options.target = "sm_90";
  if (braze_compile(NULL, "graph twice { %x = input f32[64] %y = add %x, %x output %y }", &options, &twice) !=
          BRAZE_OK ||
      braze_dump(twice, "ptx", &ptx) != BRAZE_OK) {
    fprintf(stderr, "%s\n", braze_last_error());
    return 1;
  }
  printf("%d kernel from C: good\n", (int)braze_kernel_count(twice));
  braze_text_free(ptx);
  braze_executable_free(twice);
  return 0;
}
