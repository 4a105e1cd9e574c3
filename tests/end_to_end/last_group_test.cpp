// The last of a thread's groups of vectors: it has the vectors that are left, and threads of which the domain has nothing there do
// without it.
#include <fmt/format.h>

#include "harness.h"
#include "ir/kernel.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

TEST_CASE("rows and columns of about so many groups are right") {
  std::uint64_t seed = 1;
  for (const std::string_view form : {"lanes=reduced,vector=4,kept=2,reduced=16,unroll=4,keep=nothing",
                                      "lanes=reduced,vector=4,reduced=32,unroll=2,keep=shared",
                                      "lanes=reduced,vector=4,reduced=32,unroll=4,cluster=2,keep=nothing"}) {
    for (const int width : {255, 257, 300, 513, 1025, 1030, 1290}) {
      for (const std::string_view type : {"f32", "bf16"}) {
        Options options;
        options.seed = seed++;
        options.schedule = std::string(form);
        INFO(type << ", " << width << ", " << form);
        check(parse(fmt::format(
                  "graph g {{ %x = input {}[5, {}] %y = layer_norm %x {{axes = [1]}} output %y }}", type,
                  width)),
              options);
        check(parse(fmt::format("graph g {{ %x = input {}[5, {}] %y = softmax %x {{axes = [1]}} output %y }}",
                                type, width)),
              options);
      }
    }
  }
  for (const int height : {31, 33, 40, 65, 97}) {
    Options options;
    options.seed = seed++;
    options.schedule = "lanes=kept,vector=2,kept=32,reduced=4,unroll=8,keep=nothing";
    INFO(height);
    check(parse(fmt::format(
              "graph g {{ %x = input f32[{}, 70] %y = logsumexp %x {{axes = [0]}} %z = var %x {{axes = [0]}} "
              "output %y output %z }}",
              height)),
          options);
  }
}

TEST_CASE("only where few threads have something in the last group the others skip it") {
  const auto conditions = [](int width) {
    CompileOptions options;
    options.target = *parse_target("sim");
    options.schedule = "lanes=reduced,vector=4,reduced=32,unroll=4,keep=nothing";
    options.last = Stage::kernel;
    const std::string text = kernel::print(
        compile(parse(fmt::format("graph g {{ %x = input f32[5, {}] %y = sum %x {{axes = [1]}} output %y }}",
                                  width)),
                options)
            .kernels.at(0)
            .kernel);
    int count = 0;
    for (std::size_t at = 0; (at = text.find("\n", at)) != std::string::npos; ++at) {
      const std::size_t word = text.find_first_not_of(' ', at + 1);
      count += word != std::string::npos && text.compare(word, 3, "if ") == 0;
    }
    return count;
  };
  const int none = conditions(1024);
  CHECK(conditions(1536) == none);        // half of them
  CHECK(conditions(1024 + 8) > none);     // two
  CHECK(conditions(1024 + 256) == none);  // one of four vectors
}
