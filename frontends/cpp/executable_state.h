// What an Executable owns: the compiled variants of its program and the memory of launches.
#pragma once

#include <braze/executable.h>

#include <map>
#include <utility>

#include "frontends/cpp/variants.h"

namespace bz {

struct Executable::State {
  State(const ir::Graph& graph, const Device& on, const Options& options);

  // Inputs then outputs, as launch() takes their addresses.
  std::vector<PlanBuffer> arguments;
  Device device;
  Variants variants;

  void launch(std::span<void* const> addresses, StreamHandle stream);

 private:
  void* temporary(StreamHandle stream, std::size_t argument);
  void copy(const Type& type, void* from, void* to, StreamHandle stream);

  // Launches on one stream run one after the other, so they may share the stand-in of an argument.
  std::map<std::pair<StreamHandle, std::size_t>, DeviceBuffer> temporaries_;
  std::map<std::pair<DType, std::int64_t>, Variants> copiers_;  // by element type and number
};

// The program y = x for a number of elements.
ir::Graph copy_graph(DType dtype, std::int64_t elements);

// How a graph is compiled for a device. Measures when it is to be tuned.
CompileOptions compile_options(const ir::Graph& graph, const Device& device, const Options& options);

// A stage of what was compiled with `options`.
std::string dump(const Compilation& compilation, CompileOptions options, Stage stage);

}  // namespace bz
