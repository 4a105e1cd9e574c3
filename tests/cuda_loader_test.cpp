// Finding the CUDA driver and what it says no to, with fake drivers (tests/fake_cuda), and a kernel on a real
// GPU where there is one. BRAZE_FAKE_CUDA_GPU and BRAZE_FAKE_CUDA_OLD are the paths of the fakes.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/cuda/ptx_version.h"
#include "runtime/runtime.h"
#include "support/error.h"

namespace {

using Variables = std::map<std::string, std::string>;

// Sets environment variables, and takes them away at the end of the scope.
class Environment {
 public:
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  Variables variables_;
};

Environment fake(const Variables& settings = {}) {
  Variables variables = {{"BRAZE_CUDA_LIBRARY", BRAZE_FAKE_CUDA_GPU}};
  for (const auto& [name, value] : settings) variables["FAKE_CUDA_" + name] = value;
  return Environment(std::move(variables));
}

template <class Function>
std::string error_of(Function&& function) {
  try {
    function();
  } catch (const bz::DeviceError& e) {
    return e.what();
  }
  return "";
}
std::string error_of_open(int ordinal = 0) {
  return error_of([&] { bz::open_cuda(ordinal); });
}

// y[i] = x[i] + x[i] by way of a temporary, over `n` floats in blocks of 128.
bz::Plan twice(std::int64_t n) {
  using Kind = bz::PlanBuffer::Kind;
  const bz::Type type{bz::DType::f32, {n}};
  bz::Plan plan;
  plan.name = "twice";
  plan.buffers = {{"x", Kind::input, type}, {"y", Kind::output, type}, {"t0", Kind::temporary, type}};
  plan.kernels = {
      {.name = "add", .arguments = {0, 0, 2}, .grid = n / 128, .block = 128},
      {.name = "copy", .arguments = {2, 1}, .grid = n / 128, .block = 128, .shared_bytes = 64 << 10}};
  plan.alignment = 4;
  plan.ptx_version = 63;
  plan.sm = 75;
  plan.ptx = R"(
    .version 6.3
    .target sm_75
    .address_size 64
    .visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c) {
      .reg .u32 %t<4>; .reg .u64 %p<8>; .reg .f32 %f<4>;
      mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x; mad.lo.u32 %t3, %t0, %t1, %t2;
      mul.wide.u32 %p0, %t3, 4;
      ld.param.u64 %p1, [a]; ld.param.u64 %p2, [b]; ld.param.u64 %p3, [c];
      add.u64 %p1, %p1, %p0; add.u64 %p2, %p2, %p0; add.u64 %p3, %p3, %p0;
      ld.global.f32 %f0, [%p1]; ld.global.f32 %f1, [%p2];
      add.rn.f32 %f2, %f0, %f1;
      st.global.f32 [%p3], %f2;
      ret;
    }
    .visible .entry copy(.param .u64 a, .param .u64 b) {
      .reg .u32 %t<4>; .reg .u64 %p<8>; .reg .f32 %f<4>;
      mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x; mad.lo.u32 %t3, %t0, %t1, %t2;
      mul.wide.u32 %p0, %t3, 4;
      ld.param.u64 %p1, [a]; ld.param.u64 %p2, [b];
      add.u64 %p1, %p1, %p0; add.u64 %p2, %p2, %p0;
      ld.global.f32 %f0, [%p1]; st.global.f32 [%p2], %f0;
      ret;
    })";
  return plan;
}

void run(bz::runtime::Device& device, const bz::Plan& plan) {
  bz::DeviceBuffer x(device, plan.buffers[0].bytes()), y(device, plan.buffers[1].bytes());
  const std::vector<void*> arguments = {x.get(), y.get()};
  const auto program = device.load(plan);
  program->run(arguments, nullptr);
  program->run(arguments, nullptr);
  device.synchronize();
}

}  // namespace

TEST_CASE("a missing CUDA driver is named, and the simulator takes over", "[cuda]") {
  const Environment environment(Variables{{"BRAZE_CUDA_LIBRARY", "/nowhere/libcuda.so.1"}});
  CHECK_THAT(error_of_open(),
             Catch::StartsWith("device error: no CUDA driver: cannot load /nowhere/libcuda.so.1 (") &&
                 Catch::EndsWith("install the NVIDIA driver, or set BRAZE_CUDA_LIBRARY to the path "
                                 "of its libcuda.so.1"));
  std::string why;
  CHECK(bz::best_device(&why)->kind() == "sim");
  CHECK_THAT(why, Catch::StartsWith("no CUDA driver: "));
  why.clear();
  const auto devices = bz::list_devices(&why);
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].kind == "sim");
  CHECK_THAT(why, Catch::StartsWith("no CUDA driver: "));
}

