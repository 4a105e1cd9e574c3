// Kernels whose blocks take tickets of a queue: on a machine so small that samples of a few KiB fit no block.
#include <fmt/format.h>

#include "compiler/schedule/queue.h"
#include "harness.h"
#include "support/error.h"

using namespace bz;              // NOLINT
using namespace bz::compiler;    // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// Many multiprocessors, with room for a block each, for few samples, no clusters, memory so slow that launches cost nothing, and an L2 of little more than
// a sample.
Target small_machine(std::int64_t l2_bytes) {
  Target t = *parse_target("sim");
  t.multiprocessors = 16;
  t.max_cluster = 1;
  t.registers_per_multiprocessor = 16384;  // of a block
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
      // By stage and team, the tickets as the kernel finds them.
      std::vector<std::vector<std::vector<std::int64_t>>> found(
          order.stages.size(),
          std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(group.teams())));
      const IndexVar at{1, order.per_step};
      for (std::size_t i = 0; i < order.stages.size(); ++i) {
        const TicketStage& s = order.stages[i];
        const TicketPlace place = place_of(order, i, Index::var(at));
        for (std::int64_t ticket = 0; ticket < order.tickets(); ++ticket) {
          const auto value = [&](std::int32_t) { return ticket % order.per_step; };
          const std::int64_t team = ticket / order.per_step - s.lag;
          const bool here = std::all_of(place.where.begin(), place.where.end(), [&](const IndexBound& b) {
            return b.lo <= b.e.evaluate(value) && b.e.evaluate(value) < b.hi;
          });
          if (!here || team < 0 || team >= group.teams()) continue;
          auto& tickets = found[i][static_cast<std::size_t>(team)];
          CHECK(place.part.evaluate(value) == static_cast<std::int64_t>(tickets.size()));
          tickets.push_back(ticket);
        }
      }
      for (std::size_t i = 0; i < order.stages.size(); ++i) {
        for (std::size_t team = 0; team < found[i].size(); ++team) {
          REQUIRE(found[i][team].size() == static_cast<std::size_t>(order.stages[i].tickets));
          for (const int other : order.stages[i].waits_for)
            CHECK(found[static_cast<std::size_t>(other)][team].back() < found[i][team].front());
        }
      }
    }
  }
}

TEST_CASE("the tickets of a step are spread over its places, one each") {
  const std::vector<std::vector<std::int64_t>> counts = {{5},        {1, 1},      {16, 63},
                                                         {5, 7, 11}, {1, 100, 3}, {8, 8, 8, 9}};
  for (const std::vector<std::int64_t>& tickets : counts) {
    TicketOrder order;
    for (const std::int64_t n : tickets) {
      TicketStage s;
      s.tickets = n;
      order.spread += n;
      order.stages.push_back(s);
    }
    TicketStage few;
    few.tickets = 2;
    few.first = order.spread;
    order.stages.push_back(few);
    order.per_step = order.spread + few.tickets;
    const Index at = Index::var({1, order.per_step});
    std::vector<std::int64_t> next(order.stages.size(), 0);
    for (std::int64_t place = 0; place < order.per_step; ++place) {
      int here = 0;
      for (std::size_t i = 0; i < order.stages.size(); ++i) {
        const TicketPlace p = place_of(order, i, at);
        const auto value = [&](std::int32_t) { return place; };
        const bool is_here = std::all_of(p.where.begin(), p.where.end(), [&](const IndexBound& b) {
          return b.lo <= b.e.evaluate(value) && b.e.evaluate(value) < b.hi;
        });
        if (!is_here) continue;
        ++here;
        CHECK(p.part.evaluate(value) == next[i]++);
        // Spread: never further from its share of the places than one for each stage.
        if (order.stages[i].first < 0) {
          const double share =
              static_cast<double>(place * order.stages[i].tickets) / static_cast<double>(order.spread);
          CHECK(std::fabs(share - static_cast<double>(next[i])) <= static_cast<double>(tickets.size()));
        }
      }
      CHECK(here == 1);
    }
    for (std::size_t i = 0; i < order.stages.size(); ++i) CHECK(next[i] == order.stages[i].tickets);
  }
}

