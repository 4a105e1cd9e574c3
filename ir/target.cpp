#include "ir/target.h"

#include <fmt/format.h>

#include <array>

namespace bz {
namespace {

struct TargetRow {
  int sm;
  int ptx;  // oldest ISA version with this target, from the release notes of the PTX ISA manual
  int multiprocessors;
  int shared_kib;  // a block may have, after the kibibyte the system keeps
  int shared_kib_together, threads_together, blocks_together;  // of a multiprocessor
  int l2_mib;
  double copy_terabytes_per_second;
};

// The card named is the usual one of its kind. The copy speed of sm_90 is measured (one H200); the others are
// 0.9 of the memory's data sheet speed.
constexpr std::array kTargets = {
    TargetRow{75, 63, 40, 64, 64, 1024, 16, 4, 0.28},       // T4
    TargetRow{80, 70, 108, 163, 164, 2048, 32, 40, 1.83},   // A100
    TargetRow{86, 71, 82, 99, 100, 1536, 16, 6, 0.84},      // RTX 3090
    TargetRow{87, 74, 16, 163, 164, 1536, 16, 4, 0.18},     // Orin
    TargetRow{89, 78, 128, 99, 100, 1536, 24, 72, 0.91},    // RTX 4090
    TargetRow{90, 78, 132, 227, 228, 2048, 32, 50, 4.28},   // H200
    TargetRow{100, 86, 148, 227, 228, 2048, 32, 126, 7.2},  // B200
    TargetRow{120, 87, 170, 99, 100, 1536, 24, 96, 1.61},   // RTX 5090
};

}  // namespace

std::optional<Target> parse_target(std::string_view name) {
  if (name == "sim") {
    Target target = *parse_target("sm_90");
    target.name = "sim";
    target.sim = true;
    return target;
  }
  for (const TargetRow& row : kTargets) {
    if (fmt::format("sm_{}", row.sm) != name) continue;
    Target target;
    target.name = std::string(name);
    target.sm = row.sm;
    target.multiprocessors = row.multiprocessors;
    // Up to 8 is portable; more has to be asked for, and consumer parts do not give it.
    target.max_cluster = row.sm < 90 ? 1 : row.sm < 120 ? 16 : 8;
    target.max_shared_bytes = row.shared_kib * 1024;
    target.threads_per_multiprocessor = row.threads_together;
    target.blocks_per_multiprocessor = row.blocks_together;
    target.shared_per_multiprocessor = row.shared_kib_together * 1024;
    target.l2_bytes = std::int64_t{row.l2_mib} << 20;
    target.dram_bytes_per_second = row.copy_terabytes_per_second * 1e12;
    return target;
  }
  return std::nullopt;
}

std::vector<std::string> known_targets() {
  std::vector<std::string> names;
  for (const TargetRow& row : kTargets) names.push_back(fmt::format("sm_{}", row.sm));
  return names;
}

int minimum_ptx(int sm) {
  int version = kTargets.front().ptx;
  for (const TargetRow& row : kTargets) {
    if (row.sm <= sm) version = row.ptx;
  }
  return version;
}

Target with_ptx(Target target, int ptx) {
  target.ptx = ptx;
  if (ptx < kClusterPtx) target.max_cluster = 1;
  return target;
}

}  // namespace bz
