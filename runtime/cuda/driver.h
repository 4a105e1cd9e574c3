// The CUDA driver, loaded at run time.
//
//   std::shared_ptr<const Driver> d = load_driver();        // throws DeviceError: what is missing and what
//   to do d->expect(d->cuMemAlloc(&p, bytes), "allocation of 16 bytes");
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/cuda/abi.h"

namespace bz::cuda {

struct Driver {
#define BZ_CUDA_FUNCTION(name, version, parameters) Result(*name) parameters = nullptr;
#include "runtime/cuda/functions.def"
#undef BZ_CUDA_FUNCTION
  std::string path;  // of the library
  int version = 0;   // newest CUDA the driver supports, 1000 * major + 10 * minor

  // "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
  std::string describe(Result result) const;
  // Throws DeviceError "`what` failed: CUDA_ERROR_...".
  void expect(Result result, std::string_view what) const;
};

// Loads and initialises libcuda.so.1, or the library that BRAZE_CUDA_LIBRARY names. The library stays loaded.
std::shared_ptr<const Driver> load_driver();

// "12.4" for 12040.
std::string version_text(int version);

}  // namespace bz::cuda
