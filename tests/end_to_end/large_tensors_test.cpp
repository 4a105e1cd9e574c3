// Tensors of more than 2^31 elements and bytes. A kernel over one runs too long in the simulator, but its last block does
// not: it alone is run, on memory of which only what it touches exists.
#include <fmt/format.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>

#include <cstring>

#include "harness.h"
#include "ir/simt.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// The module with each thread in this block.
std::string in_block(const std::string& bitcode, int block) {
  llvm::LLVMContext context;
  auto module = llvm::cantFail(llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, "kernels"), context));
  llvm::Function* index = module->getFunction({simt::kBlock.data(), simt::kBlock.size()});
  REQUIRE(index != nullptr);
  while (!index->use_empty()) {
    auto* call = llvm::cast<llvm::CallInst>(index->user_back());
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), static_cast<std::uint64_t>(block)));
    call->eraseFromParent();
  }
  std::string out;
  llvm::raw_string_ostream stream(out);
  llvm::WriteBitcodeToFile(*module, stream);
  return out;
}

// Zeros, a page of memory for each that is written.
class Zeros {
 public:
  explicit Zeros(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        p_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0)) {
    REQUIRE(p_ != MAP_FAILED);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() { munmap(p_, bytes_); }
  void* get() const { return p_; }

 private:
  std::size_t bytes_;
  void* p_;
};

double element(const Zeros& memory, DType t, std::int64_t at) {
  HostTensor one({t, {1}});
  std::memcpy(one.data(), static_cast<const char*>(memory.get()) + at * size_of(t),
              static_cast<std::size_t>(size_of(t)));
  return one.value(0);
}

struct LargeCase {
  std::string program;  // of one kernel, from x to y
  std::int64_t set;     // the element of x that is 1
  double last;          // element of y
  std::string schedule = "";
};

void check_last_block(const LargeCase& test) {
  INFO(test.program);
  const ir::Graph g = parse(test.program);
  Compilation c = compile_for_sim(g, {.schedule = test.schedule});
  REQUIRE(c.plan.kernels.size() == 1);
  PlanKernel& k = c.plan.kernels[0];
  REQUIRE(k.cluster == 1);
  c.plan.bitcode = in_block(c.plan.bitcode, k.grid - 1);
  k.grid = 1;
  const Type in = c.plan.buffers[0].type, out = c.plan.buffers[1].type;
  const Zeros x(c.plan.buffers[0].bytes()), y(c.plan.buffers[1].bytes());
  HostTensor one({in.dtype, {1}});
  one.set(0, Scalar::of(in.dtype, 1));
  std::memcpy(static_cast<char*>(x.get()) + test.set * size_of(in.dtype), one.data(),
              static_cast<std::size_t>(size_of(in.dtype)));
  const auto device = open_sim({.check_memory = false, .workers = 1});
  device->load(c.plan)->run(std::array<void*, 2>{x.get(), y.get()}, nullptr);
  device->synchronize();
  CHECK(element(y, out.dtype, out.elements() - 1) == test.last);
  CHECK(element(y, out.dtype, 0) == 0);
}

}  // namespace

TEST_CASE("the last block of more than 2^31 elements or bytes is where it should be") {
  constexpr std::int64_t kMany = 3'000'000'000;
  for (
      const LargeCase& test : std::initializer_list<LargeCase>{
          {fmt::format("graph p {{ %x = input f32[{}] %y = add %x, 1 output %y }}", kMany), kMany - 1, 2},
          {fmt::format("graph p {{ %x = input f32[{}] %y = flip %x {{axes = [0]}} output %y }}", kMany), 0,
           1},
          {fmt::format(
               "graph p {{ %x = input i64[{0}] %i = iota i64[{0}] {{axis = 0}} %y = add %x, %i output %y }}",
               kMany),
           kMany - 1, static_cast<double>(kMany)},
          {fmt::format(
               "graph p {{ %x = input f16[{}] %y = pad %x {{lo = [5], hi = [0], value = 3}} output %y }}",
               kMany),
           kMany - 1, 1},
          {"graph p { %x = input bool[3, 70000, 70001] %y = permute %x {perm = [2, 0, 1]} output %y }",
           std::int64_t{3} * 70000 * 70001 - 1, 1},
          {"graph p { %x = input f16[70000, 65537] %m = max %x {axes = [1], keepdims = true} %y = sub %m, %x "
           "output %y }",
           std::int64_t{70000} * 65537 - 2, 1, "lanes=reduced,vector=8,reduced=1024"},
          {fmt::format("graph p {{ %x = input f32[2, {}] %y = sum %x {{axes = [0]}} output %y }}", kMany),
           2 * kMany - 1, 1},
          {fmt::format("graph p {{ %x = input f32[{}, 2] %y = max %x {{axes = [1]}} output %y }}", kMany),
           2 * kMany - 2, 1},
          {fmt::format("graph p {{ %x = input f32[{}] %w = window %x {{axes = [0], size = [3], stride = [1], "
                       "dilation = [1]}} %y = max %w {{axes = [1]}} output %y }}",
                       kMany),
           kMany - 3, 1}}) {
    check_last_block(test);
  }
}

TEST_CASE("a slice reads beyond 2^31 elements") {
  constexpr std::int64_t kMany = 4'000'000'000;
  const Compilation c = compile_for_sim(
      parse("graph p { %x = input f32[4000000000]"
            " %y = slice %x {starts = [2999999999], stops = [4000000000], steps = [100000000]} output %y }"));
  const Zeros x(kMany * 4), y(c.plan.buffers[1].bytes());
  for (std::int64_t i = 0; i < 11; ++i)
    static_cast<float*>(x.get())[2'999'999'999 + i * 100'000'000] = static_cast<float>(i);
  const auto device = open_sim({.workers = 1});
  device->load(c.plan)->run(std::array<void*, 2>{x.get(), y.get()}, nullptr);
  device->synchronize();
  REQUIRE(c.plan.buffers[1].type.elements() == 11);
  for (std::int64_t i = 0; i < 11; ++i) CHECK(element(y, DType::f32, i) == static_cast<double>(i));
}
