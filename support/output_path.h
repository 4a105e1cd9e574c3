// What is at a path that is to be written.
#pragma once

#include <filesystem>
#include <string>

namespace bz {

// Whether something is there that is written to as it is, such as a pipe or a device; a file is replaced when all of it has been written.
inline bool is_written_in_place(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

// What a link points to, which need not be there; any other path as it is.
inline std::string target_of_link(std::filesystem::path path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path.string();
}

}  // namespace bz
