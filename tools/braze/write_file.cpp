#include "tools/braze/write_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ir/npy.h"
#include "support/error.h"
#include "support/output_path.h"

namespace bz::cli {
namespace {

namespace fs = std::filesystem;

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

  // The temporary name for a file, or of what is there and is none the name.
  std::string add(const std::string& name) {
    if (is_written_in_place(name)) return name;
    const std::string path = target_of_link(name);
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
