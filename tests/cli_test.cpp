#include "tools/braze/cli.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/compile.h"
#include "compiler/pass.h"
#include "ir/composites.h"
#include "ir/npy.h"
#include "ir/parse.h"
#include "tools/braze/program.h"

namespace {

namespace fs = std::filesystem;
using Catch::Contains;

struct Result {
  int status;
  std::string out, err;
};

Result braze(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int status = bz::run_cli(arguments, out, err);
  return {status, out.str(), err.str()};
}

// A folder that is gone at the end of the test.
class Folder {
 public:
  Folder() {
    std::string form = (fs::temp_directory_path() / "braze-cli-XXXXXX").string();
    REQUIRE(mkdtemp(form.data()) != nullptr);
    path_ = form;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return *this / name;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr const char* kSoftmax = R"(graph rows(R = 5, D = 33) {
  %x = input f32[R, D]
  %y = softmax %x {axes = [1]}
  %m = max %x {axes = [1]}
  output %y
  output peak = %m
})";

// Softmax of [[0, 0], [0, log 3]].
bz::HostTensor small_input() {
  bz::HostTensor x({bz::DType::f32, {2, 2}});
  x.set(3, bz::Scalar::of(bz::DType::f32, std::log(3.0)));
  return x;
}

}  // namespace

TEST_CASE("cli: help and version") {
  const Result help = braze({"--help"});
  CHECK(help.status == 0);
  for (const char* verb : {"emit", "explain", "run", "bench", "devices", "ops"})
    CHECK_THAT(help.out, Contains(verb));
  CHECK(braze({"--version"}).status == 0);
  CHECK_THAT(braze({"--version"}).out, Contains("braze "));
  const Result run_help = braze({"run", "--help"});
  CHECK(run_help.status == 0);
  for (const char* flag : {"--device", "--in", "--out", "--check", "--seed", "--size", "--schedule"}) {
    CHECK_THAT(run_help.out, Contains(flag));
  }
}

TEST_CASE("cli: wrong usage is status 2 and says so") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"compile", file},
      {"emit", file},
      {"emit", "--stage=ptx"},
      {"emit", file, "--stage=assembly"},
      {"emit", file, "--stage=ptx", "--target=sm_1"},
      {"emit", file, "--stage=ptx", "--target=sim"},
      {"emit", file, "--stage=ptx", "--ptx=eight"},
      {"emit", file, "--stage=ptx", "--check"},
      {"emit", file, file, "--stage=ptx"},
      {"explain", file, "--size", "R"},
      {"explain", file, "--size", "R=many"},
      {"explain", file, "--size=R=1", "--size=R=2"},
      {"run", file, "--device=tpu"},
      {"run", file, "--device=cuda:x"},
      {"run", file, "--device=sim", "--in", "x"},
      {"run", file, "--device=sim", "--in=x=a.npy", "--in=x=b.npy"},
      {"run", file, "--device=sim", "--seed=-1"},
      {"bench", file, "--device=interp"},
      {"explain", file, "--tune", "--target=sm_90"},
      {"explain", file, "--device=sim"},
      {"devices", "--all"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    INFO(fmt::format("{}", fmt::join(arguments, " ")));
    const Result r = braze(arguments);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK_THAT(r.err, Contains("braze: "));
  }
}

