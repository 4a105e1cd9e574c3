// The C interface: handles, structs and status codes around compiler and runtime. No exception leaves it.
#include "frontends/c/braze.h"

#include <braze/device.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>

#include "frontends/cpp/executable_state.h"
#include "frontends/cpp/tuner.h"
#include "ir/parse.h"
#include "runtime/arguments.h"
#include "support/error.h"

struct braze_device {
  std::shared_ptr<bz::runtime::Device> runtime;
  std::string kind, name;
};

struct braze_executable {
  struct Argument {
    std::string name;
    bz::Type type;
    std::vector<std::int64_t> strides;
  };

  bz::CompileOptions options;
  bz::Compilation compilation;
  std::unique_ptr<bz::Program> program;  // null when compiled only to be looked at
  std::vector<Argument> arguments;       // inputs, then outputs
  std::size_t input_count = 0;
};

namespace {

using bz::Error;

thread_local std::string last_error;

braze_status fail(braze_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

template <class Body>
braze_status guarded(Body&& body) noexcept {
  try {
    body();
    return BRAZE_OK;
  } catch (const Error& e) {
    return fail(BRAZE_ERROR, e.what());
  } catch (const bz::DeviceError& e) {
    return fail(BRAZE_DEVICE_ERROR, e.what());
  } catch (const std::exception& e) {
    return fail(BRAZE_INTERNAL_ERROR, e.what());
  } catch (...) {
    return fail(BRAZE_INTERNAL_ERROR, "internal error: an exception of unknown type");
  }
}

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(fmt::format("{} is NULL", what));
}

template <class T>
std::span<T> list_of(T* first, std::size_t count, const char* what) {
  if (count > 0) require(first, what);
  return {first, count};
}

template <class Struct>
void require_size(const Struct& s, const char* what) {
  if (s.struct_size >= sizeof(Struct)) return;
  throw Error(fmt::format("{}: struct_size is {}, it has {} bytes", what, s.struct_size, sizeof(Struct)));
}

// The options of a caller who may know fewer fields; those that are 0 have their defaults.
braze_compile_options options_of(const braze_compile_options* given) {
  braze_compile_options options = BRAZE_COMPILE_OPTIONS;
  if (given == nullptr) return options;
  constexpr std::size_t kFirstVersion = offsetof(braze_compile_options, tune);
  if (given->struct_size < kFirstVersion) {
    throw Error(fmt::format("braze_compile_options: struct_size is {}, it has {} bytes", given->struct_size,
                            sizeof(options)));
  }
  std::memcpy(&options, given, std::min(given->struct_size, sizeof(options)));
  return options;
}

std::string text_or(const char* text, const char* otherwise) { return text != nullptr ? text : otherwise; }

bz::ParseOptions parse_options(const braze_compile_options& o) {
  bz::ParseOptions options{.file = text_or(o.file, "<text>")};
  for (const braze_size& size : list_of(o.sizes, o.size_count, "sizes")) {
    require(size.name, "the name of a size");
    if (!options.sizes.emplace(size.name, size.value).second) {
      throw Error(fmt::format("size {} is given twice", size.name));
    }
  }
  return options;
}

bz::Target choose_target(const braze_device* device, const char* name) {
  if (name == nullptr) {
    require(device, "without a target, the device");
    return device->runtime->target();
  }
  const std::optional<bz::Target> target = bz::parse_target(name);
  if (target) return *target;
  throw Error(fmt::format("there is no target '{}'; the targets are {}, sim", name,
                          fmt::join(bz::known_targets(), ", ")));
}

int check_alignment(int alignment) {
  if (alignment == 0) return bz::kWidestAlignment;
  if (alignment > 0 && alignment <= bz::kWidestAlignment &&
      std::has_single_bit(static_cast<unsigned>(alignment))) {
    return alignment;
  }
  throw Error(
      fmt::format("alignment {} is not a power of two from 1 to {}", alignment, bz::kWidestAlignment));
}

bz::CompileOptions compile_options(const braze_device* device, const braze_compile_options& o) {
  bz::CompileOptions options;
  options.target = choose_target(device, o.target);
  options.schedule = text_or(o.schedule, "");
  options.fast_math = o.fast_math != 0;
  options.alignment = check_alignment(o.alignment);
  for (const char* pass : list_of(o.disabled_passes, o.disabled_pass_count, "disabled_passes")) {
    require(pass, "the name of a pass");
    options.disabled_passes.emplace_back(pass);
  }
  return options;
}

void list_arguments(braze_executable& executable) {
  const bz::Plan& plan = executable.compilation.plan;
  bz::for_each_argument(plan, [&](std::size_t, std::size_t buffer) {
    const bz::PlanBuffer& b = plan.buffers[buffer];
    executable.arguments.push_back({b.name, b.type, bz::row_major_strides(b.type.shape)});
    if (b.kind == bz::PlanBuffer::Kind::input) ++executable.input_count;
  });
}

char* copy_of(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

static_assert(BRAZE_F32 == static_cast<int>(bz::DType::f32) &&
              BRAZE_F16 == static_cast<int>(bz::DType::f16) &&
              BRAZE_BF16 == static_cast<int>(bz::DType::bf16) &&
              BRAZE_F64 == static_cast<int>(bz::DType::f64) &&
              BRAZE_I32 == static_cast<int>(bz::DType::i32) &&
              BRAZE_I64 == static_cast<int>(bz::DType::i64) &&
              BRAZE_BOOL == static_cast<int>(bz::DType::boolean));

}  // namespace

int32_t braze_abi_version() { return BRAZE_ABI_VERSION; }
const char* braze_version() { return BRAZE_VERSION; }
const char* braze_last_error() { return last_error.c_str(); }

// ---- devices ----

braze_status braze_device_open(const char* name, braze_device** device) {
  return guarded([&] {
    require(name, "the name of the device");
    require(device, "device");
    const bz::Device opened = bz::Device::open(name);
    *device = new braze_device{opened.shared_runtime(), opened.kind(), opened.name()};
  });
}
void braze_device_free(braze_device* device) { delete device; }

const char* braze_device_kind(const braze_device* device) { return device->kind.c_str(); }
const char* braze_device_name(const braze_device* device) { return device->name.c_str(); }
int32_t braze_device_ordinal(const braze_device* device) { return device->runtime->ordinal(); }

// ---- compiling ----

braze_status braze_compile(braze_device* device, const char* text, const braze_compile_options* options,
                           braze_executable** executable) {
  return guarded([&] {
    require(text, "text");
    require(executable, "executable");
    const braze_compile_options o = options_of(options);

    const bz::ir::Graph graph = bz::parse(text, parse_options(o));
    auto compiled = std::make_unique<braze_executable>();
    compiled->options = compile_options(device, o);
    if (o.tune != 0) {
      if (o.target != nullptr) throw Error("tuning measures on the device, it cannot be for another target");
      compiled->options.measured = bz::tune(graph, compiled->options, *device->runtime, {});
    }
    compiled->compilation = bz::compile(graph, compiled->options);
    list_arguments(*compiled);
    if (o.target == nullptr) compiled->program = device->runtime->load(compiled->compilation.plan);
    *executable = compiled.release();
  });
}
void braze_executable_free(braze_executable* executable) { delete executable; }

// ---- looking ----

size_t braze_input_count(const braze_executable* executable) {
  return executable != nullptr ? executable->input_count : 0;
}
size_t braze_output_count(const braze_executable* executable) {
  return executable != nullptr ? executable->arguments.size() - executable->input_count : 0;
}

braze_status braze_get_argument(const braze_executable* executable, size_t index, braze_argument* argument) {
  return guarded([&] {
    require(executable, "executable");
    require(argument, "argument");
    require_size(*argument, "braze_argument");
    const std::size_t count = executable->arguments.size();
    if (index >= count) throw Error(fmt::format("there is no argument {}, there are {}", index, count));
    const braze_executable::Argument& a = executable->arguments[index];
    argument->name = a.name.c_str();
    argument->shape = a.type.shape.data();
    argument->strides = a.strides.data();
    argument->bytes = a.type.elements() * bz::size_of(a.type.dtype);
    argument->rank = a.type.rank();
    argument->dtype = static_cast<braze_dtype>(a.type.dtype);
  });
}

int64_t braze_bytes_min(const braze_executable* executable) {
  return executable != nullptr ? executable->compilation.bytes_min() : 0;
}
int64_t braze_bytes_total(const braze_executable* executable) {
  return executable != nullptr ? executable->compilation.bytes_total() : 0;
}
int64_t braze_kernel_count(const braze_executable* executable) {
  return executable != nullptr ? static_cast<int64_t>(executable->compilation.kernels.size()) : 0;
}

braze_status braze_explain(const braze_executable* executable, int32_t json, char** text) {
  return guarded([&] {
    require(executable, "executable");
    require(text, "text");
    const bz::Compilation& c = executable->compilation;
    *text = copy_of(json != 0 ? c.explain_json() : c.explain());
  });
}

braze_status braze_dump(const braze_executable* executable, const char* stage, char** text) {
  return guarded([&] {
    require(executable, "executable");
    require(stage, "stage");
    require(text, "text");
    const std::optional<bz::Stage> parsed = bz::parse_stage(stage);
    if (!parsed) {
      throw Error(fmt::format("there is no stage '{}'; the stages are {}", stage,
                              fmt::join(bz::stage_names(), ", ")));
    }
    *text = copy_of(bz::dump(executable->compilation, executable->options, *parsed));
  });
}
void braze_text_free(char* text) { std::free(text); }

// ---- launching ----

int64_t braze_workspace_bytes(const braze_executable* executable) {
  return executable != nullptr && executable->program != nullptr ? executable->program->workspace_bytes() : 0;
}

braze_status braze_launch(const braze_executable* executable, void* const* addresses, size_t count,
                          void* workspace, void* stream) {
  return guarded([&] {
    require(executable, "executable");
    if (executable->program == nullptr) {
      throw Error(fmt::format("graph {} was compiled for {} to be looked at, without a device to run it on",
                              executable->compilation.graph.name(), executable->compilation.target.name));
    }
    executable->program->run_in(workspace, list_of(addresses, count, "addresses"),
                                stream != nullptr ? stream : bz::kDefaultStream);
  });
}
