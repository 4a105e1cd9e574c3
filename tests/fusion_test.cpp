// Kernels and bytes of named programs: tests/fusion/*.braze, each with what it becomes in its second line. A change that makes
// one of them worse is seen here; BRAZE_UPDATE=1 writes what there is now into the files.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/compile.h"
#include "ir/parse.h"
#include "ir/print.h"

using namespace bz;  // NOLINT

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Compilation scheduled(const std::string& text) {
  CompileOptions options;
  options.target = *parse_target("sm_90");
  options.last = Stage::schedule;
  return compile(parse(text), options);
}

std::string becomes(const std::string& text) {
  const Compilation c = scheduled(text);
  return fmt::format("# kernels {}, bytes {} of at least {}", c.kernels.size(), c.bytes_total(),
                     c.bytes_min());
}

}  // namespace

TEST_CASE("named programs become as few kernels and move as few bytes as ever") {
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BRAZE_SOURCE_DIR "/tests/fusion")) {
    if (entry.path().extension() != ".braze") continue;
    ++programs;
    const std::string text = read(entry.path());
    const std::size_t first = text.find('\n') + 1, second = text.find('\n', first);
    const std::string pinned = text.substr(first, second - first), now = becomes(text);
    INFO(entry.path().filename().string());
    if (std::getenv("BRAZE_UPDATE") != nullptr) {
      const bool has = pinned.starts_with("# kernels");
      std::ofstream(entry.path()) << text.substr(0, first) << now << text.substr(has ? second : first - 1);
    } else {
      CHECK(now == pinned);
    }
  }
  CHECK(programs >= 40);
}

TEST_CASE("long rows that are needed again are split where no cluster holds one or it takes longer") {
  struct Case {
    const char* body;
    const char* target;
    int rows, length;
    bool split;
  };
  for (const Case& c :
       {Case{"%y = layer_norm %a", "sm_90", 100, 131072, false},
        Case{"%y = layer_norm %a", "sm_80", 100, 131072, true},
        Case{"%y = rms_norm %a", "sm_90", 4, 65536, false},
        Case{"%y = softmax %a {axes = [1]}", "sm_90", 5, 131072, false},
        Case{"%y = softmax %a {axes = [1]}", "sm_90", 5, 1 << 20, true},
        Case{"%y = softmax %a {axes = [1]}", "sm_90", 1, 1 << 19, true},
        Case{"%s = softmax %a {axes = [1]} %w = mul %s, %r %y = sum %w {axes = [1]}", "sm_90", 5, 131072,
             false},
        Case{"%s = layer_norm %a %w = abs %s %y = sum %w {axes = [1]}", "sm_90", 5, 131072, false},
        // Of each element two words would have to be held.
        Case{"%t = add %x, %x %n = layer_norm %t %m = layer_norm %r %y = add %n, %m", "sm_90", 5, 600000,
             true},
        Case{"%t = layer_norm %x %m = layer_norm %r %y = add %t, %m", "sm_90", 5, 131072, false},
        Case{"%d = cast %x {dtype = f64} %y = layer_norm %d", "sm_90", 5, 131072, false},
        Case{"%y = logsumexp %a {axes = [1]}", "sm_90", 5, 131072, true},
        Case{"%s = sum %a {axes = [1], keepdims = true} %y = mul %r, %s", "sm_90", 5, 131072, true}}) {
    const std::string text = fmt::format(
        "graph g {{ %x = input bf16[{0}, {1}] %r = input bf16[{0}, {1}] %a = add %x, 1 {2} output %y }}",
        c.rows, c.length, c.body);
    INFO(text << " for " << c.target);
    CompileOptions options;
    options.target = *parse_target(c.target);
    options.last = Stage::simplified;
    CHECK((print(compile(parse(text), options).simplified).find("merge = true") != std::string::npos) ==
          c.split);
  }
}

TEST_CASE("what is stored because of its order is cut for that") {
  for (const char* name : {"softmax_transposed", "transpose_softmax", "columns_transposed"}) {
    const Compilation c = scheduled(read(fmt::format("{}/tests/fusion/{}.braze", BRAZE_SOURCE_DIR, name)));
    INFO(c.explain());
    CHECK(!c.cuts.empty());
    for (const compiler::Cut& cut : c.cuts) CHECK(cut.reason == compiler::CutReason::transposed);
  }
}
