// Functions in LLVM IR, compiled for this machine to be called on many values, and through the NVPTX backend.
#pragma once

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace bz {

// The address of element i + j of an argument, at turn i of a loop.
using LoopElement = std::function<llvm::Value*(unsigned arg, std::uint64_t j)>;
using LoopBody = std::function<void(llvm::IRBuilder<>& b, const LoopElement& element)>;
// void NAME(a, b, out, n): for i = 0, step, .. below n what `body` makes of the elements.
void add_loop(llvm::Module& m, const std::string& name, llvm::Type* type, std::uint64_t step,
              const LoopBody& body);
// void NAME(a, b, out, n): out[i] = function(a[i], b[i]); b is not read by unary functions.
void add_loop(llvm::Module& m, const std::string& name, llvm::Function* function, bool f64);

// What the verifier has against a module; "" for nothing.
std::string verification(const llvm::Module& m);

// The PTX of what `add` adds to a module, once optimized, for a target such as sm_90.
std::string host_math_ptx(void (*add)(llvm::Module&), const char* cpu);

// Loops, compiled for this machine.
class HostMath {
 public:
  explicit HostMath(void (*add)(llvm::Module&));

  template <class T>
  std::vector<T> run(const std::string& name, const std::vector<T>& a, const std::vector<T>& b) const {
    using Loop = void(const T*, const T*, T*, std::size_t);
    auto* loop = llvm::cantFail(jit_->lookup(name)).template toPtr<Loop*>();
    std::vector<T> out(a.size());
    loop(a.data(), b.data(), out.data(), out.size());
    return out;
  }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

// Error of `got` in units in the last place of T at `want`; infinite where NaN, infinity or the sign of a
// zero differs.
template <class T, class Wide>
double ulp_error(T got, Wide want) {
  using Limits = std::numeric_limits<T>;
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  if (std::isinf(want)) return got == static_cast<T>(want) ? 0 : kWrong;
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : kWrong;
  if (got == 0 && std::signbit(got) != std::signbit(want)) return kWrong;
  int exponent = std::min(std::max(std::ilogb(want), Limits::min_exponent - 1), Limits::max_exponent - 1);
  Wide unit = std::ldexp(Wide(1), exponent + 1 - Limits::digits);
  // An infinity stands for the first value that does not fit, and that for all larger ones.
  const Wide overflow = std::ldexp(Wide(1), Limits::max_exponent);
  auto bounded = [&](Wide v) { return std::min(std::max(v, -overflow), overflow); };
  return static_cast<double>(std::abs(bounded(got) - bounded(want)) / unit);
}

}  // namespace bz
