// Faults planted into kernels, each found by the simulator, with the line of kernel IR and the node of the graph.
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/emit/emit.h"
#include "compiler/lower/kernel_builder.h"
#include "end_to_end/harness.h"
#include "support/error.h"

using namespace bz;          // NOLINT
using namespace bz::kernel;  // NOLINT

namespace {

using Catch::Contains;
using Change = std::function<void(std::vector<Kernel>&)>;

// Where a statement stands.
struct Place {
  Block* block = nullptr;
  std::size_t at = 0;

  Stmt& operator*() const { return (*block)[at]; }
  void erase() const { block->erase(block->begin() + static_cast<std::ptrdiff_t>(at)); }
};

template <class Op>
void collect(Block& block, std::vector<Place>& out) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (std::holds_alternative<Op>(block[i].op)) out.push_back({&block, i});
    if (auto* f = std::get_if<For>(&block[i].op)) collect<Op>(f->body, out);
    if (auto* t = std::get_if<Turns>(&block[i].op)) collect<Op>(t->body, out);
    if (auto* c = std::get_if<If>(&block[i].op)) collect<Op>(c->body, out);
  }
}

// The statements of a kind, in the order of their lines.
template <class Op>
std::vector<Place> all(Kernel& k) {
  std::vector<Place> out;
  collect<Op>(k.body, out);
  return out;
}

template <class Op>
Op& get(const Place& p) {
  return std::get<Op>((*p).op);
}

bool shared(const Kernel& k, ArrayId a) {
  return k.arrays[static_cast<std::size_t>(a)].space == Space::shared;
}

// The first access to shared memory of a kind.
template <class Op>
Place in_shared(Kernel& k) {
  for (const Place& p : all<Op>(k)) {
    if (shared(k, get<Op>(p).array)) return p;
  }
  FAIL("no access to shared memory");
  return {};
}

// Puts the statement under the condition that the innermost thread variable is below `end`.
void make_conditional(Kernel& k, const Place& p, std::int64_t end) {
  IndexVar thread;
  for (const Place& loop : all<For>(k)) {
    if (get<For>(loop).level == Level::thread) thread = get<For>(loop).var;
  }
  k.values.push_back({DType::boolean, 1});
  const auto condition = static_cast<ValueId>(k.values.size() - 1);
  Stmt guarded = std::move(*p);
  *p = {If{condition, {std::move(guarded)}}};
  p.block->insert(p.block->begin() + static_cast<std::ptrdiff_t>(p.at),
                  Stmt{Inside{condition, {{Index::var(thread), 0, end}}}});
}

void emit_again(Plan& plan, const std::vector<Kernel>& kernels, const ir::Graph& graph) {
  plan.bitcode = emit::emit(kernels, plan.name, {});
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    plan.kernels[i].lines = plan_lines(kernels[i], graph);
    plan.kernels[i].shared_bytes = kernels[i].shared_bytes();
  }
}

// What a run of the plan on inputs of zeros says; every argument `shift` bytes from an address of 256 bytes.
std::string fault_of(const Plan& plan, const SimOptions& options = {.workers = 1}, std::int64_t shift = 0) {
  const auto device = open_sim(options);
  std::vector<DeviceBuffer> memory;
  std::vector<void*> arguments;
  for (const PlanBuffer& b : plan.buffers) {
    if (b.kind == PlanBuffer::Kind::temporary) continue;
    memory.emplace_back(*device, b.bytes() + shift);
    device->fill(memory.back().get(), 0, b.bytes() + shift);
    arguments.push_back(static_cast<std::byte*>(memory.back().get()) + shift);
  }
  try {
    device->load(plan)->run(arguments, nullptr);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

// The plan of a program whose kernels have been changed.
Plan changed(const std::string& program, const std::string& schedule, const Change& change) {
  const Compilation c =
      end_to_end::compile_for_sim(parse(program), {.schedule = schedule, .disabled = {"group"}});
  std::vector<Kernel> kernels;
  for (const CompiledKernel& k : c.kernels) kernels.push_back(k.kernel);
  change(kernels);
  Plan plan = c.plan;
  emit_again(plan, kernels, c.simplified);
  return plan;
}

// As a report gives it, the n-th line of a kernel that contains `what`.
std::string line(const Plan& plan, std::string_view what, int n = 0, std::size_t kernel = 0) {
  const std::vector<PlanLine>& lines = plan.kernels[kernel].lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].text.find(what) == std::string::npos || n-- > 0) continue;
    return fmt::format("\n  line {}: {}  ({})", i + 1, lines[i].text, lines[i].node);
  }
  FAIL("no line has '" << what << "'");
  return "";
}

