// Clusters in the simulator: blocks side by side that reach each other's shared memory, and send each other messages.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim_testing.h"

using namespace bz::sim_testing;  // NOLINT
using Catch::Contains;

namespace {

constexpr const char* kBarrier = "call void @bz.barrier()";
constexpr const char* kClusterBarrier = "call void @bz.cluster.barrier()";

// Blocks of 64 threads put x into their shared memory, `before` stands between that and a read of the next block's,
// `after` between that and another store to the own.
bz::Plan exchange(int cluster, std::int64_t grid, const char* before = kClusterBarrier,
                  const char* after = kClusterBarrier) {
  const std::int64_t n = grid * 64;
  return plan_of(fmt::format(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
      %t = call i32 @bz.tid()
      %b = call i32 @bz.ctaid()
      %o = mul i32 %b, 64
      %i = add i32 %o, %t
      %px = getelementptr float, ptr addrspace(1) %x, i32 %i
      %v = load float, ptr addrspace(1) %px, align 4
      %shared = call ptr addrspace(3) @bz.shared()
      %own = getelementptr float, ptr addrspace(3) %shared, i32 %t
      store float %v, ptr addrspace(3) %own, align 4
      {1}
      %b1 = add i32 %b, 1
      %rank = urem i32 %b1, {0}
      %next = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %own, i32 %rank)
      %w = load float, ptr addrspace(7) %next, align 4
      {2}
      store float %w, ptr addrspace(3) %own, align 4
      %py = getelementptr float, ptr addrspace(1) %y, i32 %i
      store float %w, ptr addrspace(1) %py, align 4
      ret void
    }})",
                             cluster, before, after),
                 {input(n), output(n)},
                 {.grid = grid, .block = 64, .shared_bytes = 256, .synchronizes = true, .cluster = cluster});
}

// ---- messages ----

// A kernel whose blocks of 64 threads exchange messages for some rounds. In each, thread i of a block sends an element of x to
// block i, and all threads add up what block t % cluster sent. It lies in `places` in turn, each with a mailbox of its own.
struct Messages {
  int cluster = 2, rounds = 1, places = 2, bytes = 4;
  std::int64_t grid = 4;
};

constexpr const char* kStart = "call void @bz.cluster.start()";
constexpr const char* kStarted = "call void @bz.cluster.started()";
constexpr const char* kOpen = "call void @bz.box.open(ptr addrspace(3) %opened)";
constexpr const char* kSlot = "%slot = getelementptr i32, ptr addrspace(3) %slots, i32 %rank";
constexpr const char* kSend =
    "call void @bz.send(ptr addrspace(7) %there, i64 %bits, i32 4, ptr addrspace(7) %mailbox)";
constexpr const char* kMailbox =
    "%mailbox = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %box, i32 %t)";
constexpr const char* kExpect = "call void @bz.box.expect(ptr addrspace(3) %box, i32 8)";
constexpr const char* kReceive = "call void @bz.box.receive(ptr addrspace(3) %box, i32 %parity)";
constexpr const char* kRead = "%v = load i32, ptr addrspace(3) %p, align 4";

