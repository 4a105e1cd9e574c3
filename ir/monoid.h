// Reductions as data. A reduction is a monoid: a state of a few components, its identity, a way to lift elements into
// a state and a way to combine two states. Interpreter, lowering and the law tests all read this one table.
//
//   sum prod max min any all argmax argmin   what users write
//   max_sumexp   of x, w1, .., wk (k may be 0): state (m, s, t1, .., tk), m = max x, s = sum exp(x - p(m)),
//                ti = sum exp(x - p(m)) * wi, p(m) = m, or 0 where m is infinite (online softmax, Milakov and
//                Gimelshein 2018). Identity (-inf, 0, .., 0).
//   moments      state (n, hi, lo, m2): count, mean = hi + lo with hi near every element, sum of squared deviations
//                (Welford 1962; merge by Chan, Golub and LeVeque 1983). Identity (0, 0, 0, 0). The unevaluated sum
//                hi + lo keeps x - mean exact to rounding when the mean is large beside the spread.
//
// Laws, tested for every row: combine is associative up to rounding, combine(identity, s) == s == combine(s, identity)
// exactly, combine(identity, identity) == identity exactly, lifting in any chunking gives the same state up to rounding. So do
// the other ways to the state of many elements: aligned states added up, and a running form.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/ops.h"

namespace bz {

enum class Monoid : std::uint8_t { sum, prod, max, min, any, all, argmax, argmin, max_sumexp, moments };

// Builds scalar arithmetic; a monoid's functions are written against it. Lowering implements it by appending kernel
// IR, the interpreter by computing. A handle is whatever the implementation says it is.
class ScalarBuilder {
 public:
  using Handle = std::int32_t;
  virtual ~ScalarBuilder() = default;
  virtual Handle apply(ScalarOp op, std::span<const Handle> args, DType result) = 0;
  virtual Handle constant(const Scalar& value) = 0;
  // exp(x) where x is never above 0 (it may be NaN), which can be had for less; above 0 the result is anything.
  virtual Handle exp_nonpositive(Handle x, DType type) { return apply(ScalarOp::exp, {&x, 1}, type); }
  // exp(x) for all elements of all `x`, added up: terms of a sum that is at least 1 where any number is in it. None is above
  // kHighestTerm, or the sum does not matter. What is too small to change such a sum may be any other number as small.
  static constexpr int kHighestTerm = 4;
  virtual Handle sum_of_terms(std::span<const Handle> x, DType type);
  // Where the condition holds `other()`, else `values`, all of one type. What is called is computed only if it holds anywhere.
  virtual std::vector<Handle> replace_if(Handle condition, std::span<const Handle> values, DType type,
                                         const std::function<std::vector<Handle>()>& other);
  // A handle may stand for several elements side by side (a vector); the next two see into it. Here: just one.
  // All elements of all of `values` folded to one with a commutative `op`, pairwise: the depth of dependent operations
  // and the rounding error grow with the logarithm.
  virtual Handle fold(ScalarOp op, std::span<const Handle> values, DType type);
  // The elements of a handle, one handle each.
  virtual std::vector<Handle> elements(Handle value) { return {value}; }
};

using Handles = std::vector<ScalarBuilder::Handle>;

// Folds with a commutative op the values of one, one for each of its states, and those of all others; everybody gets the whole.
using FoldAll = std::function<ScalarBuilder::Handle(ScalarOp, std::span<const ScalarBuilder::Handle>)>;

// What is carried instead of the state while chunk after chunk is taken in, where that costs less than to combine states.
struct Running {
  std::vector<DType> (*dtypes)(DType t);
  std::vector<Scalar> (*start)(DType t);
  // As `lift` of a monoid, but into `running`.
  Handles (*add)(ScalarBuilder& b, DType t, const Handles& running, std::span<const Handles> chunk,
                 const Handles& valid);
  Handles (*state)(ScalarBuilder& b, DType t, const Handles& running);
  int least;  // elements of a chunk: of fewer the states are combined for less
};

struct MonoidInfo {
  Monoid kind;
  std::string_view text;
  int inputs;      // operands reduced together: 2 for argmax and argmin (value, index), else 1
  int components;  // components of the state of so many inputs
  bool weights;    // takes any number of further inputs of the first one's type; each adds a component
  // combine(a, b) and combine(b, a) have the same bits. When false, lowering combines in index order.
  bool commutative;
  bool user;  // may be written in programs; the others are made by the compiler
  std::string_view doc;

  // Types of the state of `inputs` operands, the first (the value operand) of type `t`: f16 and bf16 accumulate in f32.
  std::vector<DType> (*component_dtypes)(DType t, int inputs);
  // The identity state.
  std::vector<Scalar> (*identity)(DType t, int inputs);
  Handles (*combine)(ScalarBuilder& b, DType t, const Handles& lhs, const Handles& rhs);
  // State of a chunk of elements: chunk[e][i] is operand i of entry e, already of the compute type. valid[e] is a bool
  // handle, or -1 for an entry that is always there; an invalid element counts as not there.
  Handles (*lift)(ScalarBuilder& b, DType t, std::span<const Handles> chunk, const Handles& valid);
  // The state of all together, of several that have some `states` each, as many as the others, where that takes less than to combine
  // pair after pair; nullptr where it does not.
  Handles (*together)(ScalarBuilder& b, DType t, std::span<const Handles> states,
                      const FoldAll& all) = nullptr;
  const Running* running = nullptr;  // of states without weights; nullptr: there is none
};

std::span<const MonoidInfo> monoids();
const MonoidInfo& info(Monoid m);
std::optional<Monoid> parse_monoid(std::string_view text);

// Components of the state of `inputs` operands.
inline int components_of(const MonoidInfo& m, int inputs) { return m.components + inputs - m.inputs; }
// Inputs of a reduction with `operands` operands: they are its inputs, of which the index of argmax and argmin may be
// left out, or, when it merges, the components of partial states.
int inputs_of(const MonoidInfo& m, int operands, bool merge);

}  // namespace bz
