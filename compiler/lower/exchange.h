// How threads that share a domain combine what each has reduced: over the lanes of a warp by shuffles, over the warps of the
// block through its shared memory with one barrier, over the blocks of a cluster by messages. Every thread ends with the whole.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/lower/states.h"

namespace bz::compiler {

class Exchange {
 public:
  // `round`: how many turns the block has taken before this one.
  explicit Exchange(const StageContext& stage, const Index& round = Index(0))
      : stage_(stage), b_(stage.builder), states_(stage), warps_(warps_of(stage.schedule)), round_(round) {}

  // States of reductions, by number.
  using ByReduction = std::map<int, Handles>;
  // Those that a phase has made.
  void across_threads(ByReduction& states);

  // Those of a warp alone, whose lanes have several each.
  ByReduction across_lanes(const std::vector<ByReduction>& states);

  // Once a stage, before the first message: as late as possible, when loads are on their way.
  void wait_for_cluster();

 private:
  // States of some warps or blocks in shared memory.
  struct Parts {
    std::string_view name;
    int count;
    int places;  // in which they lie in turn
    std::map<int, std::vector<kernel::ArrayId>> arrays;
  };
  Parts parts_of(const ByReduction& states, std::string_view name, int count);
  Index slot_of(const Parts& parts, const Index& part) const;
  void combine_parts(ByReduction& states, const Parts& parts);

  Handles across_lanes(int r, std::span<const Handles> states, int count);
  Handles with_lane(int r, const Handles& state, int mask, int distance);
  void across_blocks(ByReduction& states);
  Handles whole(int r, const Parts& parts);

  const StageContext& stage_;
  KernelBuilder& b_;
  States states_;
  Warps warps_;
  Index round_;
  bool started_ = false;  // has waited for the cluster
};

}  // namespace bz::compiler
