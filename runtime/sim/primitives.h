// The host functions that compiled kernels call.
#pragma once

#include <span>
#include <string_view>

namespace bz::sim {

// What instrumented code calls (see instrument.h).
inline constexpr std::string_view kSimAccess = "bz.sim.access";  // ptr (ptr address, i32 site)
inline constexpr std::string_view kSimRead = "bz.sim.read";      // the same
inline constexpr std::string_view kSimBarrier = "bz.sim.barrier";
inline constexpr std::string_view kSimClusterBarrier = "bz.sim.cluster.barrier";
inline constexpr std::string_view kSimClusterStart = "bz.sim.cluster.start";
inline constexpr std::string_view kSimClusterStarted = "bz.sim.cluster.started";
inline constexpr std::string_view kSimBoxOpen = "bz.sim.box.open";
inline constexpr std::string_view kSimSend = "bz.sim.send";
inline constexpr std::string_view kSimBoxExpect = "bz.sim.box.expect";
inline constexpr std::string_view kSimBoxReceive = "bz.sim.box.receive";
inline constexpr std::string_view kSimShuffleXor = "bz.sim.shfl.xor";
inline constexpr std::string_view kSimCopy = "bz.sim.copy";
inline constexpr std::string_view kSimTicket = "bz.sim.ticket";
inline constexpr std::string_view kSimSignal = "bz.sim.signal";
inline constexpr std::string_view kSimWait = "bz.sim.wait";
inline constexpr std::string_view kSimPost = "bz.sim.post";
inline constexpr std::string_view kSimPeek = "bz.sim.peek";
inline constexpr std::string_view kSimPause = "bz.sim.pause";

struct HostFunction {
  std::string_view name;
  void* address;
};

// Those above, the other SIMT primitives of ir/simt.h, and the conversions of half precision that LLVM calls by name.
std::span<const HostFunction> host_functions();

}  // namespace bz::sim
