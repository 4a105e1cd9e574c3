// The harness itself: what is wrong is seen, and blamed on the output it is wrong in.
#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

TEST_CASE("harness: a result further off than allowed is a problem of its output alone") {
  const ir::Graph g = parse("graph h { %x = input f32[3, 40] %y = exp %x %z = neg %x output %y output %z }");
  CHECK(problems(g).empty());
  Options options;
  options.tolerance_scale = 0;  // f32 rounds exp, and not neg
  const std::vector<Problem> wrong = problems(g, options);
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].output.name == "y");
}

TEST_CASE("harness: what cannot be compiled is blamed on its output") {
  const ir::Graph g = parse(
      "graph h { %x = input f32[3, 40] %z = input f32[3, 40] %s = sum %x {axes = [1]} %y = exp %z"
      " output %s output %y }");
  Options options;
  options.schedule = "lanes=reduced,reduced=32";  // a map has nothing that is reduced
  const std::vector<Problem> wrong = problems(g, options);
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].output.name == "y");
  CHECK(wrong[0].what.find("nothing is reduced") != std::string::npos);
}

TEST_CASE("harness: an output keeps its data when it is alone") {
  const ir::Graph g = parse(
      "graph h { %a = input f32[5] %b = input f32[5] %y = neg %b %z = add %a, %b output %y output %z }");
  const ir::Graph one = with_outputs(g, {g.outputs()[0]});
  CHECK(one.inputs().size() == 1);
  CHECK(values(complete_inputs(g, {}).at("b")) == values(complete_inputs(one, {}).at("b")));
  CHECK(reduction_lengths(
            parse("graph r { %x = input f32[4, 6] %y = sum %x {axes = [1]} %z = sum %y output %z }"))
            .back() == 24);
}
