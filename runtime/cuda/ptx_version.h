// Which PTX a driver understands. Versions are 10 * major + minor, 83 for PTX 8.3.
#pragma once

#include <string>

namespace bz::cuda {

// Newest PTX ISA version that LLVM 22's NVPTX backend writes.
inline constexpr int kNewestWrittenPtx = 90;

// Newest PTX ISA version that a driver for CUDA `driver_version` (1000 * major + 10 * minor) reads. For
// drivers newer than the table, the newest version known.
int newest_ptx(int driver_version);

// "8.3" for 83.
std::string ptx_text(int ptx);

}  // namespace bz::cuda
