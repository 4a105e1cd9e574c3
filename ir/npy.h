// NumPy's .npy files, format versions 1 to 3.
//
//   HostTensor x = read_npy("x.npy");
//   write_npy("y.npy", y);
//
// Element types: '<f4' f32, '<f2' f16, '<f8' f64, '<i4' i32, '<i8' i64, '|b1' bool. NumPy has no bf16: bf16
// tensors are written as '<f4', exactly, and come back as f32 unless the caller asks for bf16. Fortran order
// is turned into row-major order on reading. Everything else, and a file shorter or longer than its header
// says, is an Error that names file and reason.
#pragma once

#include <optional>
#include <string>

#include "ir/tensor.h"

namespace bz {

// With `wanted` the tensor has that type: an f32 file is rounded to bf16, any other difference is an Error.
HostTensor read_npy(const std::string& path, std::optional<DType> wanted = std::nullopt);

// Writes a temporary file beside `path` and renames it, so that `path` is never half written.
void write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace bz
