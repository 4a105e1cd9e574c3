/* The C interface from C: what it says of programs, launches in the simulator and on a driver without a GPU
 * (tests/fake_cuda), that a launch allocates nothing, and errors.
 *
 *   c_api_test FAKE_CUDA_LIBRARY */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braze.h"

static int failures = 0;

#define CHECK(condition)                                                                                  \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, braze_last_error()); \
      ++failures;                                                                                         \
    }                                                                                                     \
  } while (0)
#define CHECK_ERROR(call, expected_status, text)       \
  do {                                                 \
    CHECK((call) == (expected_status));                \
    CHECK(strstr(braze_last_error(), (text)) != NULL); \
  } while (0)

/* Every allocation of the process passes here, those of the library too. A sanitizer has an allocator of its own. */
static long allocations = 0;
#ifdef __SANITIZE_ADDRESS__
enum { kCountsAllocations = 0 };
#else
enum { kCountsAllocations = 1 };
extern void* __libc_malloc(size_t);
void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
#endif

static const char* const kSoftmax =
    "graph softmax(R = 4096, D = 1024) {\n"
    "  %x = input f32[R, D]\n"
    "  %y = softmax %x {axes = [1]}\n"
    "  output %y\n"
    "}";
/* Two kernels with a temporary between them. */
static const char* const kNorm =
    "graph norm(N = 4, C = 8, P = 4096) {\n"
    "  %x = input f32[N, C, P]\n"
    "  %m = mean %x {axes = [0], keepdims = true}\n"
    "  %n = sub %x, %m\n"
    "  %y = logsumexp %n {axes = [1]}\n"
    "  output %y\n"
    "}";

static braze_executable* compile(braze_device* device, const char* text, const char* target) {
  const braze_size rows = {strstr(text, "(R =") != NULL ? "R" : "N", 2};
  braze_compile_options options = BRAZE_COMPILE_OPTIONS;
  braze_executable* executable = NULL;
  options.sizes = &rows;
  options.size_count = 1;
  options.target = target;
  CHECK(braze_compile(device, text, &options, &executable) == BRAZE_OK);
  return executable;
}

static void test_looking(void) {
  braze_executable* const softmax = compile(NULL, kSoftmax, "sm_90");
  CHECK(braze_input_count(softmax) == 1 && braze_output_count(softmax) == 1);
  braze_argument x = {sizeof(x)};
  CHECK(braze_get_argument(softmax, 0, &x) == BRAZE_OK);
  CHECK(strcmp(x.name, "x") == 0 && x.dtype == BRAZE_F32 && x.rank == 2 && x.bytes == 2 * 1024 * 4);
  CHECK(x.shape[0] == 2 && x.shape[1] == 1024 && x.strides[0] == 1024 && x.strides[1] == 1);
  CHECK_ERROR(braze_get_argument(softmax, 2, &x), BRAZE_ERROR, "there is no argument 2, there are 2");
  x.struct_size = 8;
  CHECK_ERROR(braze_get_argument(softmax, 0, &x), BRAZE_ERROR, "braze_argument: struct_size is 8");
  CHECK(braze_bytes_min(softmax) == 2 * x.bytes && braze_bytes_total(softmax) >= braze_bytes_min(softmax));
  CHECK(braze_kernel_count(softmax) == 1);

  char* text = NULL;
  CHECK(braze_explain(softmax, 0, &text) == BRAZE_OK && strstr(text, "1 kernel for sm_90") != NULL);
  braze_text_free(text);
  CHECK(braze_explain(softmax, 1, &text) == BRAZE_OK && text[0] == '{');
  braze_text_free(text);
  CHECK(braze_dump(softmax, "ptx", &text) == BRAZE_OK && strstr(text, ".target sm_90") != NULL);
  braze_text_free(text);
  CHECK_ERROR(braze_dump(softmax, "sass", &text), BRAZE_ERROR,
              "there is no stage 'sass'; the stages are graph,");
  CHECK_ERROR(braze_launch(softmax, NULL, 0, NULL, NULL), BRAZE_ERROR,
              "graph softmax was compiled for sm_90 to be looked at");
  braze_executable_free(softmax);
}

