// Ranges hold what they must: for every op, random ranges and values in them, the result of the values is in the
// range of the result. And they hold no more than that where nothing rounds.
#include "range.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "enclosure.h"
#include "ir/parse.h"
#include "random_graph.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Scalar some_value(DType t, Dice& dice) {
  static constexpr double kEdges[] = {0, 1, -1, kInf, -kInf, kNan, 0.5, -2, 3, 1e-40, 3e38, -3e38, 88.5, 1.5};
  if (!is_float(t)) return Scalar::of_int(t, t == DType::boolean ? dice.below(2) : dice.between(-20, 20));
  if (dice.one_in(4)) return Scalar::of(t, dice.pick(kEdges));
  return Scalar::of(t, static_cast<double>(dice.between(-4000, 4000)) / 512);
}

// A range with `value` in it.
Range around(const Scalar& value, Dice& dice) {
  Range r = Range::of(value);
  for (std::int64_t more = dice.below(3); more > 0; --more)
    r = hull(r, Range::of(some_value(value.dtype, dice)));
  return r;
}

bool holds(const Range& r, const Scalar& s) {
  if (!is_float(s.dtype)) return r.holds(static_cast<long double>(s.i));
  return std::isnan(s.f) ? r.nan : r.holds(s.f);
}

Enclosure enclosure_of(const std::string& statements, const std::vector<double>& x) {
  const ir::Graph g =
      parse(fmt::format("graph g {{ %x = input f32[{}] {} output y = %y }}", x.size(), statements));
  HostTensor t(g.type(0));
  for (std::size_t k = 0; k < x.size(); ++k)
    t.set(static_cast<std::int64_t>(k), Scalar::of(DType::f32, x[k]));
  return enclose(g, {{"x", t}}, Arithmetic::own).at("y");
}
std::string of(const std::string& statements, const std::vector<double>& x) {
  return to_string(enclosure_of(statements, x).elements.at(0));
}

}  // namespace

TEST_CASE("ranges hold the results of all values in them") {
  Dice dice(5);
  for (const ScalarOpInfo& row : scalar_ops()) {
    for (const DType t : kAllDTypes) {
      if (!accepts(row.op, t)) continue;
      for (int k = 0; k < 2000; ++k) {
        const DType target = row.result == Result::same      ? t
                             : row.result == Result::boolean ? DType::boolean
                                                             : dice.pick(kAllDTypes);
        std::vector<Scalar> values;
        std::vector<Range> ranges;
        std::string text(row.text);
        for (int o = 0; o < row.arity; ++o) {
          const bool condition = row.op == ScalarOp::select && o == 0;
          values.push_back(some_value(condition ? DType::boolean : t, dice));
          ranges.push_back(around(values.back(), dice));
          text += fmt::format(" {} in [{}]", to_string(values.back()), to_string(ranges.back()));
        }
        Scalar result = evaluate(row.op, values, target);
        Range r = map(row.op, ranges, t, target, Arithmetic::reference);
        bool good = holds(r, result);
        // The quotient is rounded before the floor: that is not the rounded floor.
        if (good && row.op != ScalarOp::floordiv) {
          if (is_float(target)) result.f = round_to(compute_dtype(target), result.f);
          r = map(row.op, ranges, t, target, Arithmetic::own);
          good = holds(r, result);
        }
        if (good) continue;
        FAIL_CHECK(fmt::format("{} {} is {}, outside of {}", name(t), text, to_string(result), to_string(r)));
        break;
      }
    }
  }
}

TEST_CASE("enclosures are exact where nothing rounds, and know what rounding decides") {
  CHECK(of("%y = add %x, 0.1", {0.2}) == to_string(Range::of(Scalar::of(DType::f32, 0.3f))));
  CHECK(of("%y = max %x", {1, kInf, 2}) == "inf");
  CHECK(of("%y = max %x", {1, kNan, 2}) == "NaN");
  CHECK(of("%y = argmax %x", {1, 5, 5, 2}) == "1");
  CHECK(of("%y = argmin %x", {1, kNan, 5, kNan}) == "1");
  CHECK(of("%y = sum %x", {kInf, -kInf}) == "NaN");
  CHECK(of("%y = sum %x", {3e38, -3e38, 1}) == "-inf to inf or NaN");
  // Whether the root is 2 or a little less, nobody knows.
  CHECK(of("%r = exp %x %f = floor %r %y = cast %f {dtype = i32}", {0.6931472}) == "1 to 2");
  CHECK(of("%r = exp %x %y = gt %r, 1.9", {0.6931472}) == "1");
  CHECK(of("%r = exp %x %y = gt %r, 2", {0.6931472}) == "0 to 1");
  // Sums are known to a few roundings, and what cancels is not held to its own size.
  const Range sum = enclosure_of("%y = sum %x", {1e4, -1e4, 0.25}).elements.at(0);
  CHECK(sum.holds(0.25));
  CHECK(sum.hi - sum.lo < 0.05L);
  CHECK(sum.hi - sum.lo > 1e-4L);
}

TEST_CASE("enclosures name the element that is outside") {
  const Enclosure e = enclosure_of("%y = neg %x", {1, 2});
  HostTensor got(e.type);
  got.set(0, Scalar::of(DType::f32, -1));
  got.set(1, Scalar::of(DType::f32, 2));
  CHECK(outside(e, got) == "[1] is 2, expected -2");
  got.set(1, Scalar::of(DType::f32, -2));
  CHECK(outside(e, got) == "");
}
