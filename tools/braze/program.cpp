#include "tools/braze/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>

#include "ir/parse.h"
#include "ir/suggest.h"
#include "runtime/runtime.h"

namespace bz::cli {
namespace {

std::map<std::string, std::int64_t> parse_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& text : texts) {
    const auto [name, value] = split_assignment(text, "--size");
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size()) {
      throw UsageError(fmt::format("--size {}: {} is not an integer", text, value));
    }
    if (!sizes.emplace(name, size).second) throw UsageError(fmt::format("--size {} is given twice", name));
  }
  return sizes;
}

const EmbeddedExample* find_example(std::string_view name) {
  for (const EmbeddedExample& e : embedded_examples()) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

}  // namespace

std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& flag) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw UsageError(fmt::format("{} {}: expected NAME=VALUE", flag, text));
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

ir::Graph load_program(const ProgramFlags& flags) {
  const std::map<std::string, std::int64_t> sizes = parse_sizes(flags.sizes);
  if (std::filesystem::is_regular_file(flags.file)) return parse_file(flags.file, sizes);
  if (const EmbeddedExample* example = find_example(flags.file)) {
    return parse(example->text, {std::string(example->name) + ".braze", sizes});
  }
  std::vector<std::string_view> names;
  for (const EmbeddedExample& e : embedded_examples()) names.push_back(e.name);
  throw Error(fmt::format("{} is neither a file nor a built-in example{}; the examples are {}", flags.file,
                          did_you_mean(flags.file, names), fmt::join(names, ", ")));
}

Options device_options(const ProgramFlags& flags, bool tune, std::ostream& err) {
  Options options;
  options.schedule = flags.schedule;
  options.disabled_passes = flags.disabled;
  options.fast_math = flags.fast_math;
  options.tune = tune;
  options.progress = [&err](const std::string& line) { err << line << std::endl; };
  return options;
}

Target choose_target(const std::string& name) {
  if (name.empty()) {
    const DeviceInfo first = bz::list_devices().front();
    return first.kind == "cuda" ? first.target : *parse_target("sm_90");
  }
  const std::optional<Target> target = parse_target(name);
  if (!target) {
    throw UsageError(
        fmt::format("--target {}: the targets are {}, sim", name, fmt::join(known_targets(), ", ")));
  }
  return *target;
}

}  // namespace bz::cli