// Sums of rows by two warps, which meet in shared memory.
constexpr const char* kRows =
    "graph rows { %x = input f32[4, 256] %s = sum %x {axes = [1]} %y = neg %s output %y }";
constexpr const char* kTwoWarps = "lanes=reduced,reduced=64";

Plan rows(const std::function<void(Kernel&)>& change) {
  return changed(kRows, kTwoWarps, [&](std::vector<Kernel>& k) { change(k[0]); });
}

// Sums of rows by two blocks, which send each other their part.
constexpr const char* kManyRows =
    "graph rows { %x = input f32[12, 256] %s = sum %x {axes = [1]} %y = neg %s output %y }";
constexpr const char* kTwoBlocks = "lanes=reduced,reduced=64,cluster=2";
// Each goes over several rows; of a block that has one warp.
constexpr const char* kInTurns = "lanes=reduced,vector=4,reduced=32,cluster=2,prefetch=1";

Plan shared_rows(const char* schedule, const std::function<void(Kernel&)>& change) {
  return changed(kManyRows, schedule, [&](std::vector<Kernel>& k) { change(k[0]); });
}

// What is exchanged lies in one place, that of the first round.
void use_one_place(Kernel& k) {
  const IndexVar round = get<Turns>(all<Turns>(k)[0]).round;
  const Index first(0);
  const auto once = [&](const Index& e) {
    return e.substitute([&](std::int32_t v) { return v == round.id ? &first : nullptr; });
  };
  for (const Place& p : all<Send>(k)) {
    Send& send = get<Send>(p);
    send.at = once(send.at), send.box = once(send.box);
  }
  for (const Place& p : all<Receive>(k)) {
    Receive& receive = get<Receive>(p);
    receive.box = once(receive.box), receive.round = Index::var(round);
  }
  for (const Place& p : all<Get>(k)) {
    if (shared(k, get<Get>(p).array)) get<Get>(p).at = once(get<Get>(p).at);
  }
}

// A kernel that 64 threads of one block run, from x to y of 64 numbers each, with 64 more in shared memory. `body` writes what
// thread `t` does.
Kernel by_one_block(
    std::string name,
    const std::function<void(compiler::KernelBuilder&, ArrayId shared, const Index& t)>& body) {
  Kernel k;
  k.name = std::move(name);
  k.vars = {"lane"};
  k.block = 64;
  k.buffers = {{.name = "x", .elements = 64}, {.name = "y", .elements = 64, .written = true}};
  compiler::KernelBuilder b(k);
  const ArrayId a = b.array("a", DType::f32, 64, Space::shared);
  const IndexVar block = b.var("b", 1), thread = b.var("t", 64);
  b.loop(block, Level::grid, [&] { b.loop(thread, Level::thread, [&] { body(b, a, Index::var(thread)); }); });
  return k;
}

// `graph`: what its nodes are called in reports.
Plan plan_of_one(const Kernel& k, const std::string& graph) {
  Plan plan;
  plan.name = k.name;
  const Type type{DType::f32, {64}};
  plan.buffers = {{"x", PlanBuffer::Kind::input, type}, {"y", PlanBuffer::Kind::output, type}};
  plan.kernels = {{.name = k.name, .arguments = {0, 1}, .block = 64, .synchronizes = true}};
  emit_again(plan, {k}, parse(graph));
  return plan;
}

// y[t] = -x[(t + 2) % 64], moved along twice through one array of shared memory. Leaves out a barrier.
Plan moved_along(std::size_t without) {
  Kernel k = by_one_block("moved", [](compiler::KernelBuilder& b, ArrayId a, const Index& t) {
    const Index next = mod(t + 1, 64);
    b.set(a, t, b.load(0, t, kNone, DType::f32));
    b.barrier(kernel::Scope::block);
    b.at(1);
    const auto v = b.apply(ScalarOp::neg, std::array{b.get(a, next, DType::f32)}, DType::f32);
    b.barrier(kernel::Scope::block);
    b.set(a, t, v);
    b.barrier(kernel::Scope::block);
    b.at(2);
    b.store(1, t, b.get(a, next, DType::f32), kNone);
  });
  const std::vector<Place> barriers = all<Barrier>(k);
  if (without < barriers.size()) barriers[without].erase();
  return plan_of_one(k, "graph moved { %x = input f32[64] %m = neg %x %y = abs %m output %y }");
}