std::string text_of(const Messages& m) {
  return fmt::format(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
    entry:
      %t = call i32 @bz.tid()
      %b = call i32 @bz.ctaid()
      %rank = urem i32 %b, {cluster}
      %o = mul i32 %b, 64
      %shared = call ptr addrspace(3) @bz.shared()
      %places = getelementptr i8, ptr addrspace(3) %shared, i32 16
      %opens = icmp ult i32 %t, {places}
      br i1 %opens, label %open, label %start
    open:
      %opened = getelementptr i64, ptr addrspace(3) %shared, i32 %t
      call void @bz.box.open(ptr addrspace(3) %opened)
      br label %start
    start:
      call void @bz.cluster.start()
      call void @bz.cluster.started()
      br label %round
    round:
      %r = phi i32 [ 0, %start ], [ %next, %received ]
      %before = phi i{bits} [ 0, %start ], [ %sum, %received ]
      %place = urem i32 %r, {places}
      %times = udiv i32 %r, {places}
      %parity = urem i32 %times, 2
      %box = getelementptr i64, ptr addrspace(3) %shared, i32 %place
      %slots = getelementptr [{cluster} x i{bits}], ptr addrspace(3) %places, i32 %place
      call void @bz.barrier()
      %sends = icmp ult i32 %t, {cluster}
      br i1 %sends, label %send, label %sent
    send:
      %r16 = mul i32 %r, 16
      %e = add i32 %r16, %t
      %e64 = urem i32 %e, 64
      %i = add i32 %o, %e64
      %px = getelementptr i{bits}, ptr addrspace(1) %x, i32 %i
      %w = load i{bits}, ptr addrspace(1) %px, align {bytes}
      %bits = {extend} i{bits} %w to i64
      %slot = getelementptr i{bits}, ptr addrspace(3) %slots, i32 %rank
      %there = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %slot, i32 %t)
      %mailbox = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %box, i32 %t)
      call void @bz.send(ptr addrspace(7) %there, i64 %bits, i32 {bytes}, ptr addrspace(7) %mailbox)
      br label %sent
    sent:
      %first = icmp eq i32 %t, 0
      br i1 %first, label %expect, label %receive
    expect:
      call void @bz.box.expect(ptr addrspace(3) %box, i32 {round_bytes})
      br label %receive
    receive:
      call void @bz.box.receive(ptr addrspace(3) %box, i32 %parity)
      %from = urem i32 %t, {cluster}
      %p = getelementptr i{bits}, ptr addrspace(3) %slots, i32 %from
      %v = load i{bits}, ptr addrspace(3) %p, align {bytes}
      %sum = add i{bits} %before, %v
      br label %received
    received:
      %next = add i32 %r, 1
      %again = icmp ult i32 %next, {rounds}
      br i1 %again, label %round, label %end
    end:
      %j = add i32 %o, %t
      %py = getelementptr i{bits}, ptr addrspace(1) %y, i32 %j
      store i{bits} %sum, ptr addrspace(1) %py, align {bytes}
      ret void
    }})",
                     fmt::arg("cluster", m.cluster), fmt::arg("places", m.places),
                     fmt::arg("rounds", m.rounds), fmt::arg("bytes", m.bytes), fmt::arg("bits", 8 * m.bytes),
                     fmt::arg("extend", m.bytes == 8 ? "bitcast" : "zext"),
                     fmt::arg("round_bytes", m.bytes * m.cluster));
}

bz::Plan plan_with(const Messages& m, const std::string& text) {
  const bz::DType t = m.bytes == 8 ? bz::DType::i64 : bz::DType::i32;
  return plan_of(text, {input(m.grid * 64, t), output(m.grid * 64, t)},
                 {.grid = m.grid,
                  .block = 64,
                  .shared_bytes = 16 + 2 * 16 * 8,
                  .synchronizes = true,
                  .cluster = m.cluster});
}

template <class T>
void check_messages(const bz::SimOptions& options, const Messages& m, const std::string& text) {
  const std::size_t n = static_cast<std::size_t>(m.grid) * 64;
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(i * i) - (T{1} << (8 * sizeof(T) - 3));
  const std::vector<T> y = run(*bz::open_sim(options), plan_with(m, text), x, n);
  for (std::int64_t b = 0; b < m.grid; ++b) {
    for (std::int64_t t = 0; t < 64; ++t) {
      const std::int64_t from = b / m.cluster * m.cluster + t % m.cluster;
      std::uint64_t sum = 0;
      for (std::int64_t r = 0; r < m.rounds; ++r)
        sum += static_cast<std::uint64_t>(
            x[static_cast<std::size_t>(from * 64 + (16 * r + b % m.cluster) % 64)]);
      REQUIRE(y[static_cast<std::size_t>(b * 64 + t)] == static_cast<T>(sum));
    }
  }
}

// The text with `to` in place of `from`, which is there once.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

using Changes = std::vector<std::pair<std::string, std::string>>;

std::string changed(const Messages& m, const Changes& changes) {
  std::string text = text_of(m);
  for (const auto& [from, to] : changes) text = replaced(std::move(text), from, to);
  return text;
}

// Of one cluster of two blocks, where one worker runs the threads in their order.
std::string fault_after(Messages m, const Changes& changes, const bz::SimOptions& options = {.workers = 1}) {
  m.grid = m.cluster;
  const std::size_t n = static_cast<std::size_t>(m.grid) * 64;
  return fault_of(options, plan_with(m, changed(m, changes)), n, n);
}

}  // namespace

