#include "ir/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace bz {
namespace {

// Distance with swaps of neighbours, by rows; `limit` + 1 stands for everything above `limit`.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit) {
  std::size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[b.size()], limit + 1);
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::size_t limit = std::max<std::size_t>(1, word.size() / 3);
  std::string_view best;
  for (std::string_view candidate : candidates) {
    std::size_t d = distance(word, candidate, limit);
    if (d > limit) continue;
    best = candidate;
    if (d == 0) break;
    limit = d - 1;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string_view prefix) {
  std::string_view best = nearest(word, candidates);
  return best.empty() ? std::string() : fmt::format("; did you mean {}{}?", prefix, best);
}

}  // namespace bz
