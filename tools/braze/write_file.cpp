#include "tools/braze/write_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ir/npy.h"
#include "support/error.h"

namespace bz::cli {
namespace {

namespace fs = std::filesystem;

// What a link points to, which need not be there.
std::string target_of(fs::path path) {
  constexpr int kMostLinks = 40;
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path.string();
}

// Files under temporary names, which are removed unless they were given their own.
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() {
    std::error_code ignored;
    for (const auto& [temporary, path] : files_) fs::remove(temporary, ignored);
  }

  // The temporary name for a file. What is there and is none, such as a pipe, is written to as it is, and what a link points to is
  // replaced, not the link.
  std::string add(const std::string& name) {
    std::error_code error;
    if (fs::exists(name, error) && !fs::is_regular_file(name, error) && !fs::is_directory(name, error))
      return name;
    const std::string path = target_of(name);
    return files_.emplace_back(fmt::format("{}.{}-{}.part", path, getpid(), files_.size()), path).first;
  }
  void commit() {
    for (const auto& [temporary, path] : files_) {
      if (fs::is_directory(path)) throw Error(fmt::format("cannot write {}: it is a directory", path));
    }
    for (const auto& [temporary, path] : files_) {
      std::error_code error;
      fs::rename(temporary, path, error);
      if (error) throw Error(fmt::format("cannot write {}: {}", path, error.message()));
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace

void write_text(const std::string& path, std::string_view text) {
  Pending pending;
  std::ofstream file(pending.add(path), std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}", path));
  pending.commit();
}

void write_tensors(const std::vector<std::pair<std::string, const HostTensor*>>& tensors) {
  Pending pending;
  for (const auto& [path, tensor] : tensors) write_npy(pending.add(path), *tensor);
  pending.commit();
}

}  // namespace bz::cli
