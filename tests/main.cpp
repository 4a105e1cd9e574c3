// The test program. All of Catch2's options, and:
//
//   braze-tests --gpu     runs the tests that need a GPU, and only these; status 77 where there is none
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "runtime/runtime.h"

namespace {

constexpr int kSkipped = 77;  // what ctest's SKIP_RETURN_CODE is set to

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  bool gpu = false;
  session.cli(session.cli() |
              Catch::clara::Opt(gpu)["--gpu"]("only the tests that need a GPU; status 77 without one"));
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  if (gpu) {
    std::string why_not;
    if (bz::best_device(&why_not)->kind() != "cuda") {
      std::printf("skipped: %s\n", why_not.c_str());
      return kSkipped;
    }
    session.configData().testsOrTags = {"[gpu]"};
  }
  return session.run();
}
