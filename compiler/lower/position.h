// Where a thread is: the variables of a region as index expressions over those of the kernel. Nothing is written here.
//
// A block of the schedule fixes the kept variables, up to the threads along them. A Step is one vector of a thread in its
// domain; it fixes the reduced ones.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compiler/lower/context.h"

namespace bz::compiler {

using Memo = std::map<ExprId, Handle>;

// One step of a thread through its domain: where the reduced variables are, and what has been computed there.
struct Step {
  std::vector<std::pair<std::int32_t, Index>> reduced;  // region variable -> kernel index
  Index number;                    // of the vector among those of the thread that shared memory holds,
  std::int64_t count = 0;          // and how many these are
  Index own;                       // in what the thread itself holds
  std::vector<IndexBound> bounds;  // of the domain, where they may fail
  Memo memo;
  std::map<std::vector<IndexBound>, Handle> masks;
};

class Position {
 public:
  // That of a thread while its block does number `block` of the schedule's.
  Position(const StageContext& stage, const Index& block);

  // The block is known to be there, and to have all of its domains.
  void assume_full() {
    domain_bounds_.clear();
    warp_bounds_.clear();
  }

  const Index& block() const { return block_; }
  // Where the thread has a domain, if it may have none.
  const std::vector<IndexBound>& domain_bounds() const { return domain_bounds_; }
  // Where what belongs to a domain may be loaded.
  const std::vector<IndexBound>& load_bounds() const { return wraps_ ? none_ : domain_bounds_; }

  // Where any thread of the warp has a domain. Of threads that share theirs all are needed: none are left out.
  const std::vector<IndexBound>& warp_bounds() const { return warp_bounds_; }

  // An expression over variables of the region. Without a step: over kept ones.
  Index at(const Index& e, const Step* step) const;
  std::vector<IndexBound> at(const std::vector<IndexBound>& bounds, const Step* step) const;

  // Vector number `vector` of the thread. `masked`: the domain may end inside.
  Step step(const Index& vector, bool masked) const;
  // All steps of the thread where the domain stays in registers, the first `vectors` of one group otherwise. Only steps in which the
  // domain may end are masked.
  std::vector<Step> steps_of(const Index& group, bool masked, std::int64_t vectors) const;
  // Whether vector `i` of every thread lies inside the domain.
  bool is_inside(std::int64_t i) const;
  // Whether few threads have any of `count` vectors from number `first` on, the last of a domain: warps of the others may do without them.
  bool few_have(std::int64_t first, std::int64_t count) const;
  // Where the vector begins in the domain, and the thread has one: it is copied whole then.
  std::vector<IndexBound> begin_bounds(const Step& step) const;

  // Where shared memory holds the step's vector, which it holds in so many pieces: neighbouring threads have neighbouring ones.
  Index slot(const Step& step, int pieces) const;

 private:
  // Of all threads that share a domain, in one vector of each.
  std::int64_t elements_of_vector() const { return stage_.extent.per_group / stage_.schedule.unroll; }

  const StageContext& stage_;
  Index block_;
  std::vector<std::pair<std::int32_t, Index>> kept_;  // region variable -> kernel index
  std::vector<IndexBound> domain_bounds_, warp_bounds_, none_;
  bool wraps_ = false;  // a thread without a domain goes over that of another one
};

}  // namespace bz::compiler