TEST_CASE("a library that is no driver, a stub, no device and old drivers are told apart", "[cuda]") {
  {
    const Environment environment(Variables{{"BRAZE_CUDA_LIBRARY", "libc.so.6"}});
    CHECK_THAT(error_of_open(), Catch::Contains("cannot load libc.so.6 (it is not a CUDA driver)"));
  }
  {
    const Environment environment = fake({{"INIT", "34"}});
    CHECK(error_of_open() == "device error: the first CUDA library on the library path, " BRAZE_FAKE_CUDA_GPU
                             ", is a stub that programs are linked against, not a driver; take its folder "
                             "out of LD_LIBRARY_PATH, or set "
                             "BRAZE_CUDA_LIBRARY to the path of the driver's libcuda.so.1");
  }
  {
    const Environment environment = fake({{"INIT", "100"}});
    CHECK_THAT(
        error_of_open(),
        Catch::StartsWith("device error: no CUDA device: the driver " BRAZE_FAKE_CUDA_GPU " finds none"));
  }
  {
    const Environment environment = fake({{"INIT", "803"}});
    CHECK_THAT(error_of_open(), Catch::Contains("have different versions"));
  }
  {
    const Environment environment = fake({{"INIT", "700"}});
    CHECK_THAT(error_of_open(), Catch::EndsWith("does not start: CUDA_ERROR_ILLEGAL_ADDRESS (700): as told"));
  }
  {
    const Environment environment(Variables{{"BRAZE_CUDA_LIBRARY", BRAZE_FAKE_CUDA_OLD}});
    CHECK(error_of_open() ==
          "device error: the CUDA driver " BRAZE_FAKE_CUDA_OLD
          " is too old: it supports CUDA 11.2, and 11.8 or newer is needed; update the NVIDIA "
          "driver");
  }
  {
    const Environment environment = fake({{"MISSING", "cuMemPoolCreate,cuLaunchKernel"}});
    CHECK(error_of_open() ==
          "device error: the CUDA driver " BRAZE_FAKE_CUDA_GPU
          " supports CUDA 12.4 but lacks cuLaunchKernel (4.0), cuMemPoolCreate (11.2); update the "
          "NVIDIA driver");
  }
}

TEST_CASE("CUDA ordinals are checked", "[cuda]") {
  {
    const Environment environment = fake({{"DEVICES", "2"}});
    CHECK(error_of_open(3) == "device error: no CUDA device 3: there are 2");
    CHECK(error_of_open(-1) == "device error: no CUDA device -1: there are 2");
    CHECK(bz::open_cuda(1)->name() == "Fake GPU 1");
    CHECK(bz::list_devices().size() == 3);
  }
  {
    const Environment environment = fake();
    CHECK(error_of_open(1) == "device error: no CUDA device 1: there is 1");
  }
}

TEST_CASE("the target is read off the device and its driver", "[cuda]") {
  const Environment environment = fake({{"SM", "89"}, {"VERSION", "12060"}});
  const bz::Target target = bz::open_cuda()->target();
  CHECK(target.name == "sm_89");
  CHECK(target.sm == 89);
  CHECK(target.ptx == 85);
  CHECK(target.multiprocessors == 10);
  CHECK(target.max_shared_bytes == 99 << 10);
  CHECK(target.l2_bytes == 4 << 20);
  CHECK(target.threads_per_multiprocessor == 1536);
  CHECK(target.blocks_per_multiprocessor == 24);
  CHECK(target.shared_per_multiprocessor == 100 << 10);
  CHECK(target.registers_per_multiprocessor == 65536);
  CHECK(target.dram_bytes_per_second == Approx(0.89 * 128e9));
}

TEST_CASE("devices between and before the known targets", "[cuda]") {
  {
    const Environment environment = fake({{"SM", "103"}, {"VERSION", "13050"}});
    CHECK(bz::open_cuda()->target().name == "sm_100");
    CHECK(bz::open_cuda()->target().ptx == bz::cuda::kNewestWrittenPtx);
  }
  {
    const Environment environment = fake({{"SM", "61"}});
    CHECK(error_of_open() ==
          "device error: Fake GPU 0 has compute capability 6.1, and sm_75 is the oldest that Braze compiles "
          "for");
    std::string why;
    CHECK(bz::best_device(&why)->kind() == "sim");
    CHECK_THAT(why, Catch::Contains("compute capability 6.1"));
  }
}

