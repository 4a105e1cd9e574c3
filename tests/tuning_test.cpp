// Tuning, on the simulator: what is measured decides, what is remembered is not measured again, results stay right.
#include <braze/braze.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "frontends/cpp/tuning_cache.h"

using namespace bz;  // NOLINT
namespace fs = std::filesystem;

namespace {

// A folder that BRAZE_CACHE names, gone at the end of the test.
class CacheFolder {
 public:
  CacheFolder() {
    std::string form = (fs::temp_directory_path() / "braze-tuning-XXXXXX").string();
    REQUIRE(mkdtemp(form.data()) != nullptr);
    path_ = form;
    setenv("BRAZE_CACHE", path_.c_str(), 1);
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  ~CacheFolder() {
    unsetenv("BRAZE_CACHE");
    fs::remove_all(path_);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path_)) all.push_back(entry.path());
    return all;
  }

 private:
  fs::path path_;
};

TuningKey some_key() {
  return {"Some GPU", "CUDA 13.0", *parse_target("sm_90"), false, "region stage: kept (i0: 4)"};
}

StageTimes some_times() {
  return {{{compiler::parse_schedule("lanes=reduced,reduced=32"), 1.25e-6},
           {compiler::parse_schedule("lanes=reduced,reduced=64"), 3e-6}}};
}

ir::Graph rows(std::int64_t width) {
  return parse(fmt::format(
      "graph rows {{\n %x = input f32[6, {}]\n %y = softmax %x {{axes = [1]}}\n output %y\n}}", width));
}

struct Tuned {
  Executable executable;
  std::size_t measured;  // lines of progress
};
Tuned tuned(const ir::Graph& graph, const std::string& schedule = "",
            const std::vector<std::string>& disabled = {}) {
  std::size_t lines = 0;
  Options options;
  options.tune = true;
  options.schedule = schedule;
  options.disabled_passes = disabled;
  options.progress = [&](const std::string&) { ++lines; };
  Executable exe = compile(graph, Device::sim(), options);
  return {std::move(exe), lines};
}

void check_result(Executable& exe) {
  const ir::Graph& graph = exe.compilation().graph;
  Executable::Tensors inputs;
  for (const NodeId id : graph.inputs())
    inputs.emplace(graph.node(id).as<InputAttrs>()->name, random_tensor(graph.type(id), 7));
  const ReferenceCheck check = check_outputs(graph, inputs, exe.run(inputs));
  INFO(check.text());
  CHECK(check.ok());
}

CompileOptions options_for_sim() {
  CompileOptions options;
  options.target = *parse_target("sim");
  return options;
}

}  // namespace

TEST_CASE("tuning: times that are kept are found") {
  const CacheFolder folder;
  const TuningCache cache(tuning_folder());
  CHECK(!cache.find(some_key()));
  cache.keep(some_key(), some_times());
  REQUIRE(folder.files().size() == 1);
  CHECK(cache.find(some_key()) == some_times());
  StageTimes failed = some_times();
  failed[0][1].second = std::numeric_limits<double>::infinity();
  cache.keep(some_key(), failed);
  CHECK(cache.find(some_key()) == failed);
  CHECK(folder.files().size() == 1);
}

TEST_CASE("tuning: another device, driver, target, kernel or kind of arithmetic has another file") {
  const CacheFolder folder;
  const TuningCache cache(tuning_folder());
  cache.keep(some_key(), some_times());
  std::vector<TuningKey> others(5, some_key());
  others[0].device = "Other GPU";
  others[1].driver = "CUDA 13.1";
  others[2].target.multiprocessors = 78;
  others[3].kernel = "region stage: kept (i0: 5)";
  others[4].fast_math = true;
  for (const TuningKey& other : others) {
    CHECK(cache.file(other) != cache.file(some_key()));
    CHECK(!cache.find(other));
    // Nor is a file taken for its name alone.
    fs::copy_file(cache.file(some_key()), cache.file(other));
    CHECK(!cache.find(other));
  }
}

TEST_CASE("tuning: a damaged file is none") {
  const CacheFolder folder;
  const TuningCache cache(tuning_folder());
  cache.keep(some_key(), some_times());
  std::string text;
  std::getline(std::ifstream(cache.file(some_key())), text, '\0');
  std::vector<std::string> damaged = {"", "{", "[]", "{\"key\": 3}", text.substr(0, text.size() / 2)};
  for (const auto& [what, with] :
       std::vector<std::pair<std::string, std::string>>{{"reduced=64", "reduced=65"},
                                                        {"\"seconds\": ", "\"second\": "},
                                                        {"\"schedule\": \"", "\"schedule\": 3, \"x\": \""}}) {
    REQUIRE(text.find(what) != std::string::npos);
    damaged.push_back(text);
    damaged.back().replace(text.find(what), what.size(), with);
  }
  for (const std::string& d : damaged) {
    INFO(d);
    std::ofstream(cache.file(some_key())) << d;
    CHECK(!cache.find(some_key()));
  }
  cache.keep(some_key(), some_times());
  CHECK(cache.find(some_key()) == some_times());
}