TEST_CASE("sim exchanges through the shared memory of a cluster") {
  for (const int cluster : {1, 2, 3, 8, 16}) {
    const std::int64_t grid = 3 * cluster;
    const std::size_t n = static_cast<std::size_t>(grid) * 64;
    const std::vector<float> x = ramp(n);
    for (const bz::SimOptions& options :
         {bz::SimOptions{}, bz::SimOptions{.seed = 5, .workers = 2}, bz::SimOptions{.check_memory = false}}) {
      const auto y = run(*bz::open_sim(options), exchange(cluster, grid), x, n);
      for (std::int64_t b = 0; b < grid; ++b) {
        const std::int64_t from = b / cluster * cluster + (b + 1) % cluster;
        for (std::int64_t t = 0; t < 64; ++t)
          REQUIRE(y[static_cast<std::size_t>(b * 64 + t)] == x[static_cast<std::size_t>(from * 64 + t)]);
      }
    }
  }
}

TEST_CASE("sim finds a cluster barrier that is missing") {
  for (const char* barrier : {"", kBarrier}) {
    CHECK(fault_of({.workers = 1}, exchange(2, 4, barrier, kClusterBarrier), 256, 256) ==
          "device error: kernel 'k', block 0, thread 0: load of 4 bytes at byte 0 of shared memory of block "
          "1, where "
          "nobody has written byte 0");
    CHECK(fault_of({.workers = 1}, exchange(2, 4, kClusterBarrier, barrier), 256, 256) ==
          "device error: kernel 'k', block 1, thread 0: load of 4 bytes at byte 0 of shared memory of block "
          "0 races "
          "with a store by thread 0 of block 0: no cluster barrier orders them");
    for (const std::uint64_t seed : {1, 2, 3}) {
      CHECK(fault_of({.seed = seed}, exchange(8, 16, barrier, kClusterBarrier), 1024, 1024) != "");
      CHECK(fault_of({.seed = seed}, exchange(8, 16, kClusterBarrier, barrier), 1024, 1024) != "");
    }
  }
}

TEST_CASE("sim lets blocks of a cluster pass different barriers of their own") {
  // Block 0 of the cluster adds up its shared memory over two barriers while the other waits for it.
  const bz::Plan plan =
      plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %t = call i32 @bz.tid()
      %b = call i32 @bz.ctaid()
      %shared = call ptr addrspace(3) @bz.shared()
      %own = getelementptr i32, ptr addrspace(3) %shared, i32 %t
      %first = icmp eq i32 %b, 0
      br i1 %first, label %work, label %join
    work:
      store i32 %t, ptr addrspace(3) %own, align 4
      call void @bz.barrier()
      %n = xor i32 %t, 32
      %p = getelementptr i32, ptr addrspace(3) %shared, i32 %n
      %v = load i32, ptr addrspace(3) %p, align 4
      call void @bz.barrier()
      %s = call i32 @bz.shfl.xor(i32 %v, i32 1)
      store i32 %s, ptr addrspace(3) %own, align 4
      br label %join
    join:
      call void @bz.cluster.barrier()
      %q = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %own, i32 0)
      %w = load i32, ptr addrspace(7) %q, align 4
      call void @bz.cluster.barrier()
      %f = uitofp i32 %w to float
      %o = mul i32 %b, 64
      %i = add i32 %o, %t
      %py = getelementptr float, ptr addrspace(1) %y, i32 %i
      store float %f, ptr addrspace(1) %py, align 4
      ret void
    })",
              {input(1), output(128)},
              {.grid = 2, .block = 64, .shared_bytes = 256, .synchronizes = true, .cluster = 2});
  for (const std::uint64_t seed : {0, 1, 2}) {
    const auto y = run(*bz::open_sim({.seed = seed}), plan, {0.0f}, 128);
    for (std::size_t i = 0; i < 128; ++i) REQUIRE(y[i] == static_cast<float>((i % 64) ^ 33));
  }
}

