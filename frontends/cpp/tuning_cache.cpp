#include "frontends/cpp/tuning_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/error.h"

namespace bz {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json as_json(const TuningKey& key) {
  const Target& t = key.target;
  return {{"braze", BRAZE_VERSION},
          {"device", key.device},
          {"driver", key.driver},
          {"target", t.name},
          {"ptx", t.ptx},
          {"multiprocessors", t.multiprocessors},
          {"shared_bytes", t.max_shared_bytes},
          {"fast_math", key.fast_math},
          {"kernel", key.kernel}};
}

// FNV-1a, 64 bits: names of files are the same in every process.
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

// A kernel that could not be run has no time, null.
Json as_json(const StageTimes& times) {
  Json stages = Json::array();
  for (const compiler::Measurements& stage : times) {
    Json list = Json::array();
    for (const auto& [schedule, seconds] : stage)
      list.push_back({{"schedule", compiler::to_string(schedule)}, {"seconds", seconds}});
    stages.push_back(std::move(list));
  }
  return stages;
}

// Throws when the text is not what as_json writes.
StageTimes read_times(const Json& stages) {
  StageTimes times;
  for (const Json& list : stages) {
    compiler::Measurements& stage = times.emplace_back();
    for (const Json& one : list) {
      const Json& value = one.at("seconds");
      const double seconds = value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
      stage.emplace_back(compiler::parse_schedule(one.at("schedule").get<std::string>()), seconds);
    }
  }
  return times;
}

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

fs::path tuning_folder() {
  if (const char* folder = setting("BRAZE_CACHE")) return folder;
  if (const char* caches = setting("XDG_CACHE_HOME")) return fs::path(caches) / "braze";
  if (const char* home = setting("HOME")) return fs::path(home) / ".cache" / "braze";
  return {};
}

fs::path TuningCache::file(const TuningKey& key) const {
  return folder_ / fmt::format("{:016x}.json", hash(as_json(key).dump()));
}

std::optional<StageTimes> TuningCache::find(const TuningKey& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(file(key), std::ios::binary);
  if (!in) return std::nullopt;
  try {
    const Json json = Json::parse(in);
    if (json.at("key") != as_json(key)) return std::nullopt;
    return read_times(json.at("stages"));
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::ios_base::failure&) {  // no file, a folder
    return std::nullopt;
  } catch (const Error&) {  // of a schedule
    return std::nullopt;
  }
}

void TuningCache::keep(const TuningKey& key, const StageTimes& times) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  const fs::path path = file(key);
  static std::atomic<unsigned> number{0};  // of this process
  const fs::path part = fmt::format("{}.{}.{}.part", path.string(), getpid(), number++);
  std::ofstream out(part, std::ios::binary);
  out << Json{{"key", as_json(key)}, {"stages", as_json(times)}}.dump(2) << '\n';
  out.close();
  if (out) fs::rename(part, path, ignored);
  fs::remove(part, ignored);
}

}  // namespace bz
