// Evaluates a group of map nodes tile by tile: a tile's worth of every operand is loaded, every map is
// applied to whole arrays, and only the wanted results are kept. Intermediates of the group never exist in
// full.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/interpret/values.h"

namespace bz::interpret_detail {

inline constexpr std::int64_t kTile =
    2048;  // elements: 16 KiB an array, a few of which fit the first-level cache

// out[k] = op(args[0][k], ...) for `count` elements; out.dtype is the type of the result. `out` may be an
// argument.
void apply(ScalarOp op, std::span<const Array> args, const Array& out, std::int64_t count);

// Arrays of kTile elements, used again after reset().
class Arena {
 public:
  Array take(DType dtype);
  void reset() { used_ = 0; }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::size_t used_ = 0;
};

class Tape {
 public:
  // Computes `results`. Nodes for which `inside` holds are maps to compute here, for the others `source` has
  // the value. The axes of the common shape are taken in `order`, the last one fastest.
  Tape(const ir::Graph& g, std::span<const NodeId> results, const std::function<bool(NodeId)>& inside,
       const std::function<const Source&(NodeId)>& source, const Axes& order);

  // Elements begin .. begin + count, in that order; at most kTile.
  void run(std::int64_t begin, std::int64_t count);
  // The results of the last run, in the order they were asked for.
  const Array& result(std::size_t k) const { return slots_[static_cast<std::size_t>(results_[k])]; }
  // 0 or 1 for every element of the last run; null data when all are there.
  const Array& present() const { return present_; }

 private:
  struct Step {
    int loader = -1;  // index into loaders_, or -1 for a map
    ScalarOp op = ScalarOp::neg;
    DType dtype = DType::f32;
    std::vector<int> args;  // values
    int value = 0;          // the value made
  };
  void assign_slots(int values);

  std::vector<Loader> loaders_;
  std::vector<Step> steps_;  // values, then slots after assign_slots
  std::vector<int> results_;
  std::vector<Array> slots_;
  Arena arena_;
  Array present_, loaded_present_;
};

}  // namespace bz::interpret_detail
