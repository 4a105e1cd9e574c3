#include <iostream>

#include "tools/braze/cli.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

// LLVM takes and gives back much memory in small pieces. A heap that goes back to the system in between and comes again page
// by page was a quarter of the time it takes to compile a kernel (gn_tail: 75 ms, 50 ms so).
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  return bz::run_cli({argv + 1, argv + argc}, std::cout, std::cerr);
}