TEST_CASE("sim finds blocks that may finish while others read their shared memory") {
  const auto read_next = [](const char* last) {
    return plan_of(fmt::format(R"(
      define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
        %t = call i32 @bz.tid()
        %b = call i32 @bz.ctaid()
        %shared = call ptr addrspace(3) @bz.shared()
        %own = getelementptr i32, ptr addrspace(3) %shared, i32 %t
        store i32 %t, ptr addrspace(3) %own, align 4
        call void @bz.cluster.barrier()
        %other = xor i32 %b, 1
        %p = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %own, i32 %other)
        %v = load i32, ptr addrspace(7) %p, align 4
        {}
        %o = mul i32 %b, 32
        %i = add i32 %o, %t
        %py = getelementptr i32, ptr addrspace(1) %y, i32 %i
        store i32 %v, ptr addrspace(1) %py, align 4
        ret void
      }})",
                               last),
                   {input(1), output(64)},
                   {.grid = 2, .block = 32, .shared_bytes = 128, .synchronizes = true, .cluster = 2});
  };
  CHECK(fault_of({}, read_next(kClusterBarrier), 1, 64) == "");
  for (const char* last : {"", kBarrier}) {
    CHECK(fault_of({}, read_next(last), 1, 64) ==
          "device error: kernel 'k', block 1, thread 31: load of 4 bytes at byte 124 of shared memory of "
          "block 0, "
          "which may have finished: no cluster barrier follows");
  }
}

TEST_CASE("sim reports blocks of a cluster that do not meet, and accesses outside of their memory") {
  const auto kernel = [](const std::string& body) {
    return plan_of(fmt::format(R"(
      define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
        %b = call i32 @bz.ctaid()
        %c = icmp eq i32 %b, 2
        %s = call ptr addrspace(3) @bz.shared()
        {}
      }})",
                               body),
                   {input(1), output(1)},
                   {.grid = 4, .block = 32, .shared_bytes = 16, .synchronizes = true, .cluster = 2});
  };
  CHECK(fault_of({}, kernel(R"(
    br i1 %c, label %wait, label %end
    wait:
      call void @bz.cluster.barrier()
      br label %end
    end:
      ret void
    )"),
                 1, 1) ==
        "device error: kernel 'k', block 2, thread 0: cluster barrier not reached by thread 0 of block 3, "
        "which has "
        "finished");
  CHECK(fault_of({.workers = 1}, kernel(R"(
    %p = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %s, i32 1)
    %q = getelementptr i32, ptr addrspace(7) %p, i32 4
    store i32 0, ptr addrspace(7) %q, align 4
    ret void
    )"),
                 1, 1) ==
        "device error: kernel 'k', block 0, thread 0: store of 4 bytes at byte 16 of shared memory of block "
        "1, which "
        "has 16 bytes");
  CHECK(fault_of({.workers = 1}, kernel(R"(
    %p = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %s, i32 2)
    store i32 0, ptr addrspace(7) %p, align 4
    ret void
    )"),
                 1, 1) ==
        "device error: kernel 'k', block 0, thread 0: shared memory of block 2 of a cluster of 2");
  CHECK_THROWS_WITH(bz::open_sim()->load(exchange(2, 3)),
                    Contains("kernel 'k': clusters of 2 blocks in a grid of 3"));
}

TEST_CASE("sim delivers the messages of a cluster, round after round") {
  for (const int cluster : {1, 2, 3, 8, 16}) {
    for (const int bytes : {4, 8}) {
      for (const int rounds : {1, 2, 7}) {
        const Messages m{.cluster = cluster, .rounds = rounds, .bytes = bytes, .grid = 3 * cluster};
        for (const bz::SimOptions& options :
             {bz::SimOptions{}, bz::SimOptions{.seed = 5, .workers = 2}, bz::SimOptions{.seed = 6},
              bz::SimOptions{.check_memory = false, .seed = 7}}) {
          INFO("cluster " << cluster << ", " << bytes << " bytes, " << rounds << " rounds, seed "
                          << options.seed);
          if (bytes == 4) check_messages<std::int32_t>(options, m, text_of(m));
          if (bytes == 8) check_messages<std::int64_t>(options, m, text_of(m));
        }
      }
    }
  }
}

