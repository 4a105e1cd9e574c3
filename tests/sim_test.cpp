// The simulator on hand-written modules: what a kernel may do, and every fault it reports.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sim_testing.h"

using namespace bz::sim_testing;  // NOLINT

namespace {

using bz::DType;
using bz::PlanBuffer;

// y[i] = fma(x[i], x[i], 0.5) for the i of this thread below `n`, in blocks of 256.
std::string pointwise(int n) {
  return fmt::format(R"(
    declare float @llvm.fma.f32(float, float, float)
    define void @k(ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y) {{
      %t = call i32 @bz.tid()
      %b = call i32 @bz.ctaid()
      %o = mul i32 %b, 256
      %i = add i32 %o, %t
      %c = icmp ult i32 %i, {}
      br i1 %c, label %in, label %out
    in:
      %px = getelementptr inbounds float, ptr addrspace(1) %x, i32 %i
      %py = getelementptr inbounds float, ptr addrspace(1) %y, i32 %i
      %v = load float, ptr addrspace(1) %px, align 4
      %w = call float @llvm.fma.f32(float %v, float %v, float 0.5)
      store float %w, ptr addrspace(1) %py, align 4
      br label %out
    out:
      ret void
    }})",
                     n);
}

// y[block] = sum of x[block * 256 ...]: shuffles within warps, shared memory between them.
constexpr const char* kBlockSum = R"(
  define internal float @warp_sum(float %v0) {
  entry:
    br label %loop
  loop:
    %v = phi float [ %v0, %entry ], [ %s, %loop ]
    %m = phi i32 [ 16, %entry ], [ %half, %loop ]
    %bits = bitcast float %v to i32
    %other = call i32 @bz.shfl.xor(i32 %bits, i32 %m)
    %o = bitcast i32 %other to float
    %s = fadd float %v, %o
    %half = lshr i32 %m, 1
    %more = icmp ne i32 %half, 0
    br i1 %more, label %loop, label %done
  done:
    ret float %s
  }
  define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
    %t = call i32 @bz.tid()
    %b = call i32 @bz.ctaid()
    %base = mul i32 %b, 256
    %i = add i32 %base, %t
    %px = getelementptr float, ptr addrspace(1) %x, i32 %i
    %v = load float, ptr addrspace(1) %px, align 4
    %s = call float @warp_sum(float %v)
    %shared = call ptr addrspace(3) @bz.shared()
    %warp = lshr i32 %t, 5
    %lane = and i32 %t, 31
    %slot = getelementptr float, ptr addrspace(3) %shared, i32 %warp
    %first = icmp eq i32 %lane, 0
    br i1 %first, label %put, label %join
  put:
    store float %s, ptr addrspace(3) %slot, align 4
    br label %join
  join:
    call void @bz.barrier()
    %used = icmp ult i32 %lane, 8
    %mine = getelementptr float, ptr addrspace(3) %shared, i32 %lane
    br i1 %used, label %get, label %add
  get:
    %partial = load float, ptr addrspace(3) %mine, align 4
    br label %add
  add:
    %p = phi float [ 0.0, %join ], [ %partial, %get ]
    %total = call float @warp_sum(float %p)
    %leader = icmp eq i32 %t, 0
    br i1 %leader, label %write, label %end
  write:
    %py = getelementptr float, ptr addrspace(1) %y, i32 %b
    store float %total, ptr addrspace(1) %py, align 4
    br label %end
  end:
    ret void
  })";

// y[i] = x[i + %shift] in one block of 64.
std::string shifted_copy(int shift) {
  return fmt::format(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
      %t = call i32 @bz.tid()
      %i = add i32 %t, {}
      %px = getelementptr inbounds float, ptr addrspace(1) %x, i32 %i
      %py = getelementptr inbounds float, ptr addrspace(1) %y, i32 %t
      %v = load float, ptr addrspace(1) %px, align 4
      store float %v, ptr addrspace(1) %py, align 4
      ret void
    }})",
                     shift);
}

