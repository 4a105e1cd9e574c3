# The libraries that Braze is built on; cmake/debian_packages.sh installs them on Debian.
if(BRAZE_PORTABLE)
  set(ZLIB_USE_STATIC_LIBS ON)
  set(Boost_USE_STATIC_LIBS ON)
endif()

find_package(fmt 9 REQUIRED)
find_package(LLVM 22.1 REQUIRED CONFIG)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2 REQUIRED)

if(BRAZE_PORTABLE)
  # LLVM names its zstd by the shared library's target, whichever is linked; Debian has no static fmt.
  find_library(BRAZE_ZSTD_STATIC libzstd.a REQUIRED)
  set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION ${BRAZE_ZSTD_STATIC})
  set(BRAZE_FMT fmt::fmt-header-only)
else()
  set(BRAZE_FMT fmt::fmt)
endif()
