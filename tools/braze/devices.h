// Devices named on the command line.
#pragma once

#include <braze/device.h>

#include <string>

namespace bz::cli {

// What Device::open takes; "" is the best there is. Throws NoSuchDevice, and UsageError for another word.
Device open_device(const std::string& name);

}  // namespace bz::cli