std::vector<bz::SimOptions> ways_to_run() {
  return {{},
          {.check_memory = false},
          {.check_memory = false, .seed = 1, .workers = 1},
          {.seed = 7, .workers = 4}};
}

}  // namespace

TEST_CASE("sim runs a pointwise kernel with a ragged end", "[sim]") {
  const auto x = ramp(1000);
  const bz::Plan plan = plan_of(pointwise(1000), {input(1000), output(1000)}, {.grid = 4, .block = 256});
  for (const bz::SimOptions& options : ways_to_run()) {
    const auto device = bz::open_sim(options);
    const auto y = run(*device, plan, x, 1000);
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == std::fma(x[i], x[i], 0.5f));
  }
}

TEST_CASE("sim reduces blocks with shuffles, barriers and shared memory", "[sim]") {
  constexpr std::size_t kBlocks = 300;
  const auto x = ramp(256 * kBlocks);
  const bz::Plan plan = plan_of(kBlockSum, {input(256 * kBlocks), output(kBlocks)},
                                {.grid = kBlocks, .block = 256, .shared_bytes = 32, .synchronizes = true});
  for (const bz::SimOptions& options : ways_to_run()) {
    const auto device = bz::open_sim(options);
    const auto y = run(*device, plan, x, kBlocks);
    for (std::size_t b = 0; b < kBlocks; ++b) {
      REQUIRE(y[b] == Approx(256.0 * (256.0 * static_cast<double>(b) + 128.5)));
    }
  }
}

TEST_CASE("sim gives the same bits for every seed and number of workers", "[sim]") {
  std::vector<float> x(256 * 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 1e3f;
  const bz::Plan plan = plan_of(kBlockSum, {input(256 * 16), output(16)},
                                {.grid = 16, .block = 256, .shared_bytes = 32, .synchronizes = true});
  const auto expected = run(*bz::open_sim(), plan, x, 16);
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    CHECK(run(*bz::open_sim({.seed = seed, .workers = static_cast<int>(seed)}), plan, x, 16) == expected);
  }
}

TEST_CASE("sim does not contract a multiplication and an addition", "[sim]") {
  const bz::Plan plan = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %a = load float, ptr addrspace(1) %x, align 4
      %m = fmul float %a, %a
      %s = fsub float %m, 1.0
      store float %s, ptr addrspace(1) %y, align 4
      ret void
    })",
                                {input(1), output(1)}, {});
  const float a = 1.0f + 0x1p-12f;
  const volatile float product = a * a;
  CHECK(run(*bz::open_sim(), plan, {a}, 1)[0] == product - 1.0f);
}

TEST_CASE("sim converts half precision in every direction", "[sim]") {
  const bz::Plan plan = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %a = load float, ptr addrspace(1) %x, align 4
      %h = fptrunc float %a to half
      %f = fpext half %h to float
      store float %f, ptr addrspace(1) %y, align 4
      %d = fpext float %a to double
      %dh = fptrunc double %d to half
      %g = fpext half %dh to float
      %py = getelementptr float, ptr addrspace(1) %y, i32 1
      store float %g, ptr addrspace(1) %py, align 4
      ret void
    })",
                                {input(1), output(2)}, {});
  CHECK(run(*bz::open_sim(), plan, {2049.0f}, 2) == std::vector<float>{2048.0f, 2048.0f});
}

TEST_CASE("sim orders threads by the seed", "[sim]") {
  // Every thread stores its number to y[0]: the last one wins.
  const bz::Plan plan = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %t = call i32 @bz.tid()
      %f = uitofp i32 %t to float
      store float %f, ptr addrspace(1) %y, align 4
      ret void
    })",
                                {input(1), output(1)}, {.block = 64});
  bz::Plan side_by_side = plan;
  side_by_side.kernels[0].synchronizes = true;
  for (const bz::Plan& p : {plan, side_by_side}) {
    const auto last_with = [&](std::uint64_t seed) {
      return run(*bz::open_sim({.check_memory = false, .seed = seed}), p, {0.0f}, 1)[0];
    };
    CHECK(last_with(0) == 63.0f);
    std::vector<float> last;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      last.push_back(last_with(seed));
      CHECK(last_with(seed) == last.back());
    }
    CHECK(std::count(last.begin(), last.end(), last[0]) < 8);
  }
}

