#include "frontends/cpp/variants.h"

#include <fmt/format.h>

#include <cstdint>

namespace bz {

int common_alignment(std::span<void* const> addresses) {
  std::uintptr_t bits = kWidestAlignment;
  for (void* address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return static_cast<int>(bits & (~bits + 1));
}

Variants::Variants(const ir::Graph& graph, CompileOptions options, std::shared_ptr<runtime::Device> device)
    : options_(std::move(options)), device_(std::move(device)) {
  options_.alignment = kWidestAlignment;
  widest_ = compile(graph, options_);
}

Program& Variants::program(int alignment) {
  std::unique_ptr<Program>& slot = programs_[alignment];
  if (slot != nullptr) return *slot;
  if (options_.target.sim != (device_->kind() == "sim")) {
    throw Error(fmt::format("graph {} was compiled for {}, it cannot run on {}", widest_.graph.name(),
                            options_.target.name, device_->name()));
  }
  if (alignment == kWidestAlignment) {
    slot = device_->load(widest_.plan);
  } else {
    CompileOptions options = options_;
    options.alignment = alignment;
    slot = device_->load(compile(widest_.graph, options).plan);
  }
  return *slot;
}

void Variants::run(std::span<void* const> addresses, StreamHandle stream) {
  program(common_alignment(addresses)).run(addresses, stream);
}

}  // namespace bz