TEST_CASE("cli: a wrong program is status 1, with its line, and nothing is written") {
  Folder folder;
  const std::string broken =
      folder.write("broken.braze", "graph g {\n  %x = input f32[2]\n  %y = exp2x %x\n}");
  const std::string out = folder / "out.txt";
  const Result r = braze({"emit", broken, "--stage=ptx", "-o", out});
  CHECK(r.status == 1);
  CHECK_THAT(r.err, Contains("broken.braze:3: error: unknown operation exp2x"));
  CHECK(r.out.empty());
  CHECK(!fs::exists(out));

  const std::string empty = folder.write("empty.braze", "graph g {\n}");
  CHECK_THAT(braze({"explain", empty}).err, Contains("empty.braze:2: error: graph g has no outputs"));
  const std::string absent = folder.write(
      "absent.braze", "graph g {\n  %x = input f32[2]\n  %p = pad %x {lo = [1], hi = [0]}\n  output %p\n}");
  CHECK_THAT(braze({"explain", absent}).err, Contains("absent.braze:3: error: graph g: %p = pad"));

  const Result none = braze({"explain", "no_such_program"});
  CHECK(none.status == 1);
  CHECK_THAT(none.err, Contains("no_such_program is neither a file nor a built-in example"));

  const std::string file = folder.write("rows.braze", kSoftmax);
  CHECK(braze({"emit", file, "--stage=kernel", "--schedule=nonsense=3"}).status == 1);
  CHECK_THAT(braze({"emit", file, "--stage=kernel", "--schedule=softmax_0: "}).err,
             Contains("schedule: nothing follows 'softmax_0:', expected keys as in"));
  CHECK(braze({"emit", file, "--stage=kernel", "--size=Q=3"}).status == 1);
  CHECK_THAT(braze({"emit", file, "--stage=kernel", "--disable=nonsense"}).err, Contains("nonsense"));
  CHECK(braze({"emit", file, "--stage=ptx", "--target=sm_90", "--ptx=6.0"}).status == 1);
  CHECK(braze({"emit", file, "--stage=graph", "-o", folder / "no/such/folder.txt"}).status == 1);
}

TEST_CASE("cli: emit writes every stage") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  for (std::string_view stage : bz::stage_names()) {
    INFO(stage);
    const Result r = braze({"emit", file, fmt::format("--stage={}", stage), "--target=sm_90"});
    CHECK(r.status == 0);
    CHECK(r.out.size() > 10);
    CHECK(r.err.empty());
    const std::string path = folder / "stage.txt";
    CHECK(braze({"emit", file, fmt::format("--stage={}", stage), "--target=sm_90", "-o", path}).out.empty());
    CHECK(read(path) == r.out);
  }
  CHECK(folder.files() == 2);
  CHECK_THAT(braze({"emit", file, "--stage=ptx", "--target=sm_80"}).out, Contains(".target sm_80"));
  CHECK_THAT(braze({"emit", file, "--stage=ptx", "--target=sm_90", "--ptx=8.3"}).out,
             Contains(".version 8.3"));
  CHECK_THAT(braze({"emit", file, "--stage=graph", "--size", "R=8"}).out, Contains("input f32[8, 33]"));
  CHECK_THAT(braze({"emit", "--size", "R=8", "--size", "D=7", file, "--stage=graph"}).out,
             Contains("input f32[8, 7]"));
}

TEST_CASE("cli: emit writes clusters only in PTX that has messages") {
  const auto ptx = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"emit", "log_softmax_rows", "--stage=ptx", "--target=sm_90"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result r = braze(arguments);
    CHECK(r.err == "");
    return r.out;
  };
  CHECK_THAT(ptx({}), Contains(".version 8.1") && Contains(".reqnctapercluster") && Contains("st.async"));
  CHECK_THAT(ptx({"--ptx=8.3"}), Contains(".version 8.3") && Contains("st.async"));
  CHECK_THAT(ptx({"--ptx=8.0"}), Contains(".version 8.0") && !Contains("cluster") && !Contains("st.async"));
  CHECK_THAT(ptx({"--schedule=lanes=reduced,vector=4,reduced=1024"}),
             Contains(".version 7.8") && !Contains("cluster"));

  const Result forced = braze({"emit", "log_softmax_rows", "--stage=ptx", "--target=sm_90", "--ptx=8.0",
                               "--schedule=lanes=reduced,vector=4,reduced=256,cluster=8,keep=registers"});
  CHECK(forced.status == 1);
  CHECK_THAT(forced.err, Contains("clusters of 8 blocks, which need PTX 8.1 or newer, and it is 8.0"));
}