TEST_CASE("sim fills fresh memory with NaN", "[sim]") {
  const bz::Plan plan =
      plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %t) {
      %shared = call ptr addrspace(3) @bz.shared()
      %s = load float, ptr addrspace(3) %shared, align 4
      store float 1.0, ptr addrspace(3) %shared, align 4
      store float %s, ptr addrspace(1) %y, align 4
      %v = load float, ptr addrspace(1) %t, align 4
      store float 1.0, ptr addrspace(1) %t, align 4
      %p = getelementptr float, ptr addrspace(1) %y, i32 1
      store float %v, ptr addrspace(1) %p, align 4
      ret void
    })",
              {input(1), output(3), buffer("t0", PlanBuffer::Kind::temporary, 1)}, {.shared_bytes = 4});
  const auto device = bz::open_sim({.check_memory = false});
  const auto program = device->load(plan);
  bz::DeviceBuffer x(*device, 4), y(*device, 12);
  const std::vector<void*> arguments = {x.get(), y.get()};
  std::vector<float> result(3);
  for (int repeat = 0; repeat < 2; ++repeat) {
    program->run(arguments, nullptr);
    device->copy_out(result.data(), y.get(), 12);
    for (float v : result) CHECK(std::isnan(v));
  }
}

TEST_CASE("sim names loads and stores outside of buffers", "[sim]") {
  const bz::SimOptions checked;
  const auto copy = [](int shift) {
    return plan_of(shifted_copy(shift), {input(64), output(64)}, {.block = 64});
  };
  CHECK(fault_of(checked, copy(0), 64, 64) == "");
  CHECK(fault_of(checked, copy(1), 64, 64) ==
        "device error: kernel 'k', block 0, thread 63: load of 4 bytes at byte 256 of input 'x', which has "
        "256 bytes");
  CHECK(fault_of(checked, copy(-1), 64, 64) ==
        "device error: kernel 'k', block 0, thread 0: load of 4 bytes at byte -4 of input 'x', which has 256 "
        "bytes");

  const bz::Plan into_input = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      store float 0.0, ptr addrspace(1) %x, align 4
      ret void
    })",
                                      {input(4), output(4)}, {});
  CHECK(fault_of(checked, into_input, 4, 4) ==
        "device error: kernel 'k', block 0, thread 0: store of 4 bytes at byte 0 of input 'x', which is "
        "read-only");

  const bz::Plan past_shared = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %s = call ptr addrspace(3) @bz.shared()
      %p = getelementptr float, ptr addrspace(3) %s, i32 2
      store <2 x float> zeroinitializer, ptr addrspace(3) %p, align 4
      ret void
    })",
                                       {input(4), output(4)}, {.shared_bytes = 12});
  CHECK(fault_of(checked, past_shared, 4, 4) ==
        "device error: kernel 'k', block 0, thread 0: store of 8 bytes at byte 8 of shared memory, which has "
        "12 bytes");

  const bz::Plan misaligned = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %p = getelementptr float, ptr addrspace(1) %x, i32 1
      %v = load <2 x float>, ptr addrspace(1) %p, align 8
      store <2 x float> %v, ptr addrspace(1) %y, align 8
      ret void
    })",
                                      {input(4), output(4)}, {});
  CHECK(fault_of(checked, misaligned, 4, 4) ==
        "device error: kernel 'k', block 0, thread 0: load of 8 bytes at byte 4 of input 'x' is not aligned "
        "to 8 bytes");
}

TEST_CASE("sim reports the first fault in launch order, whichever worker meets one", "[sim]") {
  // Blocks 5 and up of 64 read past the end.
  const bz::Plan plan = plan_of(R"(
    define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %b = call i32 @bz.ctaid()
      %p = getelementptr float, ptr addrspace(1) %x, i32 %b
      %v = load float, ptr addrspace(1) %p, align 4
      %q = getelementptr float, ptr addrspace(1) %y, i32 %b
      store float %v, ptr addrspace(1) %q, align 4
      ret void
    })",
                                {input(5), output(64)}, {.grid = 64});
  for (int workers : {1, 2, 8}) {
    CHECK_THAT(fault_of({.workers = workers}, plan, 5, 64), Catch::Contains("block 5,"));
  }
}

