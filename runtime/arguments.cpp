#include "runtime/arguments.h"

#include <algorithm>
#include <cstdint>

#include "ir/simt.h"
#include "support/error.h"

namespace bz {
namespace {

constexpr std::int64_t kMaxGrid = 0x7fffffff;
constexpr int kMaxBlock = 1024;

struct Extent {
  std::uintptr_t begin = 0, end = 0;
  const PlanBuffer* buffer = nullptr;
};

std::string describe(const PlanBuffer& b) {
  return fmt::format("{} '{}'", b.kind == PlanBuffer::Kind::input ? "input" : "output", b.name);
}

void check_pair(const Extent& a, const Extent& b, InPlace in_place) {
  if (a.buffer == nullptr || a.end <= b.begin) return;
  const bool both_written =
      a.buffer->kind == PlanBuffer::Kind::output && b.buffer->kind == PlanBuffer::Kind::output;
  if (in_place == InPlace::allowed && a.begin == b.begin && a.end == b.end && !both_written) return;
  const std::uintptr_t shared = std::min(a.end, b.end) - b.begin;
  throw Error(
      fmt::format("{} ({} bytes) and {} ({} bytes) overlap by {} bytes; {}", describe(*a.buffer),
                  a.end - a.begin, describe(*b.buffer), b.end - b.begin, shared,
                  in_place == InPlace::allowed
                      ? "an output may share memory only with an input of exactly the same address and size"
                      : "an output may share memory with nothing else"));
}

// In order of address, an extent can overlap an earlier one only if it overlaps the one that reaches
// furthest.
void check_overlaps(std::vector<Extent> extents, InPlace in_place) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  Extent furthest, furthest_output;
  for (const Extent& e : extents) {
    if (e.buffer->kind == PlanBuffer::Kind::output) {
      check_pair(furthest, e, in_place);
      if (e.end > furthest_output.end) furthest_output = e;
    } else {
      check_pair(furthest_output, e, in_place);
    }
    if (e.end > furthest.end) furthest = e;
  }
}

void check_kernel(const Plan& plan, const PlanKernel& k) {
  const auto require = [&](bool holds, std::string_view what) {
    if (!holds) throw InternalError(fmt::format("plan '{}', kernel '{}': {}", plan.name, k.name, what));
  };
  require(k.grid >= 0 && k.grid <= kMaxGrid, fmt::format("grid of {} blocks", k.grid));
  require(k.block >= 1 && k.block <= kMaxBlock, fmt::format("block of {} threads", k.block));
  require(
      !k.synchronizes || k.block % simt::kWarp == 0,
      fmt::format("a block that synchronizes has {} threads, not a multiple of {}", k.block, simt::kWarp));
  require(k.cluster >= 1 && k.grid % k.cluster == 0,
          fmt::format("clusters of {} blocks in a grid of {}", k.cluster, k.grid));
  require(k.shared_bytes >= 0, fmt::format("{} bytes of shared memory", k.shared_bytes));
  for (int a : k.arguments) {
    require(a >= 0 && a < static_cast<int>(plan.buffers.size()), fmt::format("argument is buffer {}", a));
  }
}

}  // namespace

void check_plan(const Plan& plan) {
  check(plan.alignment > 0 && (plan.alignment & (plan.alignment - 1)) == 0,
        fmt::format("plan '{}': alignment {} is not a power of two", plan.name, plan.alignment));
  check(plan.alignment <= kTemporaryAlignment,
        fmt::format("plan '{}': alignment {} is more than the {} of temporaries", plan.name, plan.alignment,
                    kTemporaryAlignment));
  for (const PlanKernel& k : plan.kernels) check_kernel(plan, k);
}

std::vector<void*> bind_arguments(const Plan& plan, std::span<void* const> arguments, InPlace in_place) {
  std::vector<std::size_t> order;
  for (PlanBuffer::Kind kind : {PlanBuffer::Kind::input, PlanBuffer::Kind::output}) {
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
      if (plan.buffers[i].kind == kind) order.push_back(i);
    }
  }
  if (arguments.size() != order.size()) {
    throw DeviceError(fmt::format("program '{}' takes {} buffers, its inputs then its outputs, and got {}",
                                  plan.name, order.size(), arguments.size()));
  }

  std::vector<void*> addresses(plan.buffers.size(), nullptr);
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const PlanBuffer& b = plan.buffers[order[i]];
    const std::int64_t bytes = b.bytes();
    const auto address = reinterpret_cast<std::uintptr_t>(arguments[i]);
    addresses[order[i]] = arguments[i];
    if (bytes == 0) continue;
    if (address == 0)
      throw DeviceError(fmt::format("program '{}': {} is a null pointer", plan.name, describe(b)));
    if (address % static_cast<std::uintptr_t>(plan.alignment) != 0) {
      throw DeviceError(
          fmt::format("program '{}': {} is at {:#x}, which is not a multiple of the {} bytes it was "
                      "compiled for",
                      plan.name, describe(b), address, plan.alignment));
    }
    extents.push_back({address, address + static_cast<std::uintptr_t>(bytes), &b});
  }
  check_overlaps(std::move(extents), in_place);
  return addresses;
}

}  // namespace bz
