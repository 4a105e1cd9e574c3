// What the verifier of Kernel IR refuses, and how kernels are printed.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "compiler/lower/kernel_builder.h"
#include "ir/kernel.h"

using namespace bz;          // NOLINT
using namespace bz::kernel;  // NOLINT

namespace {

using compiler::KernelBuilder;

// What the message is made of.
struct Exchange {
  DType dtype = DType::f32;  // of where it goes
  DType value = DType::f32;  // of what is sent
  Space space = Space::shared;
  DType boxes = DType::i64;
  Space boxes_space = Space::shared;
  int cluster = 2;
  Index rank = Index(1);
  Index at = Index(0), box = Index(0);
  std::int64_t bytes = 8;
  bool start_guarded = false, started_guarded = false, receive_guarded = false;
};

// Thread 0 of each block of a cluster sends a number to block `rank`.
Kernel kernel_of(const Exchange& e) {
  Kernel k;
  k.name = "exchange";
  k.vars = {"lane"};
  k.grid = 2 * e.cluster;
  k.cluster = e.cluster;
  k.block = 32;
  KernelBuilder b(k);
  const ArrayId parts = b.array("parts", e.dtype, 2, e.space);
  const ArrayId boxes = b.array("boxes", e.boxes, 1, e.boxes_space);
  const IndexVar team = b.var("b", 2), rank = b.var("rank", e.cluster), t = b.var("t", 32);
  const auto when_first = [&](bool guarded, const std::function<void()>& body) {
    if (!guarded) return body();
    b.when(b.inside({{Index::var(t), 0, 1}}), body);
  };
  b.loop(team, Level::grid, [&] {
    b.loop(rank, Level::cluster, [&] {
      b.loop(t, Level::thread, [&] {
        when_first(e.start_guarded, [&] { b.start(boxes); });
        when_first(e.started_guarded, [&] { b.started(); });
        const auto value = b.constant(Scalar::of(e.value, 1));
        when_first(true, [&] { b.send(parts, e.at, value, e.rank, boxes, e.box); });
        when_first(e.receive_guarded, [&] { b.receive(boxes, e.box, Index(0), e.bytes); });
      });
    });
  });
  return k;
}

using Problems = std::vector<std::string>;

Problems problems(const Exchange& e) { return verify(kernel_of(e)); }

}  // namespace

TEST_CASE("kernel: messages of 4 and 8 bytes to mailboxes are allowed") {
  CHECK(problems({}) == Problems{});
  for (const DType t : kAllDTypes) {
    INFO(name(t));
    if (size_of(t) >= 4) CHECK(problems({.dtype = t, .value = t}) == Problems{});
  }
  CHECK(problems({.cluster = 16, .rank = Index(15), .at = Index(1)}) == Problems{});
}

TEST_CASE("kernel: messages of other sizes, between types, and to registers are refused") {
  CHECK(problems({.dtype = DType::f16, .value = DType::f16}) ==
        Problems{"kernel exchange: a message of f16 to parts"});
  CHECK(problems({.dtype = DType::boolean, .value = DType::boolean}) ==
        Problems{"kernel exchange: a message of bool to parts"});
  CHECK(problems({.dtype = DType::f64}) == Problems{"kernel exchange: a message of f32 to parts"});
  CHECK(problems({.space = Space::registers}) == Problems{"kernel exchange: a message to registers"});
  CHECK(problems({.at = Index(2)}) == Problems{"kernel exchange: parts[2..2] is outside its 2 elements"});
}

TEST_CASE("kernel: messages to blocks that are not of the cluster are refused") {
  CHECK(problems({.rank = Index(2)}) == Problems{"kernel exchange: block 2..2 of a cluster of 2"});
  CHECK(problems({.rank = Index(-1)}) == Problems{"kernel exchange: block -1..-1 of a cluster of 2"});
  CHECK(problems({.cluster = 8, .rank = Index::var({99, 16})}) ==
        Problems{"kernel exchange: block 0..15 of a cluster of 8"});
}

TEST_CASE("kernel: mailboxes are elements of a shared array of i64") {
  CHECK(problems({.boxes = DType::i32}) == Problems(3, "kernel exchange: boxes has no mailboxes"));
  CHECK(problems({.boxes_space = Space::registers}) ==
        Problems(3, "kernel exchange: boxes has no mailboxes"));
  CHECK(problems({.box = Index(1)}) == Problems(2, "kernel exchange: boxes[1..1] is outside its 1 elements"));
}

TEST_CASE("kernel: all threads of a block start, wait for the start and receive") {
  CHECK(problems({.start_guarded = true}) ==
        Problems{"kernel exchange: a start of the cluster under a condition"});
  CHECK(problems({.started_guarded = true}) ==
        Problems{"kernel exchange: a wait for the start of the cluster under a condition"});
  CHECK(problems({.receive_guarded = true}) ==
        Problems{"kernel exchange: messages received under a condition"});
  CHECK(problems({.bytes = 0}) == Problems{"kernel exchange: messages of 0 bytes"});
}

