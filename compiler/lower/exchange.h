// How threads that share a domain combine what each has reduced: over the lanes of a warp by shuffles, over the warps of the
// block through its shared memory with one barrier, over the blocks of a cluster by messages. Every thread ends with the whole.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "compiler/lower/states.h"

namespace bz::compiler {

class Exchange {
 public:
  // `round`: how many turns the block has taken before this one.
  explicit Exchange(const StageContext& stage, const Index& round = Index(0))
      : stage_(stage), b_(stage.builder), states_(stage), warps_(warps_of(stage.schedule)), round_(round) {}

  // The states of some reductions, by number, that a phase has made.
  void across_threads(std::map<int, Handles>& states);

  // Once a stage, before the first message: as late as possible, when loads are on their way.
  void wait_for_cluster();

 private:
  // Shared memory for the states of some warps or blocks.
  struct Parts {
    std::string_view name;
    int count;
    int places;  // in which they lie in turn
    std::map<int, std::vector<kernel::ArrayId>> arrays;
  };
  Parts parts_of(const std::map<int, Handles>& states, std::string_view name, int count);
  Index slot_of(const Parts& parts, const Index& part) const;

  Handles across_lanes(int r, Handles state, int count);
  Handles with_lane(int r, const Handles& state, int mask, int distance);
  void across_warps(std::map<int, Handles>& states);
  void across_blocks(std::map<int, Handles>& states);
  void combine_parts(std::map<int, Handles>& states, const Parts& parts);
  Handles whole(int r, const Parts& parts);

  const StageContext& stage_;
  KernelBuilder& b_;
  States states_;
  Warps warps_;
  Index round_;
  bool started_ = false;  // has waited for the cluster
};

}  // namespace bz::compiler
