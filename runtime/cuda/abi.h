// The part of the CUDA driver's binary interface that Braze uses, declared here because there are no CUDA
// headers at build time. The values and layouts are fixed by the driver's stable ABI.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bz::cuda {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kAssert = 710;
inline constexpr Result kHardwareStackError = 714;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kSystemDriverMismatch = 803;

using DeviceHandle = int;
using DevicePtr = std::uint64_t;
using ContextHandle = struct ContextOpaque*;
using ModuleHandle = struct ModuleOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using MemPool = struct MemPoolOpaque*;

// CUdevice_attribute
enum class Attribute : int {
  max_threads_per_block = 1,
  registers_per_block = 12,
  multiprocessors = 16,
  memory_clock_khz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  threads_per_multiprocessor = 39,
  capability_major = 75,
  capability_minor = 76,
  shared_per_multiprocessor = 81,
  registers_per_multiprocessor = 82,
  shared_per_block_optin = 97,
  blocks_per_multiprocessor = 106,
  memory_pools_supported = 115,
  cluster_launch = 120,
};

// CUjit_option
enum class JitOption : int { info_log = 3, info_log_bytes = 4, error_log = 5, error_log_bytes = 6 };

inline constexpr int kFunctionMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int kFunctionLargeClusters = 14;    // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
inline constexpr int kLaunchClusterDimension = 4;    // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kMemPoolReleaseThreshold = 4;  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, a uint64_t

// CUmemPoolProps
struct MemPoolProps {
  int allocation_type = 1;  // pinned
  int handle_types = 0;     // none
  int location_type = 1;    // device
  int location_id = 0;
  void* security_attributes = nullptr;
  std::size_t max_size = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(MemPoolProps) == 88);

// CUlaunchAttribute
struct LaunchAttribute {
  int id = 0;
  char pad[4] = {};
  unsigned value[16] = {};  // of a cluster dimension: x, y, z
};
static_assert(sizeof(LaunchAttribute) == 72);

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

}  // namespace bz::cuda