TEST_CASE("kernel: terms of a sum are floating and of one type") {
  const auto errors = [](const Value& term, const Value& sum, std::vector<ValueId> terms) {
    Kernel k;
    k.name = "terms";
    k.vars = {"lane"};
    k.values = {term, sum};
    k.body.push_back({Const{0, Scalar::of(term.dtype, 1)}});
    k.body.push_back({SumOfTerms{1, std::move(terms)}});
    return verify(k);
  };
  using Errors = std::vector<std::string>;
  CHECK(errors({DType::f32, 4}, {DType::f32, 1}, {0, 0}).empty());
  CHECK(errors({DType::f64, 4}, {DType::f64, 4}, {0}).empty());
  CHECK(errors({DType::f32, 1}, {DType::f64, 1}, {0, 0}) ==
        Errors(2, "kernel terms: v0 is f32, a term of f64"));
  CHECK(errors({DType::i32, 1}, {DType::i32, 1}, {0}) == Errors{"kernel terms: v1 of exp is i32"});
  CHECK(errors({DType::f32, 2}, {DType::f32, 4}, {0}) ==
        Errors{"kernel terms: v0 of width 2 in a result of width 4"});
  CHECK(errors({DType::f32, 1}, {DType::f32, 1}, {}) == Errors{"kernel terms: v1 is a sum of nothing"});
}

TEST_CASE("kernel: messages are printed with their mailboxes") {
  CHECK(print(kernel_of({})) == R"(kernel exchange()  grid 4, cluster 2, block 32, shared 32 bytes
  shared parts: f32[2]
  shared boxes: i64[1]
  for b in 0..2 grid
    for rank in 0..2 cluster
      for t in 0..32 thread
        start, open boxes
        wait for the start of the cluster
        v0 = 1                                            f32
        v1 = 0 <= t < 1                                   bool
        if v1
          send parts[0] of block 1 = v0 by boxes[0]
        receive 8 bytes from boxes[0], round 0
)");
}

TEST_CASE("kernel: scaled exponentials are of one floating type, as many as there are elements") {
  const auto errors = [](const Value& x, const Value& pivot, std::vector<ValueId> of, const Value& result) {
    Kernel k;
    k.name = "exponentials";
    k.vars = {"lane"};
    k.values = {x, pivot, result, {pivot.dtype, 1}};
    k.body.push_back({Const{0, Scalar::of(x.dtype, 1)}});
    k.body.push_back({Const{1, Scalar::of(pivot.dtype, 1)}});
    k.body.push_back({ScaledExp{{2}, std::move(of), 1, 1}});
    k.body.push_back({ExpFactor{3, 1}});
    return verify(k);
  };
  using Errors = std::vector<std::string>;
  const Value one{DType::f32, 1}, wide{DType::f32, 4};
  CHECK(errors(wide, one, {0}, wide).empty());
  CHECK(errors(wide, wide, {0}, wide) == Errors{"kernel exponentials: v1 of width 4 in a result of width 1"});
  CHECK(errors(one, one, {0, 0}, one) == Errors{"kernel exponentials: 1 exponentials of 2 values"});
  CHECK(errors({DType::f64, 1}, one, {0}, one) == Errors{"kernel exponentials: v0 is f64, of exp of f32"});
  CHECK(errors({DType::i32, 1}, one, {0}, {DType::i32, 1}).front() ==
        "kernel exponentials: v2 of exp is i32");
}

TEST_CASE("kernel: an array is within a shared one that holds it") {
  const auto errors = [](std::vector<Array> arrays) {
    Kernel k;
    k.name = "arrays";
    k.vars = {"lane"};
    k.arrays = std::move(arrays);
    return verify(k);
  };
  using Errors = std::vector<std::string>;
  const Array host{"host", DType::f32, 8, Space::shared};
  const auto guest = [](std::int64_t elements, ArrayId within, Space space = Space::shared) {
    return Array{"guest", DType::bf16, elements, space, within};
  };
  CHECK(errors({host, guest(16, 0)}).empty());
  CHECK(errors({host, guest(17, 0)}) == Errors{"kernel arrays: guest of 34 bytes is within host of 32"});
  for (const ArrayId nobody : {1, 2, -2})
    CHECK(errors({host, guest(16, nobody)}) ==
          Errors{"kernel arrays: guest has no shared array that it is within"});
  CHECK(errors({host, guest(16, 0, Space::registers)}) ==
        Errors{"kernel arrays: guest has no shared array that it is within"});
  Kernel k;
  k.arrays = {{"a", DType::f32, 3, Space::shared}, host, guest(16, 1), {"b", DType::f32, 1, Space::shared}};
  CHECK(k.shared_offset(1) == 16);
  CHECK(k.shared_offset(2) == 16);
  CHECK(k.shared_offset(3) == 48);
  CHECK(k.shared_bytes() == 64);
}