// y[t] = x[0], which thread 0 has copied to shared memory; then all copies are made again.
Plan copied(const std::function<void(Kernel&)>& change) {
  Kernel k = by_one_block("copied", [](compiler::KernelBuilder& b, ArrayId a, const Index& t) {
    b.at(1);
    b.copy(a, t, 0, t, kNone);
    b.commit();
    b.await(0);
    b.barrier(kernel::Scope::block);
    b.store(1, t, b.get(a, Index(0), DType::f32), kNone);
    b.barrier(kernel::Scope::block);
    b.copy(a, t, 0, t, kNone);
    b.commit();
    b.await(0);
  });
  change(k);
  return plan_of_one(k, "graph copied { %x = input f32[64] %m = neg %x output %m }");
}

}  // namespace

TEST_CASE("sim has nothing to say against kernels as they are lowered") {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    const SimOptions options{.seed = seed, .workers = 2};
    CHECK(fault_of(rows([](Kernel&) {}), options) == "");
    CHECK(fault_of(moved_along(99), options) == "");
    for (const char* schedule :
         {"lanes=reduced,vector=4,reduced=64,keep=shared", "lanes=reduced,vector=4,reduced=64,keep=registers",
          "lanes=reduced,vector=4,reduced=64,prefetch=1,keep=registers", "lanes=reduced,kept=4,reduced=8",
          "lanes=kept,kept=32,reduced=4", "lanes=kept,vector=2,kept=32,reduced=2",
          "lanes=reduced,vector=4,reduced=32,cluster=2,prefetch=1,keep=registers",
          "lanes=kept,kept=32,reduced=4,cluster=4"}) {
      const std::string program =
          "graph g { %x = input f32[64, 200] %y = softmax %x {axes = [1]} output %y }";
      const std::string columns =
          "graph g { %x = input f32[200, 64] %y = softmax %x {axes = [0]} output %y }";
      CHECK(fault_of(changed(std::string_view(schedule).starts_with("lanes=kept") ? columns : program,
                             schedule, [](auto&) {}),
                     options) == "");
    }
  }
}

TEST_CASE("sim finds copies that are read too early, overwritten too early or never awaited") {
  CHECK(fault_of(copied([](Kernel&) {})) == "");

  const Plan early = copied([](Kernel& k) { all<Await>(k)[0].erase(); });
  CHECK(fault_of(early) ==
        "device error: kernel 'copied', block 0, thread 0: load of 4 bytes at byte 0 of shared memory, where "
        "nobody has written byte 0" +
            line(early, "= a[0]"));

  const Plan pending = copied([](Kernel& k) { get<Await>(all<Await>(k)[0]).pending = 1; });
  CHECK_THAT(fault_of(pending), Contains("nobody has written byte 0"));

  const Plan racing = copied([](Kernel& k) { all<Barrier>(k)[0].erase(); });
  CHECK(fault_of(racing) ==
        "device error: kernel 'copied', block 0, thread 1: load of 4 bytes at byte 0 of shared memory races "
        "with "
        "a store by thread 0: no barrier orders them" +
            line(racing, "= a[0]") + line(racing, "copy a"));

  const Plan overwriting = copied([](Kernel& k) { all<Barrier>(k)[1].erase(); });
  CHECK_THAT(fault_of(overwriting), Contains(line(overwriting, "= a[0]")));

  const Plan forgotten = copied([](Kernel& k) { all<Await>(k)[1].erase(); });
  CHECK(fault_of(forgotten) ==
        "device error: kernel 'copied', block 0, thread 0: a copy that its thread never awaits" +
            line(forgotten, "copy a", 1));
}

