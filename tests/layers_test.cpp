// Who may include whom: the edges between the layers that docs and design promise, checked on the sources themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Prefixes = std::vector<std::string_view>;

// A file whose path starts with `from`, but not with one of `except`, includes nothing that starts with `never`; or, when
// `only` is not empty, of the repository's headers only those that start with one of `only`.
struct Rule {
  std::string_view from;
  Prefixes except, never, only;
};

const std::vector<Rule> kRules = {
    {.from = "support/", .only = {"support/"}},
    {.from = "ir/", .only = {"ir/", "support/"}},
    {.from = "compiler/", .never = {"runtime/", "frontends/", "braze/", "tools/"}},
    {.from = "runtime/", .never = {"compiler/", "frontends/", "braze/", "tools/"}},
    {.from = "frontends/", .never = {"tools/"}},
    // LLVM is known to two places, CUDA to one.
    {.from = "", .except = {"compiler/emit/", "runtime/sim/", "tests/", "bench/"}, .never = {"llvm/"}},
    {.from = "", .except = {"runtime/", "tests/", "bench/"}, .never = {"runtime/cuda/", "runtime/sim/"}},
    {.from = "runtime/sim/", .never = {"runtime/cuda/"}},
    {.from = "runtime/cuda/", .never = {"runtime/sim/", "llvm/"}},
    {.from = "", .never = {"cuda.h", "cuda_runtime", "nvrtc", "nvJitLink"}},
};

bool starts_with_any(std::string_view text, const Prefixes& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view p) { return text.starts_with(p); });
}

struct Include {
  std::string file;    // from the repository's root
  std::string header;  // as written
  bool own = false;    // written with quotes
};

std::vector<Include> includes_of(const fs::path& root, const fs::path& path) {
  std::vector<Include> found;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#include ")) continue;
    const std::size_t open = line.find_first_of("\"<");
    const std::size_t close = line.find_first_of("\">", open + 1);
    if (close == std::string::npos) continue;
    found.push_back(
        {fs::relative(path, root).string(), line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return found;
}

std::vector<Include> all_includes() {
  const fs::path root = BRAZE_SOURCE_DIR;
  std::vector<Include> found;
  for (const char* layer :
       {"support", "ir", "compiler", "runtime", "frontends", "tools", "examples", "tests", "bench"}) {
    if (!fs::exists(root / layer)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / layer)) {
      const fs::path extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h" && extension != ".def" && extension != ".c") continue;
      for (Include& i : includes_of(root, entry.path())) found.push_back(std::move(i));
    }
  }
  return found;
}

bool breaks(const Include& include, const Rule& rule) {
  if (!include.file.starts_with(rule.from) || starts_with_any(include.file, rule.except)) return false;
  if (!rule.only.empty()) return include.own && !starts_with_any(include.header, rule.only);
  return starts_with_any(include.header, rule.never);
}

}  // namespace

TEST_CASE("layers include only what is below them") {
  const std::vector<Include> includes = all_includes();
  REQUIRE(includes.size() > 100);
  for (const Rule& rule : kRules) {
    for (const Include& i : includes) {
      INFO(i.file << " includes " << i.header);
      if (breaks(i, rule)) FAIL_CHECK("files of '" << rule.from << "' may not");
    }
  }
}

TEST_CASE("a rule about layers finds what breaks it") {
  CHECK(breaks({"ir/parse.cpp", "compiler/compile.h", true}, kRules[1]));
  CHECK_FALSE(breaks({"ir/parse.cpp", "llvm/IR/Module.h", false}, kRules[1]));
  CHECK(breaks({"compiler/fuse/fuse.cpp", "runtime/runtime.h", true}, kRules[2]));
  CHECK(breaks({"compiler/fuse/fuse.cpp", "llvm/IR/Module.h", false}, kRules[5]));
  CHECK_FALSE(breaks({"compiler/emit/ptx.cpp", "llvm/IR/Module.h", false}, kRules[5]));
}