TEST_CASE("sim reports threads that do not meet", "[sim]") {
  const bz::SimOptions unchecked{.check_memory = false};  // the kernels store nothing
  const auto branch = [](const char* condition, const char* yes, const char* no) {
    return plan_of(fmt::format(R"(
      define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
        %t = call i32 @bz.tid()
        %c = {}
        br i1 %c, label %yes, label %no
      yes:
        {}
        br label %end
      no:
        {}
        br label %end
      end:
        ret void
      }})",
                               condition, yes, no),
                   {input(1), output(1)}, {.block = 64, .synchronizes = true});
  };
  const char* const low = "icmp ult i32 %t, 40";
  const char* const barrier = "call void @bz.barrier()";
  const char* const shuffle = "%s = call i32 @bz.shfl.xor(i32 %t, i32 1)";
  CHECK(fault_of(unchecked, branch(low, barrier, ""), 1, 1) ==
        "device error: kernel 'k', block 0, thread 0: barrier not reached by thread 40, which has finished");
  CHECK(fault_of(unchecked, branch(low, "", barrier), 1, 1) ==
        "device error: kernel 'k', block 0, thread 40: barrier not reached by thread 0, which has finished");
  CHECK(fault_of(unchecked, branch(low, shuffle, ""), 1, 1) ==
        "device error: kernel 'k', block 0, thread 32: shuffle not reached by thread 40 of the same warp, "
        "which has "
        "finished");
  CHECK(fault_of(unchecked, branch(low, shuffle, barrier), 1, 1) ==
        "device error: kernel 'k', block 0, thread 32: shuffle not reached by thread 40 of the same warp, "
        "which waits "
        "at a barrier");
  // Whole warps may shuffle alone.
  CHECK(fault_of(unchecked, branch("icmp ult i32 %t, 32", shuffle, ""), 1, 1) == "");
  CHECK(fault_of(unchecked, branch(low, barrier, barrier), 1, 1) ==
        "device error: kernel 'k', block 0, thread 0: barrier met by thread 40 at another barrier");
  CHECK(fault_of(unchecked, branch(low, shuffle, "%s2 = call i32 @bz.shfl.xor(i32 %t, i32 1)"), 1, 1) ==
        "device error: kernel 'k', block 0, thread 32: shuffle met by thread 40 at another shuffle");

  bz::Plan undeclared = branch(low, barrier, barrier);
  undeclared.kernels[0].synchronizes = false;
  CHECK_THAT(fault_of(unchecked, undeclared, 1, 1),
             Catch::Contains("a barrier in a kernel whose plan says it has none"));
}

TEST_CASE("sim still works after a block that diverged", "[sim]") {
  bz::Plan plan = plan_of(std::string(kBlockSum) + R"(
    define void @diverges(ptr addrspace(1) %x, ptr addrspace(1) %y) {
      %t = call i32 @bz.tid()
      %c = icmp ult i32 %t, 100
      br i1 %c, label %wait, label %end
    wait:
      call void @bz.barrier()
      br label %end
    end:
      ret void
    })",
                          {input(256), output(1)}, {.block = 256, .shared_bytes = 32, .synchronizes = true});
  bz::Plan bad = plan;
  bad.kernels[0].name = "diverges";
  const auto device = bz::open_sim();
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_AS(run(*device, bad, ramp(256), 1), bz::DeviceError);
    CHECK(run(*device, plan, ramp(256), 1)[0] == 256.0f * 257.0f / 2.0f);
  }
}