TEST_CASE("sim delivers messages to one place when another exchange or a barrier is between the rounds") {
  // What a block has from all others in the second exchange they have sent after their threads had read the first one.
  const auto second = [](const Messages& m) {
    return fmt::format(R"(
      %box2 = getelementptr i64, ptr addrspace(3) %shared, i32 1
      %slot2 = getelementptr i64, ptr addrspace(3) %places, i32 16
      %own2 = getelementptr i64, ptr addrspace(3) %slot2, i32 %rank
      call void @bz.barrier()
      br i1 %sends, label %send2, label %sent2
    send2:
      %there2 = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %own2, i32 %t)
      %mailbox2 = call ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) %box2, i32 %t)
      %number = zext i32 %b to i64
      call void @bz.send(ptr addrspace(7) %there2, i64 %number, i32 8, ptr addrspace(7) %mailbox2)
      br label %sent2
    sent2:
      br i1 %first, label %expect2, label %receive2
    expect2:
      call void @bz.box.expect(ptr addrspace(3) %box2, i32 {})
      br label %receive2
    receive2:
      call void @bz.box.receive(ptr addrspace(3) %box2, i32 %parity)
      br label %received
    received:)",
                       8 * m.cluster);
  };
  for (const int cluster : {1, 2, 3, 8, 16}) {
    for (const int bytes : {4, 8}) {
      const Messages m{.cluster = cluster, .rounds = 5, .places = 1, .bytes = bytes, .grid = 2 * cluster};
      std::string exchange = replaced(text_of(m), "br label %received\n    received:", second(m));
      exchange = replaced(exchange, "%opens = icmp ult i32 %t, 1", "%opens = icmp ult i32 %t, 2");
      const std::string barrier =
          replaced(text_of(m), "received:", std::string("received:\n") + kClusterBarrier);
      for (const std::string& text : {exchange, barrier}) {
        for (const std::uint64_t seed : {0, 1, 2, 3}) {
          INFO("cluster " << cluster << ", " << bytes << " bytes, seed " << seed);
          if (bytes == 4) check_messages<std::int32_t>({.seed = seed}, m, text);
          if (bytes == 8) check_messages<std::int64_t>({.seed = seed}, m, text);
        }
      }
    }
  }
}

TEST_CASE("sim finds messages that are read before they are received") {
  CHECK(fault_after({}, {}) == "");
  CHECK(fault_after({}, {{kReceive, ""}}) ==
        "device error: kernel 'k', block 0, thread 0: load of 4 bytes at byte 16 of shared memory, where "
        "nobody has "
        "written byte 16");
  // Waits for the round before the first.
  CHECK_THAT(fault_after({}, {{kReceive, replaced(kReceive, "i32 %parity", "i32 1")}}),
             Contains("where nobody has written byte 16"));
  for (const std::uint64_t seed : {1, 2, 3}) {
    CHECK_THAT(fault_after({.cluster = 8}, {{kReceive, ""}}, {.seed = seed}),
               Contains("where nobody has written byte"));
  }
}

TEST_CASE("sim finds messages to blocks that may not have started, and to mailboxes that are not open") {
  CHECK(fault_after({}, {{kStarted, ""}}) ==
        "device error: kernel 'k', block 0, thread 0: a message to a block that may not have started");
  for (const std::uint64_t seed : {1, 2, 3})
    CHECK_THAT(fault_after({}, {{kStarted, ""}}, {.seed = seed}), Contains("may not have started"));
  CHECK(fault_after({}, {{kStart, ""}}) ==
        "device error: kernel 'k', block 0, thread 0: waits for the start of the cluster, where 0 of 128 "
        "threads "
        "are");
  // Block 0 is there, and waits for ever.
  CHECK(fault_after({}, {{kStart,
                          "call void @bz.barrier()\n %here = icmp eq i32 %rank, 0\n"
                          "br i1 %here, label %first_block, label %wait\n"
                          "first_block:\n call void @bz.cluster.start()\n br label %wait\n wait:\n"},
                         {"%r = phi i32 [ 0, %start ]", "%r = phi i32 [ 0, %wait ]"},
                         {"%before = phi i32 [ 0, %start ]", "%before = phi i32 [ 0, %wait ]"}}) ==
        "device error: kernel 'k', block 0, thread 0: waits for the start of the cluster, where 64 of 128 "
        "threads "
        "are");
  CHECK(fault_after({}, {{kOpen, ""}}) ==
        "device error: kernel 'k', block 0, thread 0: a mailbox that was not opened");
  CHECK(fault_after({}, {{kMailbox, replaced(kMailbox, "%t)", "0)")}}) ==
        "device error: kernel 'k', block 0, thread 1: a message to another block than block 0, which has the "
        "mailbox");
}