TEST_CASE("sim finds races in shared memory") {
  const Plan first = moved_along(0), second = moved_along(1), third = moved_along(2);
  CHECK(fault_of(first) ==
        "device error: kernel 'moved', block 0, thread 0: load of 4 bytes at byte 4 of shared memory, where "
        "nobody has "
        "written byte 4" +
            line(first, "= a["));
  CHECK(fault_of(second) ==
        "device error: kernel 'moved', block 0, thread 1: store of 4 bytes at byte 4 of shared memory races "
        "with a "
        "load by thread 0: no barrier orders them" +
            line(second, "a[t] =", 1) + line(second, "= a["));
  CHECK(fault_of(third) ==
        "device error: kernel 'moved', block 0, thread 1: store of 4 bytes at byte 4 of shared memory races "
        "with a "
        "load by thread 0: no barrier orders them" +
            line(third, "a[t] =", 1) + line(third, "= a[", 1));
  CHECK_THAT(line(second, "= a["), Contains("(%m = neg)"));
  CHECK_THAT(line(third, "= a[", 1), Contains("(%y = abs)"));
  // In another order of the threads a load comes second.
  bool loads = false, stores = false;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    const std::string fault = fault_of(third, {.seed = seed});
    CHECK_THAT(fault, Contains("races with"));
    loads |= fault.find("races with a load") != std::string::npos;
    stores |= fault.find("races with a store") != std::string::npos;
  }
  CHECK((loads && stores));

  // All warps put their part into one slot.
  const Plan one_slot = rows([](Kernel& k) { get<Set>(in_shared<Set>(k)).at = Index(0); });
  CHECK(fault_of(one_slot) ==
        "device error: kernel 'neg_0', block 0, thread 32: store of 4 bytes at byte 0 of shared memory races "
        "with a "
        "store by thread 0: no barrier orders them" +
            line(one_slot, "part0_0[0] ="));
}

TEST_CASE("sim finds races in global memory") {
  const Plan every_thread = rows([](Kernel& k) {
    const Place guard = all<If>(k).back();
    Block body = std::move(get<If>(guard).body);
    guard.erase();
    guard.block->insert(guard.block->begin() + static_cast<std::ptrdiff_t>(guard.at), body.begin(),
                        body.end());
  });
  CHECK(
      fault_of(every_thread) ==
      "device error: kernel 'neg_0', block 0, thread 1: store of 4 bytes at byte 0 of output 'y' races with "
      "a store by "
      "thread 0: no barrier orders them" +
          line(every_thread, "store y"));
  CHECK_THAT(line(every_thread, "store y"), Contains("(%y = neg)"));

  const Plan one_row = rows([](Kernel& k) { get<Store>(all<Store>(k)[0]).offset = Index(0); });
  CHECK(
      fault_of(one_row) ==
      "device error: kernel 'neg_0', block 1, thread 0: store of 4 bytes at byte 0 of output 'y' races with "
      "a store by "
      "thread 0 of block 0: nothing orders blocks" +
          line(one_row, "store y"));
  for (const std::uint64_t seed : {1, 2, 3}) {
    CHECK_THAT(fault_of(one_row, {.seed = seed, .workers = 2}), Contains("nothing orders blocks"));
  }
}

TEST_CASE("sim finds reads of what nobody wrote") {
  const Plan no_barrier = rows([](Kernel& k) { all<Barrier>(k)[0].erase(); });
  CHECK(fault_of(no_barrier) ==
        "device error: kernel 'neg_0', block 0, thread 1: load of 4 bytes at byte 4 of shared memory, where "
        "nobody has "
        "written byte 4" +
            line(no_barrier, "= part0_0["));
  CHECK_THAT(line(no_barrier, "= part0_0["), Contains("(%s = sum)"));

  const Plan no_parts = rows([](Kernel& k) { in_shared<Set>(k).erase(); });
  CHECK_THAT(fault_of(no_parts), Contains("shared memory, where nobody has written byte") &&
                                     Contains(line(no_parts, "= part0_0[")));

  const Plan no_result = rows([](Kernel& k) { all<Store>(k)[0].erase(); });
  CHECK(fault_of(no_result) ==
        "device error: program 'rows': no kernel has written element 0 of output 'y', which has 4");
  constexpr const char* kTwoKernels =
      "graph two { %x = input f32[8, 32] %a = sum %x {axes = [1]} %b = broadcast %a {shape = [8, 32], dims = "
      "[0]} "
      "%c = mul %x, %b %y = sum %c {axes = [0]} output %y }";
  const Plan half = changed(kTwoKernels, "", [](std::vector<Kernel>& k) {
    REQUIRE(k.size() == 2);
    all<Store>(k[0])[0].erase();
  });
  CHECK_THAT(fault_of(half), Contains("kernel 'sum_1', block 0, thread 0: load of ") &&
                                 Contains("of temporary 't0', where nobody has written byte 0") &&
                                 Contains(line(half, "load a[", 0, 1)));
}