TEST_CASE("cli: emit times passes and leaves them out") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const std::string pass(bz::compiler::graph_passes().front().name);
  const Result with = braze({"emit", file, "--stage=kernel", "--time"});
  CHECK_THAT(with.err, Contains(" ms  " + pass) && Contains(" ms  total"));
  const Result without = braze({"emit", file, "--stage=kernel", "--time", "--disable", pass});
  CHECK(without.status == 0);
  CHECK_THAT(without.err, !Contains(" ms  " + pass + "\n"));
}

TEST_CASE("cli: --fast-math of emit, explain, run and bench") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  CHECK_THAT(braze({"emit", file, "--stage=ptx", "--target=sm_90", "--fast-math"}).out,
             Contains("ex2.approx"));
  CHECK_THAT(braze({"emit", file, "--stage=ptx", "--target=sm_90"}).out, !Contains(".approx"));
  CHECK_THAT(braze({"explain", file, "--target=sm_90", "--fast-math"}).out, Contains("sm_90 with fast_math"));
  CHECK_THAT(braze({"explain", file, "--target=sm_90"}).out, !Contains("fast_math"));
  const Result json = braze({"explain", file, "--target=sm_90", "--fast-math", "--json"});
  CHECK(nlohmann::json::parse(json.out)["fast_math"] == true);
  const Result run = braze({"run", file, "--device=sim", "--fast-math", "--check"});
  CHECK(run.status == 0);
  CHECK_THAT(run.out, Contains("of it for fast_math"));
  CHECK(braze({"bench", file, "--device=sim", "--fast-math"}).status == 0);
}

TEST_CASE("cli: explain, as text and as JSON") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const Result text = braze({"explain", file, "--target=sm_90"});
  CHECK(text.status == 0);
  CHECK_THAT(text.out, Contains("sm_90") && Contains("schedule"));
  const Result r = braze({"explain", file, "--target=sm_90", "--json"});
  const auto json = nlohmann::json::parse(r.out);
  CHECK(json.at("target") == "sm_90");
  CHECK(json.at("kernels").size() >= 1);
  for (const char* key : {"name", "nodes", "domain", "phases", "schedule", "residency", "bytes_read",
                          "bytes_written", "predicted_us"}) {
    CHECK(json.at("kernels").at(0).contains(key));
  }
  for (const char* key : {"cuts", "bytes_min", "bytes_total"}) CHECK(json.contains(key));
  CHECK(braze({"explain", file, "--target=sm_90", "--json"}).out == r.out);
}

TEST_CASE("cli: the parts of an axis that is split have letters") {
  Folder folder;
  const std::string file = folder.write("groups.braze", R"(graph groups {
  %x = input f32[4, 6]
  %r = reshape %x {shape = [4, 3, 2]}
  %s = sum %r {axes = [2], keepdims = true}
  %d = sub %r, %s
  %y = reshape %d {shape = [4, 6]}
  output %y
})");
  CHECK_THAT(braze({"emit", file, "--stage=regions"}).out, Contains("kept (i0i1a: 12), reduced (i1b: 2)"));
  const Result r = braze({"explain", file, "--target=sm_90", "--json"});
  CHECK(r.status == 0);
  CHECK(nlohmann::json::accept(r.out));
}

TEST_CASE("cli: run reads and writes .npy files") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const std::string x = folder / "x.npy", y = folder / "y.npy", peak = folder / "peak.npy";
  bz::write_npy(x, small_input());
  for (const char* device : {"--device=sim", "--device=interp"}) {
    INFO(device);
    fs::remove(y);
    const Result r = braze({"run", file, device, "--size=R=2", "--size=D=2", "--in", "x=" + x, "--out=y=" + y,
                            "--out", "peak=" + peak, "--check"});
    CHECK(r.err == "");
    REQUIRE(r.status == 0);
    CHECK_THAT(r.out, Contains("y: ") && Contains("peak: equal in all 2 elements, ok"));
    const bz::HostTensor result = bz::read_npy(y);
    CHECK(result.type() == bz::Type{bz::DType::f32, {2, 2}});
    CHECK(result.value(0) == 0.5);
    CHECK(result.value(3) == Approx(0.75).epsilon(1e-6));
    CHECK(bz::read_npy(peak).value(1) == Approx(std::log(3.0)));
  }
  CHECK(folder.files() == 4);
}

