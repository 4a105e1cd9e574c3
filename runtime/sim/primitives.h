// The host functions that compiled kernels call.
#pragma once

#include <span>
#include <string_view>

namespace bz::sim {

// Checks an address of instrumented code (see bounds.h): ptr (ptr, i64 bytes, i64 alignment, i1 store, i32
// argument).
inline constexpr std::string_view kCheckAccess = "bz.check";

struct HostFunction {
  std::string_view name;
  void* address;
};

// The SIMT primitives of ir/simt.h, kCheckAccess, and the conversions of half precision that LLVM calls by
// name.
std::span<const HostFunction> host_functions();

}  // namespace bz::sim