TEST_CASE("sim finds messages to where they may not go") {
  const auto slot = [](const char* type, int at) {
    return Changes{
        {kSlot, fmt::format("%slot = getelementptr {}, ptr addrspace(3) %slots, i32 {}", type, at)}};
  };
  CHECK(fault_after({}, slot("i16", 1)) ==
        "device error: kernel 'k', block 0, thread 0: store of 4 bytes at byte 18 of shared memory is not "
        "aligned "
        "to 4 bytes");
  CHECK(fault_after({}, slot("i32", 64)) ==
        "device error: kernel 'k', block 0, thread 0: a message to another block than block 0, which has the "
        "mailbox");
  // All blocks send to one place.
  CHECK(fault_after({}, slot("i32", 1)) ==
        "device error: kernel 'k', block 1, thread 0: store of 4 bytes at byte 20 of shared memory of block "
        "0 races "
        "with a store by thread 0 of block 0: no cluster barrier orders them");

  bz::Plan plan = plan_with({.grid = 2}, text_of({}));
  plan.kernels[0].synchronizes = false;
  CHECK_THAT(fault_of({.workers = 1}, plan, 128, 128),
             Contains("a start in a kernel whose plan says it has none"));
}

TEST_CASE("sim finds rounds in which more or less comes than is expected") {
  const std::string twice = std::string(kSend) + "\n" + kSend;
  // All messages are there before it is said how many are expected.
  const std::string met = std::string("sent:\n") + kClusterBarrier;
  CHECK(fault_after({}, {{"sent:", met}}) == "");
  CHECK(fault_after({}, {{"sent:", met}, {kSend, twice}}) ==
        "device error: kernel 'k', block 0, thread 0: messages of 16 bytes in a round of 8");
  CHECK(fault_after({}, {{kExpect, std::string(kExpect) + "\n" + kExpect}}) ==
        "device error: kernel 'k', block 0, thread 0: messages are expected twice in a round");
  CHECK(fault_after({}, {{kExpect, ""}}) ==
        "device error: kernel 'k', block 0, thread 0: waits for messages, and nobody says how many: 8 bytes "
        "came");
  CHECK(fault_after({}, {{kExpect, replaced(kExpect, "i32 8", "i32 12")}}) ==
        "device error: kernel 'k', block 0, thread 0: waits for messages of 12 bytes, and 8 came");
  for (const std::uint64_t seed : {1, 2, 3}) {
    CHECK_THAT(fault_after({}, {{kExpect, replaced(kExpect, "i32 8", "i32 12")}}, {.seed = seed}),
               Contains("waits for messages of 12 bytes, and 8 came"));
  }
  CHECK(fault_after({}, {{kSend, ""}}) ==
        "device error: kernel 'k', block 0, thread 0: waits for messages of 8 bytes, and 0 came");
}

TEST_CASE("sim finds messages that are never received") {
  const std::pair<std::string, std::string> nothing_read = {kRead, "%v = add i32 0, 0"};
  for (const char* expect : {"", kExpect}) {
    const Changes changes = {{kExpect, expect}, {kReceive, ""}, nothing_read};
    CHECK(fault_after({}, changes) ==
          "device error: kernel 'k', block 0, thread 0: a message that its block never receives");
    CHECK_THAT(fault_after({}, changes, {.check_memory = false, .seed = 1}),
               Contains("a message that its block never receives"));
  }
}

TEST_CASE("sim finds a place of messages that is used again while others may still read it") {
  const Messages one{.rounds = 3, .places = 1};
  CHECK(fault_after(one, {}) ==
        "device error: kernel 'k', block 1, thread 1: load of 4 bytes at byte 20 of shared memory, where "
        "nobody has "
        "written byte 20");
  for (const int cluster : {2, 3, 8}) {
    for (const std::uint64_t seed : {1, 2, 3, 4})
      CHECK(fault_after({.cluster = cluster, .rounds = 3, .places = 1}, {}, {.seed = seed}) != "");
  }
  // In two places, but a thread sends before all others of its block have read what the next message overwrites.
  const Messages two{.rounds = 4};
  CHECK(fault_after(two, {}) == "");
  CHECK(fault_after(two, {{"call void @bz.barrier()", ""}}) ==
        "device error: kernel 'k', block 1, thread 0: store of 4 bytes at byte 20 of shared memory of block "
        "0 races "
        "with a load by thread 1 of block 0: no cluster barrier orders them");
}
