// Checks that a pass keeps what a graph means: the float64 interpreter before and after, on inputs full of
// edge values.
#pragma once

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "ir/interpret.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace bz::pass_testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::array kEdges = {0.0,  -0.0, 1.0,   -1.0,  0.5,  -2.5, 3.0,   2.0,
                                      kInf, kNan, 1e-40, -kInf, 1e20, 89.0, -100.0};

// Every combination of edge values in the first two inputs, in 225 elements.
inline HostTensor every_edge(const Type& type, std::size_t input) {
  HostTensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    auto at = static_cast<std::size_t>(input % 2 == 0 ? i : i / static_cast<std::int64_t>(kEdges.size()));
    double v = kEdges[at % kEdges.size()];
    t.set(i, is_float(type.dtype)
                 ? Scalar::of(type.dtype, v)
                 : Scalar::of_int(type.dtype, type.dtype == DType::boolean ? at % 2 : at % 15 - 7));
  }
  return t;
}

// Random numbers with an edge value here and there.
inline HostTensor some_edges(const Type& type, std::uint64_t seed, int one_in) {
  HostTensor t = random_tensor(type, seed);
  if (!is_float(type.dtype)) return t;
  std::uint64_t state = seed * 2654435761u + 1;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if ((state >> 40) % static_cast<std::uint64_t>(one_in) == 0) {
      t.set(i, Scalar::of(type.dtype, kEdges[(state >> 33) % kEdges.size()]));
    }
  }
  return t;
}

using Inputs = std::map<std::string, HostTensor>;

// Bitwise for `tolerance` 0, but for NaN, which has no sign.
inline void check_equal(const ir::Graph& before, const ir::Graph& after, const Inputs& inputs,
                        double tolerance) {
  auto want = interpret_reference(before, inputs), got = interpret_reference(after, inputs);
  REQUIRE(want.size() == got.size());
  for (const auto& [name, w] : want) {
    const ReferenceTensor& g = got.at(name);
    REQUIRE(w.type == g.type);
    std::int64_t wrong = 0, first = -1;
    for (std::int64_t i = 0; i < element_count(w.type.shape); ++i) {
      double a = w.value(i), b = g.value(i);
      bool equal = std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b)
                   : tolerance == 0               ? a == b && std::signbit(a) == std::signbit(b)
                                    : a == b || std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(a));
      if (equal) continue;
      if (wrong++ == 0) first = i;
    }
    if (wrong == 0) continue;
    FAIL_CHECK(fmt::format("output {}: {} elements differ, the first at {}: {} became {}\n{}\n{}", name,
                           wrong, first, w.value(first), g.value(first), print(before), print(after)));
  }
}

// The pass on the program, verified, compared on every_edge() and on random inputs; returns its result.
template <class Pass>
ir::Graph check_pass(const Pass& pass, const ir::Graph& before, double tolerance = 0) {
  ir::Graph after = pass(before);
  INFO(print(after));
  CHECK_NOTHROW(verify_or_throw(after, "the pass"));
  for (int round = 0; round < 7; ++round) {
    Inputs inputs;
    std::size_t k = 0;
    for (NodeId id : before.inputs()) {
      const Type& type = before.type(id);
      inputs[before.node(id).name] =
          round == 0 ? every_edge(type, k)
                     : some_edges(type, 100 * static_cast<std::uint64_t>(round) + k, 1 << (2 * round));
      ++k;
    }
    check_equal(before, after, inputs, tolerance);
  }
  return after;
}

}  // namespace bz::pass_testing
