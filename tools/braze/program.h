// Programs named on the command line.
#pragma once

#include <braze/executable.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/target.h"
#include "tools/braze/commands.h"

namespace bz::cli {

struct EmbeddedExample {
  std::string_view name, text;
};
// examples/*.braze, built into the command.
std::span<const EmbeddedExample> embedded_examples();

// Reads a file or a built-in example. Throws Error.
ir::Graph load_program(const ProgramFlags& flags);

// "NAME=VALUE" split at the first '='. Throws UsageError for a text without name or value.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& flag);

// How a program is compiled to run on a device.
Options device_options(const ProgramFlags& flags, bool tune, std::ostream& err);

// The target of --target; by default that of the first GPU, else sm_90. Throws UsageError for an unknown
// name.
Target choose_target(const std::string& name);

}  // namespace bz::cli