TEST_CASE("sim runs one program from several host threads", "[sim]") {
  const auto device = bz::open_sim({.workers = 3});
  const auto program =
      device->load(plan_of(kBlockSum, {input(256 * 8), output(8)},
                           {.grid = 8, .block = 256, .shared_bytes = 32, .synchronizes = true}));
  const auto x = ramp(256 * 8);
  bz::DeviceBuffer in(*device, 256 * 8 * 4);
  device->copy_in(in.get(), x.data(), 256 * 8 * 4);
  std::vector<std::vector<float>> results(4, std::vector<float>(8));
  std::vector<std::thread> callers;
  for (std::vector<float>& y : results) {
    callers.emplace_back([&] {
      bz::DeviceBuffer out(*device, 32);
      const std::vector<void*> arguments = {in.get(), out.get()};
      for (int i = 0; i < 10; ++i) program->run(arguments, nullptr);
      device->copy_out(y.data(), out.get(), 32);
    });
  }
  for (std::thread& t : callers) t.join();
  for (const std::vector<float>& y : results) CHECK(y == results[0]);
  CHECK(results[0][0] == 256.0f * 257.0f / 2.0f);
}

TEST_CASE("sim skips empty grids and accepts empty buffers", "[sim]") {
  bz::Plan plan =
      plan_of("", {input(0), output(0), buffer("t0", PlanBuffer::Kind::temporary, 0)}, {.grid = 0});
  const auto device = bz::open_sim();
  CHECK(run(*device, plan, {}, 0).empty());
  const std::vector<void*> nowhere = {nullptr, nullptr};
  CHECK_NOTHROW(device->load(plan)->run(nowhere, nullptr));
}

TEST_CASE("programs refuse arguments that do not fit", "[sim]") {
  const auto device = bz::open_sim();
  const auto program = device->load(plan_of(shifted_copy(0), {input(64), output(64)}, {.block = 64}));
  bz::DeviceBuffer memory(*device, 1024);
  auto* p = static_cast<std::byte*>(memory.get());
  const auto message = [&](std::vector<void*> arguments) -> std::string {
    try {
      program->run(arguments, nullptr);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message({p}) ==
        "device error: program 'test' takes 2 buffers, its inputs then its outputs, and got 1");
  CHECK(message({p, nullptr}) == "device error: program 'test': output 'y' is a null pointer");
  CHECK_THAT(message({p + 4, p + 512}),
             Catch::Contains("input 'x' is at") && Catch::Contains("not a multiple of the 16 bytes"));
  CHECK(message({p, p + 256}) == "");
  CHECK_THAT(message({p, p}), Catch::Contains("an output may share memory with nothing else"));
  CHECK(message({p, p + 16}) ==
        "error: input 'x' (256 bytes) and output 'y' (256 bytes) overlap by 240 bytes; an output may share "
        "memory with nothing else");
}

TEST_CASE("sim says when a program is for another device or its module is damaged", "[sim]") {
  const auto device = bz::open_sim();
  bz::Plan plan;
  plan.name = "softmax";
  plan.sm = 90;
  CHECK_THROWS_WITH(device->load(plan),
                    "device error: program 'softmax' was compiled for sm_90, not for the "
                    "simulator; compile it for target 'sim' to run it here");
  plan.bitcode = "no bitcode";
  CHECK_THROWS_AS(device->load(plan), bz::InternalError);
}

TEST_CASE("sim device memory", "[sim]") {
  const auto device = bz::open_sim();
  CHECK(device->kind() == "sim");
  CHECK(device->target().sim);
  bz::DeviceBuffer nothing(*device, 0), some(*device, 100);
  CHECK(nothing.get() != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(some.get()) % 256 == 0);
  device->fill(some.get(), 0x5a, 100);
  std::vector<unsigned char> host(100);
  device->copy_out(host.data(), some.get(), 100);
  CHECK(host == std::vector<unsigned char>(100, 0x5a));

  const bz::Plan plan = plan_of(shifted_copy(0), {input(64), output(64)}, {.block = 64});
  const auto program = device->load(plan);
  bz::DeviceBuffer x(*device, 256), y(*device, 256);
  const std::vector<void*> arguments = {x.get(), y.get()};
  CHECK(device->time(*program, {&arguments, 1}, 1, 3).size() == 3);
}