static void test_errors(void) {
  braze_executable* none = NULL;
  braze_device* device = NULL;
  braze_compile_options options = BRAZE_COMPILE_OPTIONS;
  CHECK_ERROR(braze_device_open("gpu", &device), BRAZE_ERROR, "there is no device 'gpu'");
  CHECK_ERROR(braze_device_open(NULL, &device), BRAZE_ERROR, "the name of the device is NULL");
  CHECK_ERROR(braze_compile(NULL, kSoftmax, NULL, &none), BRAZE_ERROR,
              "without a target, the device is NULL");
  options.target = "sm_90";
  options.file = "s.braze";
  CHECK_ERROR(braze_compile(NULL, "graph s {\n  %y = softmx %x\n}", &options, &none), BRAZE_ERROR,
              "s.braze:2: error: ");
  options.alignment = 12;
  CHECK_ERROR(braze_compile(NULL, kSoftmax, &options, &none), BRAZE_ERROR,
              "alignment 12 is not a power of two from 1 to 16");
  options.alignment = 0;
  options.size_count = 2;
  CHECK_ERROR(braze_compile(NULL, kSoftmax, &options, &none), BRAZE_ERROR, "sizes is NULL");
  options.size_count = 0;
  options.disabled_pass_count = 1;
  CHECK_ERROR(braze_compile(NULL, kSoftmax, &options, &none), BRAZE_ERROR, "disabled_passes is NULL");
  options.disabled_pass_count = 0;
  options.struct_size = 4;
  CHECK_ERROR(braze_compile(NULL, kSoftmax, &options, &none), BRAZE_ERROR,
              "braze_compile_options: struct_size is 4");
  CHECK(none == NULL && device == NULL);
  CHECK(braze_input_count(NULL) == 0 && braze_output_count(NULL) == 0 && braze_bytes_min(NULL) == 0);
  CHECK(braze_bytes_total(NULL) == 0 && braze_kernel_count(NULL) == 0 && braze_workspace_bytes(NULL) == 0);
}

static void test_simulator(void) {
  static float x[2 * 1024], y[2 * 1024];
  float sum = 0;
  braze_device* device = NULL;
  CHECK(braze_device_open("sim", &device) == BRAZE_OK);
  CHECK(strcmp(braze_device_kind(device), "sim") == 0);
  braze_executable* const softmax = compile(device, kSoftmax, NULL);
  braze_device_free(device);
  for (int i = 0; i < 2 * 1024; ++i) x[i] = (float)(i % 7);
  void* const addresses[] = {x, y};
  CHECK(braze_workspace_bytes(softmax) == 0);
  CHECK(braze_launch(softmax, addresses, 2, NULL, NULL) == BRAZE_OK);
  for (int i = 0; i < 1024; ++i) sum += y[i];
  CHECK(sum > 0.999f && sum < 1.001f);

  void* const in_place[] = {x, x};
  void* const odd[] = {(char*)x + 4, y};
  CHECK_ERROR(braze_launch(softmax, in_place, 2, NULL, NULL), BRAZE_ERROR, "overlap by 8192 bytes");
  CHECK_ERROR(braze_launch(softmax, odd, 2, NULL, NULL), BRAZE_DEVICE_ERROR,
              "not a multiple of the 16 bytes");
  CHECK_ERROR(braze_launch(softmax, addresses, 1, NULL, NULL), BRAZE_DEVICE_ERROR, "takes 2 buffers");
  CHECK_ERROR(braze_launch(softmax, NULL, 2, NULL, NULL), BRAZE_ERROR, "addresses is NULL");
  braze_executable_free(softmax);
}

static void test_cuda(const char* driver) {
  static _Alignas(256) char memory[1 << 20], temporaries[1 << 20];
  setenv("BRAZE_CUDA_LIBRARY", driver, 1);
  void* const library = dlopen(driver, RTLD_NOW);
  void** const stream_of_launch = dlsym(library, "fake_cuda_stream_of_last_launch");
  long* const launches = dlsym(library, "fake_cuda_launches");
  void* const stream = &allocations;

  braze_device* device = NULL;
  CHECK(braze_device_open("cuda:0", &device) == BRAZE_OK);
  CHECK(strcmp(braze_device_name(device), "Fake GPU 0") == 0 && braze_device_ordinal(device) == 0);
  braze_executable* const norm = compile(device, kNorm, NULL);
  const int64_t bytes = braze_workspace_bytes(norm);
  CHECK(braze_kernel_count(norm) == 2);
  CHECK(bytes > 0 && bytes % 256 == 0);

  void* const addresses[] = {memory, memory + (1 << 19)};
  const long before = allocations, launched = *launches;
  CHECK(braze_launch(norm, addresses, 2, temporaries, stream) == BRAZE_OK);
  CHECK(allocations == before && (before > 0 || !kCountsAllocations));
  CHECK(*launches == launched + 2);
  CHECK(*stream_of_launch == stream);
  CHECK(braze_launch(norm, addresses, 2, temporaries, NULL) == BRAZE_OK);
  CHECK(*stream_of_launch == (void*)1); /* CU_STREAM_LEGACY */

  CHECK_ERROR(braze_launch(norm, addresses, 2, NULL, stream), BRAZE_DEVICE_ERROR, "and got one at 0x0");
  CHECK_ERROR(braze_launch(norm, addresses, 2, temporaries + 8, stream), BRAZE_DEVICE_ERROR,
              "bytes at a multiple of 256, and got one at");
  setenv("FAKE_CUDA_FAIL", "cuLaunchKernel:701", 1);
  CHECK_ERROR(braze_launch(norm, addresses, 2, temporaries, stream), BRAZE_DEVICE_ERROR,
              "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
  braze_executable_free(norm);
  braze_device_free(device);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  CHECK(braze_abi_version() == BRAZE_ABI_VERSION);
  test_looking();
  test_errors();
  test_simulator();
  test_cuda(arguments[1]);
  return failures == 0 ? 0 : 1;
}
