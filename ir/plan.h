// The plan: all that a runtime needs to run a compiled program. Compiler and runtime meet here and nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/shape.h"

namespace bz {

struct PlanBuffer {
  enum class Kind : std::uint8_t { input, output, temporary };
  std::string name;  // of the input or output; "t0", "t1", ... for temporaries
  Kind kind = Kind::temporary;
  Type type;
  bool zeroed = false;  // a temporary that is 0 when a run starts
  std::int64_t bytes() const { return type.elements() * size_of(type.dtype); }
};

// A line of the kernel IR, as kernel::print() writes it without indentation.
struct PlanLine {
  std::string text;
  std::string node;  // the graph node it helps to compute, "%5 = sum"; may be empty
};

struct PlanKernel {
  std::string name;            // symbol in the module
  std::vector<int> arguments;  // indices into Plan::buffers, one pointer argument each, in order
  std::int64_t grid = 1;       // blocks, at most 2^31 - 1
  int block = 1;               // threads, at most 1024
  int shared_bytes = 0;        // dynamic shared memory
  bool synchronizes = false;   // has barriers or shuffles: its threads must run side by side
  int cluster = 1;    // blocks that run side by side; consecutive ones reach each other's shared memory
  bool gang = false;  // anywhere on the device, without shared memory of their own
  bool persistent =
      false;      // its blocks take turns: any number of clusters does all the work, that is a multiple of
  int apart = 1;  // this, or all
  std::vector<PlanLine>
      lines;  // for the simulator's reports; the first is number 1. Empty when compiled for CUDA
};

struct Plan {
  std::string name;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanKernel> kernels;  // in launch order
  // Alignment in bytes that the kernels need of every argument's address; that of its elements they need anyway. Temporaries
  // always have 256.
  int alignment = 16;
  std::string ptx;      // for the CUDA runtime; empty when compiled for the simulator
  int ptx_version = 0;  // 10 * major + minor, of `ptx`
  int sm = 0;           // target of `ptx`
  std::string
      bitcode;  // LLVM bitcode for the simulator, primitives not yet bound; empty when compiled for CUDA
};

}  // namespace bz
