// "did you mean": the candidate nearest to a word that was not found.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace bz {

// The candidate with the fewest edits (insert, delete, replace, swap neighbours) from `word`, the first of
// equals; empty when none is within a third of the word's length.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// "; did you mean softmax?", with `prefix` before the candidate, or "" when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string_view prefix = "");

}  // namespace bz