TEST_CASE("sim names the line of an access outside of its memory") {
  const Plan shifted = rows([](Kernel& k) {
    Load& load = get<Load>(all<Load>(k)[0]);
    load.offset = load.offset + Index(1);
  });
  CHECK(fault_of(shifted) ==
        "device error: kernel 'neg_0', block 3, thread 63: load of 4 bytes at byte 4096 of input 'x', which "
        "has 4096 "
        "bytes" +
            line(shifted, "load x["));

  const Plan past = rows([](Kernel& k) {
    Set& set = get<Set>(in_shared<Set>(k));
    set.at = set.at + Index(4);
  });
  CHECK(
      fault_of(past) ==
      "device error: kernel 'neg_0', block 0, thread 0: store of 4 bytes at byte 16 of shared memory, which "
      "has 16 "
      "bytes" +
          line(past, "part0_0["));

  Plan vectors = changed("graph v { %x = input f32[256] %y = neg %x output %y }",
                         "lanes=kept,vector=4,kept=32", [](auto&) {});
  CHECK(fault_of(vectors) == "");
  vectors.alignment = 4;
  CHECK(fault_of(vectors, {.workers = 1}, 4) ==
        "device error: kernel 'neg_0', block 0, thread 0: load of 16 bytes at byte 0 of input 'x' is not "
        "aligned to 16 "
        "bytes" +
            line(vectors, "load x["));
}

TEST_CASE("sim finds blocks of a cluster that do not wait for each other") {
  const Plan unread = shared_rows(kTwoBlocks, [](Kernel& k) { all<Receive>(k)[0].erase(); });
  CHECK(fault_of(unread) ==
        "device error: kernel 'neg_0', block 1, thread 0: load of 4 bytes at byte 32 of shared memory, where "
        "nobody has written byte 32" +
            line(unread, "= block0_0["));
  CHECK_THAT(line(unread, "= block0_0["), Contains("(%s = sum)"));

  const Plan early = shared_rows(kTwoBlocks, [](Kernel& k) { all<Started>(k)[0].erase(); });
  CHECK(fault_of(early) ==
        "device error: kernel 'neg_0', block 0, thread 0: a message to a block that may not have started" +
            line(early, "send block0_0["));

  const Plan absent = shared_rows(kTwoBlocks, [](Kernel& k) { all<Start>(k)[0].erase(); });
  CHECK(fault_of(absent) ==
        "device error: kernel 'neg_0', block 0, thread 0: waits for the start of the cluster, where 0 of 128 "
        "threads are" +
            line(absent, "wait for the start"));

  const Plan closed = shared_rows(kTwoBlocks, [](Kernel& k) { get<Start>(all<Start>(k)[0]).boxes = kNone; });
  CHECK(fault_of(closed) == "device error: kernel 'neg_0', block 1, thread 0: a mailbox that was not opened" +
                                line(closed, "send block0_0["));
}

TEST_CASE("sim finds messages that do not come, or are too many, or go elsewhere") {
  const Plan silent = shared_rows(kTwoBlocks, [](Kernel& k) { all<Send>(k)[0].erase(); });
  CHECK(fault_of(silent) ==
        "device error: kernel 'neg_0', block 0, thread 0: waits for messages of 8 bytes, and 0 came" +
            line(silent, "receive 8 bytes"));

  const Plan wrong = shared_rows(kTwoBlocks, [](Kernel& k) { get<Receive>(all<Receive>(k)[0]).bytes = 12; });
  CHECK(fault_of(wrong) ==
        "device error: kernel 'neg_0', block 0, thread 0: waits for messages of 12 bytes, and 8 came" +
            line(wrong, "receive 12 bytes"));

  const Plan to_one = shared_rows(kTwoBlocks, [](Kernel& k) { get<Send>(all<Send>(k)[0]).rank = Index(1); });
  CHECK_THAT(fault_of(to_one), Contains("races with") && Contains(line(to_one, "send block0_0[")));
}

TEST_CASE("sim finds messages to where others may still read") {
  CHECK(fault_of(shared_rows(kInTurns, [](Kernel&) {})) == "");

  const Plan one_place = shared_rows(kInTurns, use_one_place);
  CHECK_THAT(fault_of(one_place), Contains(line(one_place, "= block0_0[")));

  const Plan no_barrier = shared_rows(kInTurns, [](Kernel& k) {
    REQUIRE(all<Barrier>(k).size() == 1);
    all<Barrier>(k)[0].erase();
  });
  CHECK_THAT(fault_of(no_barrier),
             Contains("races with a load by thread 2: no barrier orders them" +
                      line(no_barrier, "send block0_0[") + line(no_barrier, "= block0_0[")));

  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CHECK_THAT(fault_of(one_place, {.seed = seed, .workers = 2}), Contains(line(one_place, "= block0_0[")));
    CHECK_THAT(fault_of(no_barrier, {.seed = seed, .workers = 2}), Contains("races with"));
  }
}