TEST_CASE("a kernel whose threads could take queues differently is wrong") {
  const kernel::Kernel k = compiled(tail(6, 17)).kernels.at(0).kernel;
  CHECK(kernel::verify(k).empty());
  const auto problem = [&](auto change) {
    kernel::Kernel wrong = k;
    auto& threads = std::get<kernel::For>(wrong.body.at(0).op).body;
    auto& body = std::get<kernel::For>(threads.at(0).op).body;
    change(wrong, body);
    const std::vector<std::string> problems = kernel::verify(wrong);
    return problems.empty() ? "" : problems.front();
  };
  const auto thread = [](const kernel::Kernel& w) {
    return std::get<kernel::For>(std::get<kernel::For>(w.body.at(0).op).body.at(0).op).var;
  };
  const auto ticket = [](kernel::Block& body) -> kernel::Ticket& {
    return std::get<kernel::Ticket>(body.at(0).op);
  };
  CHECK_THAT(problem([&](kernel::Kernel&, kernel::Block& body) { ++ticket(body).var.extent; }),
             Catch::Contains(fmt::format("{} tickets for {} blocks", k.grid + 1, k.grid)));
  CHECK_THAT(problem([](kernel::Kernel& w, kernel::Block&) { w.buffers.back().shared = false; }),
             Catch::Contains("queue is no queue"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Block& body) {
               w.arrays[static_cast<std::size_t>(ticket(body).slot)].elements = 2;
             }),
             Catch::Contains("slot is no shared i32"));
  CHECK_THAT(problem([](kernel::Kernel&, kernel::Block& body) { body.push_back(body.at(0)); }),
             Catch::Contains("a block with several tickets"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Block& body) {
               w.vars.push_back("again");
               const IndexVar again{static_cast<std::int32_t>(w.vars.size()) - 1, 2};
               body.at(0) = {kernel::For{again, kernel::Level::serial, {body.at(0)}, 1}};
             }),
             Catch::Contains("a block with several tickets"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Block& body) {
               const kernel::BufferId queue = ticket(body).queue;
               body.push_back({kernel::Wait{queue, mod(Index::var(thread(w)), 2), 1}});
             }),
             Catch::Contains("a place in queue that differs between threads"));
  const auto under_condition = [&](kernel::Kernel& w, kernel::Block& body, kernel::Stmt s) {
    w.values.push_back({DType::boolean, 1});
    const auto condition = static_cast<kernel::ValueId>(w.values.size()) - 1;
    body.push_back({kernel::Inside{condition, {{Index::var(thread(w)), 0, 1}}}});
    body.push_back({kernel::If{condition, {std::move(s)}}});
  };
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Block& body) {
               under_condition(w, body, {kernel::Signal{ticket(body).queue, Index(0)}});
             }),
             Catch::Contains("a signal under a condition"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Block& body) { under_condition(w, body, body.at(0)); }),
             Catch::Contains("a ticket under a condition"));
  CHECK_THAT(problem([&](kernel::Kernel& w, kernel::Block& body) {
               body.push_back({kernel::Signal{ticket(body).queue, Index(w.buffers.back().elements)}});
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
  CHECK_THROWS_WITH(parse_schedule("queue=17"),
                    Catch::Contains("queue=17 is not 0 or a number from 1 to 16"));
}

TEST_CASE("large samples are a queue where one stage computes while another reads, and by hand") {
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
  const Compilation queue = kernels(tail, "sm_90");
  REQUIRE(queue.kernels.size() == 1);
  CHECK(queue.kernels[0].group.queue > 8);
  CHECK_FALSE(queue.kernels[0].group.cached);
  // A part of what is read again stays in L2, which pays where both stages wait for memory as well.
  CompileOptions fast;
  fast.target = *parse_target("sm_90");
  fast.fast_math = true;
  fast.last = Stage::schedule;
  const Compilation both_read = compile(parse(tail), fast);
  REQUIRE(both_read.kernels.size() == 1);
  CHECK(both_read.kernels[0].group.queue > 8);
  // Tickets of samples of 16 bits are few, so that blocks wait; that pays beside arithmetic, of many samples.
  const auto of_bf16 = [&](int samples) {
    std::string text = tail;
    for (std::size_t at = text.find("f32["); at != std::string::npos; at = text.find("f32[", at))
      text.replace(at, 3, "bf16");
    return kernels(text.replace(text.find("[128,"), 5, fmt::format("[{},", samples)), "sm_90");
  };
  REQUIRE(of_bf16(128).kernels.size() == 1);
  CHECK(of_bf16(128).kernels[0].group.queue == 16);
  CHECK(of_bf16(64).kernels.size() == 2);
  // Where all wait for memory, nothing is gained; the reason is there.
  const std::string reads =
      "graph n { %x = input f32[16, 64, 256, 256] %y = layer_norm %x {axes = [1, 2, 3]} output %y }";
  const Compilation apart = kernels(reads, "sm_90");
  CHECK(apart.kernels.size() == 3);
  CHECK_THAT(apart.explain(), Catch::Contains("us in one kernel") && Catch::Contains("us in several"));
  const Compilation by_hand =
      kernels(tail, "sm_90", "logsumexp_1: lanes=kept,vector=2,kept=256,unroll=8,queue=2");
  REQUIRE(by_hand.kernels.size() == 1);
  CHECK(by_hand.kernels[0].group.queue == 2);
  const Compilation norm = kernels(reads, "sm_90", "layer_norm_2: lanes=kept,vector=4,kept=256,queue=1");
  REQUIRE(norm.kernels.size() == 1);
  CHECK(norm.kernels[0].group.queue == 1);
  CHECK(norm.kernels[0].group.stages.size() == 3);
  // Statistics of channels, which are put together for groups of them. The schedule as it is printed asks for the same queue, of samples.
  const std::string parts =
      "graph t { %x = input f32[128, 64, 126, 126] %m = mean %x {axes = [2, 3]} %v = var %x {axes = [2, 3]}"
      " %m4 = reshape %m {shape = [128, 16, 4]} %v4 = reshape %v {shape = [128, 16, 4]}"
      " %gm = mean %m4 {axes = [2], keepdims = true} %g1 = mean %v4 {axes = [2], keepdims = true}"
      " %g2 = var %m4 {axes = [2], keepdims = true} %gv = add %g1, %g2 %rs = rsqrt %gv"
      " %x5 = reshape %x {shape = [128, 16, 4, 126, 126]} %gm5 = reshape %gm {shape = [128, 16, 1, 1, 1]}"
      " %rs5 = reshape %rs {shape = [128, 16, 1, 1, 1]} %d = sub %x5, %gm5 %e = mul %d, %rs5"
      " %f = reshape %e {shape = [128, 64, 126, 126]} %t = tanh %f %h = hardswish %t %r = add %x, %h"
      " %y = logsumexp %r {axes = [1]} output %y }";
  const Compilation chosen = kernels(parts, "sm_90");
  REQUIRE(chosen.kernels.size() == 1);
  const Group& group = chosen.kernels[0].group;
  REQUIRE(group.queue > 0);
  std::string printed;
  for (std::size_t i = 0; i < group.stages.size(); ++i)
    printed +=
        fmt::format("{}: {}; ", group.stages[i].name, to_string(chosen.kernels[0].choices[i].schedule));
  const Compilation again = kernels(parts, "sm_90", printed);
  REQUIRE(again.kernels.size() == 1);
  CHECK(again.kernels[0].group.teams() == 128);
  CHECK(again.kernels[0].group.ticket_blocks == group.ticket_blocks);
}
