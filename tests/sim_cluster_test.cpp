// Clusters in the simulator: blocks side by side that reach each other's shared memory.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim_testing.h"

using namespace bz::sim_testing;  // NOLINT

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
                    Catch::Contains("kernel 'k': clusters of 2 blocks in a grid of 3"));
}
