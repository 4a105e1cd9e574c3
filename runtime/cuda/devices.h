// The CUDA devices of this machine, seen without taking a context on any.
#pragma once

#include <vector>

#include "runtime/runtime.h"

namespace bz::cuda {

struct Driver;

// Throws DeviceError for an ordinal that does not exist, "no CUDA device 3: there are 2", and for a device
// older than any target Braze compiles for.
DeviceInfo describe_device(const Driver& driver, int ordinal);

// Every device that Braze can use. Throws DeviceError with the reason when there is none.
std::vector<DeviceInfo> list_devices();

}  // namespace bz::cuda
