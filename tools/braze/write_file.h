// Files that are written as a whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace bz::cli {

// A temporary file beside `path`, renamed. Throws Error.
void write_text(const std::string& path, std::string_view text);

// Tensors as .npy files by path: all of them, or on an Error none.
void write_tensors(const std::vector<std::pair<std::string, const HostTensor*>>& tensors);

}  // namespace bz::cli
