// Kernels whose blocks take tickets of a queue: on a machine so small that samples of a few KiB fit no block.
#include <fmt/format.h>

#include "compiler/schedule/queue.h"
#include "harness.h"
#include "support/error.h"

using namespace bz;              // NOLINT
using namespace bz::compiler;    // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// Many multiprocessors for few samples, no clusters, memory so slow that launches cost nothing, and an L2 of little more than
// a sample.
Target small_machine(std::int64_t l2_bytes) {
  Target t = *parse_target("sim");
  t.multiprocessors = 16;
  t.max_cluster = 1;
  t.l2_bytes = 3 * l2_bytes / 2;
  t.dram_bytes_per_second = 1e7;
  return t;
}

struct Sample {
  std::string text;
  std::int64_t l2_bytes;
};

Compilation compiled(const Sample& p, const std::string& schedule = "") {
  return compile_for(small_machine(p.l2_bytes), parse(p.text), {.schedule = schedule});
}

// The program is one queue of so many stages, and right in any order of the threads.
void check_queue(const Sample& p, std::size_t stages, const std::string& schedule = "") {
  const ir::Graph g = parse(p.text);
  INFO(print(g));
  const Compilation c = compiled(p, schedule);
  INFO(c.explain());
  REQUIRE(c.kernels.size() == 1);
  CHECK(c.kernels[0].group.queue > 0);
  CHECK(c.kernels[0].group.stages.size() == stages);
  CHECK(c.kernels[0].kernel.persistent);
  for (const std::uint64_t seed : {1, 2, 3}) {
    Options options;
    options.target = small_machine(p.l2_bytes);
    options.schedule = schedule;
    options.seed = seed;
    check(g, options);
    options.misaligned = true;
    check(g, options);
  }
}

Sample tail(int samples, int height) {
  return {fmt::format("graph tail {{ %x = input f32[{}, 8, {}, 15] %gamma = input f32[8] %beta = input f32[8]"
                      " %n = group_norm %x, %gamma, %beta {{groups = 4}} %t = tanh %n %r = add %x, %t"
                      " %y = logsumexp %r {{axes = [1]}} output %y }}",
                      samples, height),
          32 << 10};
}

Sample norm(int samples, int width) {
  return {
      fmt::format("graph norm {{ %x = input f32[{}, 8, {}] %y = layer_norm %x {{axes = [1, 2]}} output %y }}",
                  samples, width),
      512 << 10};
}

}  // namespace

TEST_CASE("statistics of a sample and what is done with them are one queue") {
  check_queue(tail(6, 17), 2);
  check_queue(tail(9, 32), 2);
  check_queue(tail(6, 17), 2, "logsumexp_1: lanes=kept,kept=128,queue=2");
  check_queue(tail(6, 17), 2, "logsumexp_1: lanes=kept,kept=32,reduced=2,queue=4");
  // What one stage gives the next is an output as well.
  check_queue({"graph both { %x = input f32[6, 8, 512] %s = sum %x {axes = [2], keepdims = true}"
               " %d = sub %x, %s %e = tanh %d %y = max %e {axes = [1]} output %y output %s }",
               32 << 10},
              2);
  // An output of half precision, while the next stage has what was not rounded.
  check_queue({"graph half { %x = input f16[6, 8, 512] %m = mean %x {axes = [2], keepdims = true}"
               " %d = sub %x, %m %e = tanh %d %y = max %e {axes = [1]} output %y output %m }",
               32 << 10},
              2);
}

TEST_CASE("statistics in parts, their combination and what is done with them are one queue") {
  check_queue(norm(6, 8192), 3);
  check_queue(norm(5, 8191), 3);
}

TEST_CASE("queues of many shapes are right with every schedule that a stage could have") {
  std::uint64_t seed = 0;
  const auto check_with = [&](const Sample& s, const std::string& schedule) {
    Options options;
    options.target = small_machine(s.l2_bytes);
    options.schedule = schedule;
    options.seed = ++seed;
    options.misaligned = seed % 2 == 0;
    INFO(schedule);
    check(parse(s.text), options);
  };
  int kernels = 0;
  for (const Sample& s : {tail(4, 11), tail(5, 24), norm(4, 7001)}) {
    const Compilation c = compiled(s);
    const CompiledKernel& k = c.kernels.at(0);
    if (k.group.queue == 0) continue;
    for (std::size_t i = 0; i < k.choices.size(); ++i) {
      for (const Candidate& candidate : k.choices[i].candidates) {
        Schedule schedule = candidate.schedule;
        schedule.queue = 1 + static_cast<int>(seed % 5);
        ++kernels;
        check_with(s, fmt::format("{}: {}", k.group.stages[i].name, to_string(schedule)));
      }
    }
  }
  CHECK(kernels > 20);
}

TEST_CASE("a ticket waits for tickets of lower numbers alone") {
  for (const Sample& p : {tail(6, 17), norm(6, 8192)}) {
    const Compilation first = compiled(p);
    REQUIRE(first.kernels.size() == 1);
    const std::string name = first.kernels[0].group.stages.back().name;
    for (const int lag : {1, 2, 3, 16}) {
      const Compilation c = compiled(p, fmt::format("{}: lanes=kept,kept=128,queue={}", name, lag));
      const Group& group = c.kernels[0].group;
      CHECK(group.queue == lag);
      const TicketOrder order = order_of(group, c.kernels[0].schedules());
      CHECK(order.tickets() == c.kernels[0].kernel.grid);
      for (std::int64_t team = 0; team < group.teams(); ++team) {
        for (const TicketStage& s : order.stages) {
          for (const int other : s.waits_for) {
            const TicketStage& giver = order.stages[static_cast<std::size_t>(other)];
            const std::int64_t last = (team + giver.lag) * order.per_step + giver.first + giver.tickets - 1;
            CHECK(last < (team + s.lag) * order.per_step + s.first);
          }
        }
      }
    }
  }
}

