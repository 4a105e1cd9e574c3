#include <braze/device.h>

namespace bz {

Device Device::best(std::string* why_not) { return Device(best_device(why_not)); }
Device Device::cuda(int ordinal) { return Device(open_cuda(ordinal)); }
Device Device::sim(const SimOptions& options) { return Device(open_sim(options)); }

}  // namespace bz
