// The verbs of the command, with the flags they take. Each writes to `out` only what it was asked for; what
// goes wrong is an exception, and cli.cpp makes the exit status of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace bz::cli {

// Of emit, explain, run and bench.
struct ProgramFlags {
  std::string file;                // a path, or the name of a built-in example
  std::vector<std::string> sizes;  // "NAME=N"
  std::string schedule;
  std::vector<std::string> disabled;  // passes
  bool fast_math = false;
};

struct EmitFlags {
  ProgramFlags program;
  std::string stage, target, ptx, output;
  bool time = false;
};

struct ExplainFlags {
  ProgramFlags program;
  std::string target, device;
  bool json = false, tune = false;
};

struct RunFlags {
  ProgramFlags program;
  std::string device;
  std::vector<std::string> inputs, outputs;  // "NAME=file.npy"
  bool check = false, tune = false;
  std::uint64_t seed = 0;
};

struct BenchFlags {
  ProgramFlags program;
  std::string device;
  bool json = false, tune = false;
};

void emit(const EmitFlags& flags, std::ostream& out, std::ostream& err);
// Those that tune write a line for each candidate that they measure to `err`.
void explain(const ExplainFlags& flags, std::ostream& out, std::ostream& err);
void run(const RunFlags& flags, std::ostream& out, std::ostream& err);
void bench(const BenchFlags& flags, std::ostream& out, std::ostream& err);
void list_devices(std::ostream& out);
void list_ops(std::ostream& out);

// Wrong usage, found after the flags were parsed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device asked for cannot be opened.
class NoSuchDevice : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace bz::cli