TEST_CASE("cli: what is said twice is refused, not half done") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax), y = folder / "y.npy";
  const Result same = braze({"run", file, "--device=interp", "--out=y=" + y, "--out=peak=" + y});
  CHECK(same.status == 2);
  CHECK_THAT(same.err, Contains("is given for outputs peak and y"));
  CHECK(folder.files() == 1);
  const Result schedule = braze({"explain", file, "--schedule=lanes=kept,lanes=reduced,reduced=32"});
  CHECK(schedule.status == 1);
  CHECK_THAT(schedule.err, Contains("schedule: lanes is given twice"));
}

TEST_CASE("cli: run without --out shows the outputs; seeds choose the data") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const Result one = braze({"run", file, "--device=sim", "--seed=1", "--check"});
  CHECK(one.status == 0);
  CHECK_THAT(one.out, Contains("y: f32[5,33], min ") && Contains("peak: f32[5], min ") && Contains("ulp"));
  CHECK(braze({"run", file, "--device=sim", "--seed", "1", "--check"}).out == one.out);
  CHECK(braze({"run", file, "--device=sim", "--seed=2", "--check"}).out != one.out);
}

TEST_CASE("cli: run refuses data that does not fit and writes nothing") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const std::string x = folder / "x.npy", y = folder / "y.npy";
  bz::write_npy(x, small_input());
  const auto fails = [&](const std::vector<std::string>& flags, const std::string& message) {
    std::vector<std::string> arguments = {"run", file, "--device=interp"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Result r = braze(arguments);
    INFO(message);
    CHECK(r.status == 1);
    CHECK(r.out.empty());
    CHECK_THAT(r.err, Contains(message));
    CHECK(!fs::exists(y));
  };
  fails({"--in=x=" + x, "--out=y=" + y}, "input x is f32[5,33], " + x + " has f32[2,2]");
  fails({"--in=z=" + x, "--out=y=" + y}, "there is no input named z; the inputs are x");
  fails({"--out=z=" + y}, "there is no output named z; the outputs are y, peak");
  fails({"--in=x=" + (folder / "none.npy"), "--out=y=" + y}, "none.npy");
  // The second file cannot be written, so neither is.
  fails({"--out=y=" + y, "--out=peak=" + (folder / "no/such/peak.npy")}, "peak.npy");
  fails({"--out=peak=" + y, "--out=y=" + (folder / "")}, "");
  CHECK(folder.files() == 2);
}

TEST_CASE("cli: what is written to may be a pipe or a link") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax), pipe = folder / "pipe",
                    link = folder / "link.npy", y = folder / "y.npy";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reading = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reading >= 0);
  CHECK(braze({"run", file, "--device=interp", "--out=y=" + pipe}).status == 0);
  CHECK(braze({"emit", "--stage=graph", file, "-o", pipe}).status == 0);
  std::string got(1 << 16, 0);
  got.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(reading, got.data(), got.size()))));
  close(reading);
  CHECK_THAT(got, Contains("NUMPY") && Contains("graph "));
  CHECK(fs::is_fifo(pipe));

  fs::create_symlink("y.npy", link);
  CHECK(braze({"run", file, "--device=interp", "--out=y=" + link}).status == 0);
  CHECK(fs::is_symlink(link));
  CHECK(fs::is_regular_file(y));
  CHECK(folder.files() == 4);
}

TEST_CASE("cli: output that cannot be written is status 1") {
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  CHECK(bz::run_cli({"ops"}, out, err) == 1);
  CHECK_THAT(err.str(), Contains("error: cannot write to the standard output"));
}

