// One graph compiled for several alignments of its arguments, each when it is first needed.
//
//   Variants v(graph, options, device);
//   v.run({x, y}, stream);        // picks the variant for the addresses of x and y
#pragma once

#include <map>
#include <memory>
#include <span>

#include "compiler/compile.h"
#include "runtime/runtime.h"

namespace bz {

inline constexpr int kWidestAlignment = 16;  // bytes a thread loads at once

// The largest power of two up to kWidestAlignment that divides every address.
int common_alignment(std::span<void* const> addresses);

class Variants {
 public:
  Variants(const ir::Graph& graph, CompileOptions options, std::shared_ptr<runtime::Device> device);

  const CompileOptions& options() const { return options_; }
  const Compilation& widest() const { return widest_; }
  // The program for arguments of that alignment, or that of their elements where it is more; loaded when first asked for.
  Program& program(int alignment);
  // Addresses of the inputs, then of the outputs, each a multiple of the size of its elements.
  void run(std::span<void* const> addresses, StreamHandle stream);

 private:
  CompileOptions options_;
  std::shared_ptr<runtime::Device> device_;
  Compilation widest_;
  std::map<int, std::unique_ptr<Program>> programs_;
};

}  // namespace bz