TEST_CASE("the newest PTX of a driver", "[cuda]") {
  CHECK(bz::cuda::newest_ptx(11030) == 73);
  CHECK(bz::cuda::newest_ptx(12050) == 85);
  CHECK(bz::cuda::newest_ptx(12060) == 85);
  CHECK(bz::cuda::newest_ptx(12070) == 86);
  CHECK(bz::cuda::newest_ptx(13000) == 90);
  CHECK(bz::cuda::newest_ptx(99000) == 91);
}

TEST_CASE("programs that a CUDA device cannot run are refused", "[cuda]") {
  const Environment environment = fake();
  const auto device = bz::open_cuda();
  const auto message = [&](const bz::Plan& plan) { return error_of([&] { device->load(plan); }); };
  CHECK(message(twice(256)) == "");

  bz::Plan plan = twice(256);
  plan.ptx_version = 87;
  CHECK(message(plan) ==
        "device error: program 'twice' is in PTX 8.7, and the driver, which supports CUDA 12.4, reads PTX up "
        "to 8.4; "
        "compile it for PTX 8.4 or update the NVIDIA driver");
  plan = twice(256);
  plan.sm = 100;
  CHECK_THAT(message(plan), Catch::Contains("was compiled for sm_100, and the device is of kind sm_90"));
  plan = twice(256);
  plan.ptx.clear();
  CHECK_THAT(message(plan), Catch::Contains("was compiled for the simulator, not for CUDA"));
  plan = twice(256);
  plan.ptx = "nonsense";
  CHECK(message(plan) ==
        "device error: compiling the PTX of program 'twice' in the driver (its log: ptxas: syntax error) "
        "failed: "
        "CUDA_ERROR_INVALID_PTX (218): as told");
  plan = twice(256);
  plan.kernels[1].shared_bytes = 100 << 10;
  CHECK(message(plan) ==
        "device error: kernel 'copy' of program 'twice' with 2 blocks of 128 threads and 102400 bytes of "
        "shared "
        "memory: the device has 101376 bytes of shared memory for a block");
  plan = twice(256);
  plan.kernels[0].name = "missing";
  CHECK_THAT(message(plan), Catch::Contains("looking up kernel 'missing' of program 'twice'"));
  void* driver = dlopen(BRAZE_FAKE_CUDA_GPU, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver != nullptr);
  CHECK(*static_cast<const long*>(dlsym(driver, "fake_cuda_modules")) == 0);
  dlclose(driver);
  plan = twice(0);
  plan.ptx.clear();
  CHECK(message(plan) == "");
}

TEST_CASE("temporaries that begin as 0 are cleared before each run, and no others", "[cuda]") {
  const Environment environment = fake({});
  const auto device = bz::open_cuda();
  bz::Plan plan = twice(256);
  plan.buffers.push_back(
      {"queue", bz::PlanBuffer::Kind::temporary, {bz::DType::i32, {3}}, /*zeroed=*/true});
  plan.kernels[1].arguments.push_back(3);
  const auto program = device->load(plan);
  REQUIRE(program->workspace_bytes() == 256 + 1024);
  bz::DeviceBuffer x(*device, 1024), y(*device, 1024), workspace(*device, program->workspace_bytes());
  device->fill(workspace.get(), 0xff, program->workspace_bytes());
  program->run_in(workspace.get(), std::vector<void*>{x.get(), y.get()}, nullptr);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(program->workspace_bytes()));
  device->copy_out(bytes.data(), workspace.get(), program->workspace_bytes());
  CHECK(std::all_of(bytes.begin(), bytes.begin() + 256, [](int b) { return b == 0; }));
  CHECK(std::all_of(bytes.begin() + 256, bytes.end(), [](int b) { return b == 0xff; }));
}

TEST_CASE("CUDA failures name the launch", "[cuda]") {
  for (const char* pools : {"0", "1"}) {
    const Environment environment = fake({{"POOLS", pools}});
    const auto device = bz::open_cuda();
    CHECK(error_of([&] { run(*device, twice(256)); }) == "");
    {
      const Environment fails(Variables{{"FAKE_CUDA_FAIL", "cuLaunchKernel:701"}});
      CHECK(error_of([&] { run(*device, twice(256)); }) ==
            "device error: the launch of kernel 'add' of program 'twice' with 2 blocks of 128 threads and 0 "
            "bytes of "
            "shared memory failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): as told");
    }
    {
      const Environment fails(Variables{{"FAKE_CUDA_FAIL", "cuMemAlloc:2"}});
      CHECK(error_of([&] { device->allocate(1000); }) ==
            "device error: allocation of 1000 bytes on Fake GPU 0 failed: CUDA_ERROR_OUT_OF_MEMORY (2): as "
            "told");
    }
    CHECK(error_of([&] { run(*device, twice(256)); }) == "");
  }
}