TEST_CASE("a kernel whose threads could take queues differently is wrong") {
  const kernel::Kernel k = compiled(tail(6, 17)).kernels.at(0).kernel;
  CHECK(kernel::verify(k).empty());
  const auto problem = [&](auto change) {
    kernel::Kernel wrong = k;
    auto& threads = std::get<kernel::For>(wrong.body.at(0).op).body;
    auto& tickets = std::get<kernel::For>(threads.at(0).op).body;
    change(wrong, std::get<kernel::Tickets>(tickets.at(0).op));
    const std::vector<std::string> problems = kernel::verify(wrong);
    return problems.empty() ? "" : problems.front();
  };
  const auto thread = [](const kernel::Kernel& w) {
    return std::get<kernel::For>(std::get<kernel::For>(w.body.at(0).op).body.at(0).op).var;
  };
  CHECK_THAT(problem([](kernel::Kernel& w, kernel::Tickets&) { w.persistent = false; }),
             Catch::Contains("tickets in a kernel that is not persistent"));
  CHECK_THAT(problem([](kernel::Kernel& w, kernel::Tickets&) { w.buffers.back().shared = false; }),
             Catch::Contains("queue is no queue"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Tickets& t) {
               t.body.insert(t.body.begin(), {kernel::Wait{t.queue, mod(Index::var(thread(w)), 2), 1}});
             }),
             Catch::Contains("a place in queue that differs between threads"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Tickets& t) {
               w.values.push_back({DType::boolean, 1});
               const auto condition = static_cast<kernel::ValueId>(w.values.size()) - 1;
               t.body.insert(t.body.begin(),
                             {{kernel::Inside{condition, {{Index::var(thread(w)), 0, 1}}}},
                              {kernel::If{condition, {{kernel::Signal{t.queue, Index(0)}}}}}});
             }),
             Catch::Contains("a signal under a condition"));
  CHECK_THAT(problem([](kernel::Kernel& w, kernel::Tickets& t) {
               t.body.insert(t.body.begin(), {kernel::Signal{t.queue, Index(w.buffers.back().elements)}});
             }),
             Catch::Contains("is outside its"));
}

TEST_CASE("the lag of a queue is for queues") {
  CHECK_THROWS_WITH(
      compile_for_sim(parse("graph g { %x = input f32[64, 100] %y = softmax %x {axes = [1]} output %y }"),
                      {.schedule = "lanes=reduced,reduced=32,queue=2"}),
      Catch::Contains("its blocks take no tickets of a queue"));
  // One for all stages, and a stage is named once.
  CHECK_THROWS_WITH(compiled(tail(6, 17),
                             "group_norm_0: lanes=reduced,reduced=128,queue=5;"
                             "logsumexp_1: lanes=kept,kept=128,queue=2"),
                    Catch::Contains("another of its stages has queue=5"));
  CHECK_THROWS_WITH(
      compiled(tail(6, 17), "logsumexp_1: lanes=kept,kept=128; logsumexp_1: lanes=kept,kept=64"),
      Catch::Contains("logsumexp_1 is named twice"));
  CHECK_THROWS_WITH(parse_schedule("queue=17"), Catch::Contains("queue=17 is not 0 or a number from 1 to 16"));
}

TEST_CASE("large samples are queues by hand where waiting takes longer than reading again") {
  const auto kernels = [](const std::string& text, const char* target, const std::string& schedule = "") {
    CompileOptions options;
    options.target = *parse_target(target);
    options.schedule = schedule;
    options.last = Stage::schedule;
    return compile(parse(text), options);
  };
  const std::string tail =
      "graph t { %x = input f32[128, 64, 126, 126] %gamma = input f32[64] %beta = input f32[64]"
      " %n = group_norm %x, %gamma, %beta {groups = 16} %t = tanh %n %h = hardswish %t %r = add %x, %h"
      " %y = logsumexp %r {axes = [1]} output %y }";
  // On an H200 blocks would wait for longer than reading again takes; the reason is there, and by hand there is one.
  const Compilation apart = kernels(tail, "sm_90");
  CHECK(apart.kernels.size() == 2);
  CHECK_THAT(apart.explain(), Catch::Contains("us in one kernel") && Catch::Contains("us in several"));
  const Compilation by_hand =
      kernels(tail, "sm_90", "logsumexp_1: lanes=kept,vector=2,kept=256,unroll=8,queue=2");
  REQUIRE(by_hand.kernels.size() == 1);
  CHECK(by_hand.kernels[0].group.queue == 2);
  const Compilation norm =
      kernels("graph n { %x = input f32[16, 64, 256, 256] %y = layer_norm %x {axes = [1, 2, 3]} output %y }",
              "sm_90", "layer_norm_2: lanes=kept,vector=4,kept=256,queue=1");
  REQUIRE(norm.kernels.size() == 1);
  CHECK(norm.kernels[0].group.queue == 1);
  CHECK(norm.kernels[0].group.stages.size() == 3);
}