TEST_CASE("tuning: a folder in place of a file is no error") {
  const CacheFolder folder;
  const TuningCache cache(tuning_folder());
  cache.keep(some_key(), some_times());
  const fs::path file = folder.files()[0];
  fs::remove(file);
  fs::create_directories(file / "inner");
  CHECK(!cache.find(some_key()));
  cache.keep(some_key(), some_times());
  CHECK(folder.files() == std::vector{file});
}

TEST_CASE("tuning: a folder that cannot be written is no error") {
  const TuningCache cache("/dev/null/braze");
  cache.keep(some_key(), some_times());
  CHECK(!cache.find(some_key()));
  TuningCache("").keep(some_key(), some_times());
}

TEST_CASE("tuning: the fastest of those measured is taken, but for a schedule by hand") {
  CompileOptions options = options_for_sim();
  options.last = Stage::schedule;
  const ir::Graph graph = rows(1024);
  const CompiledKernel first = compile(graph, options).kernels.at(0);
  const compiler::Choice& choice = first.choices.at(0);
  REQUIRE(choice.candidates.size() > 3);
  for (const compiler::Candidate& wanted : choice.candidates) {
    options.measured[first.group.name].clear();
    for (const compiler::Candidate& c : choice.candidates)
      options.measured[first.group.name].emplace_back(c.schedule,
                                                      c.schedule == wanted.schedule ? 1e-6 : 2e-6);
    const compiler::Choice now = compile(graph, options).kernels.at(0).choices.at(0);
    CHECK(now.schedule == wanted.schedule);
    CHECK(now.candidates.at(0).measured);
  }
  // What is no faster than can be told apart does not replace the preferred one.
  for (auto& [schedule, seconds] : options.measured[first.group.name])
    seconds = schedule == choice.schedule ? 1e-6 : 0.995e-6;
  CHECK(compile(graph, options).kernels.at(0).choices.at(0).schedule == choice.schedule);

  options.schedule = "lanes=reduced,vector=1,reduced=64";
  const compiler::Choice forced = compile(graph, options).kernels.at(0).choices.at(0);
  CHECK(forced.schedule == compiler::parse_schedule(options.schedule));
}

TEST_CASE("tuning: what is remembered is not measured again, and results are right") {
  const CacheFolder folder;
  Tuned first = tuned(rows(200));
  CHECK(first.measured > 1);
  CHECK(first.measured <= 8);
  CHECK(folder.files().size() == 1);
  check_result(first.executable);
  CHECK_THAT(first.executable.explain(), Catch::Contains("us measured"));
  Tuned again = tuned(rows(200));
  CHECK(again.measured == 0);
  CHECK(again.executable.explain_json() == first.executable.explain_json());

  CHECK(tuned(rows(201)).measured > 1);  // another shape
  CHECK(folder.files().size() == 2);
  CHECK(tuned(rows(200), "lanes=reduced,reduced=32").measured == 0);  // by hand
  std::ofstream(folder.files()[0]) << "damaged";
  std::ofstream(folder.files()[1]) << "damaged";
  CHECK(tuned(rows(200)).measured == first.measured);
  // Who does not ask gets what the model chooses.
  CHECK(compile(rows(200), Device::sim()).explain().find("measured") == std::string::npos);
}

TEST_CASE("tuning: each kernel of a program, and each stage of a kernel") {
  const CacheFolder folder;
  // Two kernels, one with what the other stores; and one of two stages.
  const ir::Graph two = parse(R"(graph apart {
    %x = input f32[40, 48]
    %s = softmax %x {axes = [1]}
    %m = mean %s {axes = [0]}
    output %s
    output %m
  })");
  Tuned apart = tuned(two, "", {"group"});
  CHECK(apart.executable.compilation().kernels.size() == 2);
  CHECK(folder.files().size() == 2);
  check_result(apart.executable);

  Tuned together = tuned(parse(R"(graph together {
    %x = input f32[6, 8, 8, 8]
    %n = group_norm %x {groups = 2}
    %y = logsumexp %n {axes = [1]}
    output %y
  })"));
  check_result(together.executable);
  Tuned again = tuned(together.executable.compilation().graph);
  CHECK(again.measured == 0);
  CHECK(again.executable.dump(Stage::schedule) == together.executable.dump(Stage::schedule));
}

TEST_CASE("tuning: not for a target that is only looked at") {
  Options options;
  options.tune = true;
  options.target = *parse_target("sm_90");
  CHECK_THROWS_WITH(compile(rows(8), Device::sim(), options),
                    Catch::Contains("tuning measures on the device"));
}