TEST_CASE("cli: tensors that no memory holds are status 1") {
  Folder folder;
  for (const char* size : {"2305843009213693952", "1152921504606846976"}) {
    const std::string file = folder.write(
        "big.braze", fmt::format("graph g(N = {}) {{ %x = input f32[N] %y = exp %x output %y }}", size));
    const Result r = braze({"run", file, "--device=sim"});
    CHECK(r.status == 1);
    CHECK_THAT(r.err, Contains("error: the program's tensors do not fit in memory"));
  }
}

TEST_CASE("cli: a device that is not there is status 3") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const Result r = braze({"run", file, "--device=cuda:4096"});
  CHECK(r.status == 3);
  CHECK_THAT(r.err, Contains("device error: "));
  CHECK(r.out.empty());
}

TEST_CASE("cli: bench measures beside a copy") {
  Folder folder;
  const std::string file = folder.write("rows.braze", kSoftmax);
  const Result text = braze({"bench", file, "--device=sim"});
  CHECK(text.status == 0);
  CHECK_THAT(text.out, Contains("median") && Contains("GB/s of a copy"));
  const auto json = nlohmann::json::parse(braze({"bench", file, "--device=sim", "--json"}).out);
  CHECK(json.at("bytes_min") == 4 * (5 * 33 * 2 + 5));
  CHECK(json.at("median_us") > 0);
  CHECK(json.at("copy_bytes_per_second") > 0);
}

TEST_CASE("cli: --tune says what it measures, once") {
  Folder folder;
  setenv("BRAZE_CACHE", (folder / "cache").c_str(), 1);
  const std::string file = folder.write("rows.braze", kSoftmax);
  const Result first = braze({"explain", file, "--tune", "--device=sim"});
  CHECK(first.status == 0);
  CHECK_THAT(first.err, Contains("tune ") && Contains(" us\n"));
  CHECK_THAT(first.out, Contains("candidate") && Contains("us measured"));
  const Result run = braze({"run", file, "--tune", "--device=sim", "--check"});
  CHECK(run.status == 0);
  CHECK(run.err.empty());
  const Result json = braze({"explain", file, "--tune", "--device=sim", "--json"});
  CHECK(nlohmann::json::parse(json.out).at("kernels").at(0).at("candidates").at(0).contains("measured_us"));
  unsetenv("BRAZE_CACHE");
}

TEST_CASE("cli: devices lists the simulator last") {
  const Result r = braze({"devices"});
  CHECK(r.status == 0);
  CHECK_THAT(r.out, Contains("sim "));
  CHECK((r.out.find("cuda:0") != std::string::npos) != (r.out.find("no CUDA device: ") != std::string::npos));
}

TEST_CASE("cli: ops lists every operation") {
  const Result r = braze({"ops"});
  CHECK(r.status == 0);
  for (const bz::ScalarOpInfo& op : bz::scalar_ops()) {
    CHECK_THAT(r.out, Contains(fmt::format("\n  {} ", op.text)));
  }
  for (const bz::MonoidInfo& m : bz::monoids()) {
    if (m.user) CHECK_THAT(r.out, Contains(fmt::format("\n  {} x ", m.text)));
  }
  for (const bz::CompositeInfo& c : bz::composites())
    CHECK_THAT(r.out, Contains(fmt::format("\n  {} ", c.name)));
}

TEST_CASE("cli: every built-in example is a program") {
  REQUIRE(!bz::cli::embedded_examples().empty());
  for (const bz::cli::EmbeddedExample& example : bz::cli::embedded_examples()) {
    INFO(example.name);
    const Result r = braze({"emit", std::string(example.name), "--stage=graph"});
    CHECK(r.err == "");
    CHECK(r.status == 0);
    CHECK_NOTHROW(bz::parse(r.out));
    CHECK(braze({"explain", std::string(example.name), "--target=sm_90"}).status == 0);
  }
}
