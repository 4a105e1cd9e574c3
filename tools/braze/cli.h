// The `braze` command as a function.
//
//   return bz::run_cli({"emit", "softmax", "--stage=ptx"}, std::cout, std::cerr);
//
// Exit status: 0 good, 1 the program or the data is wrong (message on `err`, nothing written), 2 wrong usage,
// 3 no such device.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace bz {

enum ExitStatus : int { kGood = 0, kWrongProgram = 1, kWrongUsage = 2, kNoDevice = 3 };

int run_cli(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace bz
