#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "support/error.h"

namespace bz::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kLibraryVariable = "BRAZE_CUDA_LIBRARY";
// The first with cuOccupancyMaxActiveClusters.
constexpr int kOldestVersion = 11080;

// The first version of the function, the one that every driver since 11.3 exports under this name.
using GetProcAddress = Result (*)(const char* symbol, void** function, int version, std::uint64_t flags);

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string file_of(void* function, const std::string& otherwise) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

[[noreturn]] void fail_to_load(const std::string& library, const char* reason) {
  throw DeviceError(
      fmt::format("no CUDA driver: cannot load {} ({}); install the NVIDIA driver, or set {} to the "
                  "path of its {}",
                  library, reason, kLibraryVariable, kLibrary));
}

[[noreturn]] void fail_as_too_old(const std::string& path, int version) {
  throw DeviceError(
      fmt::format("the CUDA driver {} is too old: it supports CUDA {}, and {} or newer is needed; "
                  "update the NVIDIA driver",
                  path, version_text(version), version_text(kOldestVersion)));
}

[[noreturn]] void fail_to_initialize(const Driver& driver, Result result) {
  switch (result) {
    case kStubLibrary:
      throw DeviceError(
          fmt::format("the first CUDA library on the library path, {}, is a stub that programs are "
                      "linked against, not a driver; take its folder out of LD_LIBRARY_PATH, or set {} "
                      "to the path of the driver's {}",
                      driver.path, kLibraryVariable, kLibrary));
    case kNoDevice:
      throw DeviceError(
          fmt::format("no CUDA device: the driver {} finds none; see what nvidia-smi lists and whether "
                      "CUDA_VISIBLE_DEVICES hides them",
                      driver.path));
    case kSystemDriverMismatch:
      throw DeviceError(
          fmt::format("the CUDA driver {} and the kernel's NVIDIA module have different versions; "
                      "reload the module or reboot",
                      driver.path));
    default:
      throw DeviceError(
          fmt::format("the CUDA driver {} does not start: {}", driver.path, driver.describe(result)));
  }
}

void bind_functions(Driver& driver, GetProcAddress get) {
  std::vector<std::string> missing;
  const auto bind = [&](auto& function, const char* name, int version) {
    void* address = nullptr;
    if (get(name, &address, version, 0) != kSuccess || address == nullptr) {
      missing.push_back(fmt::format("{} ({})", name, version_text(version)));
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define BZ_CUDA_FUNCTION(name, version, parameters) bind(driver.name, #name, version);
#include "runtime/cuda/functions.def"
#undef BZ_CUDA_FUNCTION
  if (missing.empty()) return;
  throw DeviceError(fmt::format("the CUDA driver {} supports CUDA {} but lacks {}; update the NVIDIA driver",
                                driver.path, version_text(driver.version), fmt::join(missing, ", ")));
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string Driver::describe(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName != nullptr) cuGetErrorName(result, &name);
  if (cuGetErrorString != nullptr) cuGetErrorString(result, &text);
  if (name == nullptr) return fmt::format("CUDA error {}", result);
  return fmt::format("{} ({}): {}", name, result, text != nullptr ? text : "no description");
}

void Driver::expect(Result result, std::string_view what) const {
  if (result != kSuccess) throw DeviceError(fmt::format("{} failed: {}", what, describe(result)));
}

std::shared_ptr<const Driver> load_driver() {
  const char* chosen = std::getenv(kLibraryVariable);
  const std::string library = chosen != nullptr && *chosen != '\0' ? chosen : kLibrary;
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail_to_load(library, dlerror());
  const auto initialize = symbol<Result (*)(unsigned flags)>(handle, "cuInit");
  const auto get_version = symbol<Result (*)(int*)>(handle, "cuDriverGetVersion");
  if (initialize == nullptr || get_version == nullptr) fail_to_load(library, "it is not a CUDA driver");

  auto driver = std::make_shared<Driver>();
  driver->path = file_of(reinterpret_cast<void*>(initialize), library);
  driver->cuGetErrorName = symbol<decltype(driver->cuGetErrorName)>(handle, "cuGetErrorName");
  driver->cuGetErrorString = symbol<decltype(driver->cuGetErrorString)>(handle, "cuGetErrorString");
  if (const Result result = initialize(0); result != kSuccess) fail_to_initialize(*driver, result);
  driver->expect(get_version(&driver->version), "asking the CUDA driver for its version");
  const auto get = symbol<GetProcAddress>(handle, "cuGetProcAddress");
  if (driver->version < kOldestVersion || get == nullptr) fail_as_too_old(driver->path, driver->version);
  bind_functions(*driver, get);
  return driver;
}

}  // namespace bz::cuda