TEST_CASE("sim finds threads that do not meet") {
  const SimOptions unchecked{.check_memory = false, .workers = 1};  // else a race is met first
  const Plan barrier = rows([](Kernel& k) { make_conditional(k, all<Barrier>(k)[0], 32); });
  CHECK(fault_of(barrier, unchecked) ==
        "device error: kernel 'neg_0', block 0, thread 0: barrier not reached by thread 32, which has "
        "finished" +
            line(barrier, "barrier"));

  const Plan shuffle = rows([](Kernel& k) {
    const Place first = all<Shuffle>(k)[0];
    Shuffle again = get<Shuffle>(first);
    k.values.push_back(k.values[static_cast<std::size_t>(again.result)]);
    again.result = static_cast<ValueId>(k.values.size() - 1);
    first.block->insert(first.block->begin() + static_cast<std::ptrdiff_t>(first.at), {again, (*first).node});
    make_conditional(k, first, 8);
  });
  CHECK(fault_of(shuffle, unchecked) ==
        "device error: kernel 'neg_0', block 0, thread 0: shuffle met by thread 8 at another shuffle" +
            line(shuffle, "= shuffle") + line(shuffle, "= shuffle", 1));

  const Plan two_places = rows([](Kernel& k) {
    const Place first = all<Barrier>(k)[0];
    const Stmt other = *first;
    make_conditional(k, first, 32);
    const Place guard = all<If>(k)[1];
    first.block->insert(first.block->begin() + static_cast<std::ptrdiff_t>(guard.at) + 1, other);
  });
  CHECK_THAT(fault_of(two_places), Contains("thread 0: barrier met by thread 32 at another barrier") &&
                                       Contains(line(two_places, "barrier", 0)) &&
                                       Contains(line(two_places, "barrier", 1)));
}

namespace {

// Statistics of samples that no block owns, and what is done with them: a queue.
Plan queue(const Change& change) {
  Target target = *parse_target("sim");
  target.multiprocessors = 16;
  target.max_cluster = 1;
  target.registers_per_multiprocessor = 16384;
  target.l2_bytes = 48 << 10;
  target.dram_bytes_per_second = 1e7;
  const ir::Graph g = parse(
      "graph q { %x = input f32[6, 8, 512] %s = sum %x {axes = [2], keepdims = true}"
      " %d = sub %x, %s %e = exp %d %y = max %e {axes = [1]} output %y }");
  const Compilation c = end_to_end::compile_for(target, g, {});
  REQUIRE(c.kernels.size() == 1);
  REQUIRE(c.kernels[0].group.queue > 0);
  std::vector<Kernel> kernels = {c.kernels[0].kernel};
  change(kernels);
  Plan plan = c.plan;
  emit_again(plan, kernels, c.simplified);
  return plan;
}

}  // namespace

TEST_CASE("sim finds what no signal orders, and waits that never end") {
  const Plan whole = queue([](auto&) {});
  const Plan no_wait = queue([](std::vector<Kernel>& k) { all<Wait>(k[0])[0].erase(); });
  const Plan no_signal = queue([](std::vector<Kernel>& k) { all<Signal>(k[0])[0].erase(); });
  const Plan too_many = queue([](std::vector<Kernel>& k) { get<Wait>(all<Wait>(k[0])[0]).count += 1; });
  for (const int workers : {1, 2, 3}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      const SimOptions options{.seed = seed, .workers = workers};
      CHECK(fault_of(whole, options) == "");
      CHECK_THAT(fault_of(no_signal, options),
                 Contains("no block that runs gives the others") && Contains("wait until queue["));
      CHECK_THAT(fault_of(too_many, options), Contains("no block that runs gives the others"));
    }
  }
  // Blocks that take work side by side read what another has written, or has not yet.
  bool found = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string fault = fault_of(no_wait, {.seed = seed, .workers = 3});
    if (fault.empty()) continue;
    found = true;
    CHECK_THAT(fault, Contains("nothing orders blocks") || Contains("no signal orders them") ||
                          Contains("nobody has written"));
  }
  CHECK(found);
}