TEST_CASE("a kernel that fails takes the CUDA context with it", "[cuda]") {
  const Environment environment = fake();
  const auto device = bz::open_cuda();
  {
    const Environment fails(Variables{{"FAKE_CUDA_FAIL", "cuStreamSynchronize:700"}});
    CHECK(error_of([&] { run(*device, twice(256)); }) ==
          "device error: a kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): as told; found out during "
          "waiting for the "
          "device, the last launch was kernel 'copy' of program 'twice' with 2 blocks of 128 threads and "
          "65536 bytes "
          "of shared memory; only a new process can use the device again");
  }
  CHECK(error_of([&] { device->synchronize(); }) ==
        "device error: the CUDA context was lost to an earlier failure (CUDA_ERROR_ILLEGAL_ADDRESS (700): as "
        "told); "
        "only a new process can use the device again");
}

TEST_CASE("a failure names a launch whose program is gone", "[cuda]") {
  const Environment environment = fake();
  const auto device = bz::open_cuda();
  run(*device, twice(256));
  const Environment fails(Variables{{"FAKE_CUDA_FAIL", "cuStreamSynchronize:700"}});
  CHECK_THAT(
      error_of([&] { device->synchronize(); }),
      Catch::Contains("the last launch was kernel 'copy' of program 'twice' with 2 blocks of 128 threads"));
}

TEST_CASE("a persistent kernel has as many blocks as run at once", "[cuda]") {
  const Environment environment = fake();
  const auto device = bz::open_cuda();
  void* driver = dlopen(BRAZE_FAKE_CUDA_GPU, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver != nullptr);
  const auto* grid = static_cast<const unsigned*>(dlsym(driver, "fake_cuda_grid_of_last_launch"));
  REQUIRE(grid != nullptr);
  const auto launched = [&](std::int64_t blocks, bool persistent, int cluster) {
    bz::Plan plan = twice(128 * blocks);
    for (bz::PlanKernel& k : plan.kernels) k.persistent = persistent, k.cluster = cluster;
    run(*device, plan);
    return *grid;
  };
  CHECK(launched(64, false, 1) == 64);
  CHECK(launched(64, true, 1) == 2 * static_cast<unsigned>(device->target().multiprocessors));
  CHECK(launched(6, true, 1) == 6);
  CHECK(launched(64, true, 4) == 4);
  CHECK(launched(64, false, 4) == 64);
}

TEST_CASE("CUDA memory and timing through the driver", "[cuda]") {
  const Environment environment = fake();
  const auto device = bz::open_cuda();
  CHECK(device->kind() == "cuda");
  bz::DeviceBuffer nothing(*device, 0), some(*device, 1000);
  CHECK(nothing.get() != nullptr);
  std::vector<unsigned char> host(1000);
  device->fill(some.get(), 0x11, 1000);
  device->copy_out(host.data(), some.get(), 1000);
  CHECK(host == std::vector<unsigned char>(1000, 0x11));

  const bz::Plan plan = twice(128);
  const auto program = device->load(plan);
  bz::DeviceBuffer x(*device, 512), y(*device, 512);
  const std::vector<void*> arguments = {x.get(), y.get()};
  CHECK(device->time(*program, {&arguments, 1}, 1, 3) == std::vector<double>(3, 0.25e-3));
}

TEST_CASE("a GPU runs a program of two kernels and a temporary", "[cuda][gpu]") {
  std::string why_not;
  const auto device = bz::best_device(&why_not);
  if (device->kind() != "cuda") {
    WARN("not run: " << why_not);
    return;
  }
  constexpr std::int64_t kElements = 1 << 20;
  const std::int64_t bytes = kElements * 4;
  std::vector<float> x(kElements), y(kElements);
  std::iota(x.begin(), x.end(), 1.0f);
  bz::DeviceBuffer in(*device, bytes), out(*device, bytes);
  device->copy_in(in.get(), x.data(), bytes);
  const std::vector<void*> arguments = {in.get(), out.get()};
  const auto program = device->load(twice(kElements));
  program->run(arguments, nullptr);
  device->synchronize();
  device->copy_out(y.data(), out.get(), bytes);
  for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == 2 * x[i]);
  for (double seconds : device->time(*program, {&arguments, 1}, 2, 5)) CHECK((seconds > 0 && seconds < 1));

  bz::Plan broken = twice(128);
  broken.ptx = ".version 6.3\n.target sm_75\n.address_size 64\nnonsense";
  CHECK_THAT(error_of([&] { device->load(broken); }), Catch::Contains("CUDA_ERROR_INVALID_PTX"));
}
