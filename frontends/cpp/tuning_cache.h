// Measured times of the candidates of kernels, kept on disk: one file a kernel, device and version.
//
//   const TuningCache cache(tuning_folder());
//   std::optional<StageTimes> times = cache.find(key);
//   if (!times) cache.keep(key, measure());
//
// A file holds its whole key. One that is damaged, or whose key is another, is as good as none. Files are written under a
// temporary name and renamed; one that cannot be written is no error, the next process measures again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "ir/target.h"

namespace bz {

struct TuningKey {
  std::string device, driver;
  Target target;
  bool fast_math = false;
  std::string kernel;  // what it computes and for which shapes, with no names of the program
};

using StageTimes = std::vector<compiler::Measurements>;  // by stage of the kernel

// $BRAZE_CACHE, or else braze/ in $XDG_CACHE_HOME or ~/.cache; empty when none of these is set.
std::filesystem::path tuning_folder();

class TuningCache {
 public:
  explicit TuningCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::optional<StageTimes> find(const TuningKey& key) const;
  void keep(const TuningKey& key, const StageTimes& times) const;
  std::filesystem::path file(const TuningKey& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace bz
