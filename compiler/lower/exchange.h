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
  // Lanes of a warp that combine: so many, so far from each other, and this one's number.
  struct Lanes {
    int count, stride;
    Index number;
  };
  // What neighbouring lanes have put together of columns, some of them in turn; in which threads they are.
  struct Columns {
    Lanes lanes;
    std::vector<IndexBound> there;
    std::vector<std::pair<Index, ByReduction>> columns;
  };
  Parts parts_of(const ByReduction& states, std::string_view name, int count);
  Index slot_of(const Parts& parts, const Index& part) const;
  Index element_of(const Parts& parts, const Index& part, const Index& column) const;
  void combine_parts(ByReduction& states, const Parts& parts);

  Handles across_lanes(int r, std::span<const Handles> states, int count);
  Handles across_lanes(int r, std::span<const Handles> states, const Lanes& lanes);
  Handles with_lane(int r, const Handles& state, const Lanes& lanes, int distance);
  void across_blocks(ByReduction& states);
  template <class F>
  void between_blocks(const Parts& parts, F&& messages);
  void send(const ByReduction& states, const Parts& parts, const Index& element, const Index& to,
            const Index& box);
  void over_columns(ByReduction& states, const Parts& of_threads);
  Columns columns_of(const Parts& parts);
  template <class F>
  void for_each_column(const Columns& of, int count, F&& body);

  const StageContext& stage_;
  KernelBuilder& b_;
  States states_;
  Warps warps_;
  Index round_;
  bool started_ = false;  // has waited for the cluster
};

}  // namespace bz::compiler
