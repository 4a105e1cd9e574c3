// Errors of Braze. There are three classes, told apart by who has to act:
//
//   Error          the program, the data or the options are wrong: the user acts
//   DeviceError    no device, a driver that says no, a launch that failed: the machine's owner acts
//   InternalError  an invariant of Braze does not hold: we act
//
// Messages follow one form: lower case, no full stop, both values and the way out, for example
//   gn.cpp:14: error: cannot add f32[3,4] and f32[4,3]: dimension 0 is 3 on the left and 4 on the right
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace bz {

// A place in the user's program: a C++ file and line, or a line of a .braze file. `file` is empty when unknown.
struct SourceLoc {
  std::string file;
  int line = 0;

  // "gn.cpp:14: " or "" when unknown.
  std::string prefix() const { return file.empty() ? std::string() : fmt::format("{}:{}: ", file, line); }
  friend bool operator==(const SourceLoc&, const SourceLoc&) = default;
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error("error: " + message) {}
  Error(const SourceLoc& loc, const std::string& message)
      : std::runtime_error(loc.prefix() + "error: " + message) {}
};

class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(const std::string& message) : std::runtime_error("device error: " + message) {}
};

class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message) : std::logic_error("internal error: " + message) {}
};

// Throws InternalError when an invariant of ours does not hold. Kept in release builds.
inline void check(bool condition, std::string_view what) {
  if (!condition) throw InternalError(std::string(what));
}

}  // namespace bz
