#include "runtime/arguments.h"

#include <algorithm>
#include <cstdint>
#include <utility>

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

Extent extent_of(const PlanBuffer& b, void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin, begin + static_cast<std::uintptr_t>(b.bytes()), &b};
}

std::string describe(const PlanBuffer& b) {
  return fmt::format("{} '{}'", b.kind == PlanBuffer::Kind::input ? "input" : "output", b.name);
}

void check_pair(Extent a, Extent b, InPlace in_place) {
  if (std::max(a.begin, b.begin) >= std::min(a.end, b.end)) return;
  const bool both_written =
      a.buffer->kind == PlanBuffer::Kind::output && b.buffer->kind == PlanBuffer::Kind::output;
  if (in_place == InPlace::allowed && a.begin == b.begin && a.end == b.end && !both_written) return;
  if (b.begin < a.begin) std::swap(a, b);
  const std::uintptr_t shared = std::min(a.end, b.end) - b.begin;
  throw Error(
      fmt::format("{} ({} bytes) and {} ({} bytes) overlap by {} bytes; {}", describe(*a.buffer),
                  a.end - a.begin, describe(*b.buffer), b.end - b.begin, shared,
                  in_place == InPlace::allowed
                      ? "an output may share memory only with an input of exactly the same address and size"
                      : "an output may share memory with nothing else"));
}

// Each output with every argument before it; programs have few outputs.
void check_overlaps(const Plan& plan, std::span<void* const> arguments, InPlace in_place) {
  for_each_argument(plan, [&](std::size_t i, std::size_t output) {
    if (plan.buffers[output].kind != PlanBuffer::Kind::output) return;
    const Extent written = extent_of(plan.buffers[output], arguments[i]);
    for_each_argument(plan, [&](std::size_t j, std::size_t other) {
      if (j < i) check_pair(extent_of(plan.buffers[other], arguments[j]), written, in_place);
    });
  });
}

void check_address(const Plan& plan, const PlanBuffer& b, void* argument) {
  if (b.bytes() == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(argument);
  if (address == 0) {
    throw DeviceError(fmt::format("program '{}': {} is a null pointer", plan.name, describe(b)));
  }
  const int element = size_of(b.type.dtype);
  if (address % static_cast<std::uintptr_t>(std::max(plan.alignment, element)) != 0) {
    throw DeviceError(fmt::format("program '{}': {} is at {:#x}, which is not a multiple of the {} bytes {}",
                                  plan.name, describe(b), address, std::max(plan.alignment, element),
                                  element > plan.alignment ? "of its elements" : "it was compiled for"));
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

void check_arguments(const Plan& plan, std::span<void* const> arguments, InPlace in_place) {
  std::size_t count = 0;
  for_each_argument(plan, [&](std::size_t, std::size_t) { ++count; });
  if (arguments.size() != count) {
    throw DeviceError(fmt::format("program '{}' takes {} buffers, its inputs then its outputs, and got {}",
                                  plan.name, count, arguments.size()));
  }
  for_each_argument(plan, [&](std::size_t i, std::size_t buffer) {
    check_address(plan, plan.buffers[buffer], arguments[i]);
  });
  check_overlaps(plan, arguments, in_place);
}

std::vector<void*> bind_arguments(const Plan& plan, std::span<void* const> arguments, InPlace in_place) {
  check_arguments(plan, arguments, in_place);
  std::vector<void*> addresses(plan.buffers.size(), nullptr);
  for_each_argument(plan, [&](std::size_t i, std::size_t buffer) { addresses[buffer] = arguments[i]; });
  return addresses;
}

}  // namespace bz
