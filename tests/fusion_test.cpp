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

TEST_CASE("what is stored because of its order is cut for that") {
  for (const char* name : {"softmax_transposed", "transpose_softmax", "columns_transposed"}) {
    const Compilation c = scheduled(read(fmt::format("{}/tests/fusion/{}.braze", BRAZE_SOURCE_DIR, name)));
    INFO(c.explain());
    CHECK(!c.cuts.empty());
    for (const compiler::Cut& cut : c.cuts) CHECK(cut.reason == compiler::CutReason::transposed);
  }
}
