// Trials: one way to compile and run a program on one set of data, judged by its enclosure. A trial has a text
// form, so that one that failed stays with its program as a file:
//
//   # trial seed=17 special=16 misaligned wide disable=online,split schedule=softmax_0:lanes=kept,reduced=1
//   graph random_17 { ... }
#pragma once

#include <string>
#include <vector>

#include "harness.h"

namespace bz::end_to_end {

struct Trial {
  std::uint64_t seed = 1;  // of the data and of the order of threads
  // One in so many elements of some inputs is NaN, infinite, -0, subnormal, huge, or an integer at an end of
  // its range; 0 for none.
  int special = 0;
  bool misaligned = false;
  // Compiled as for a device of very many multiprocessors, which splits also small reductions.
  bool wide = false;
  std::vector<std::string> disabled;
  std::string schedule;
  bool random_schedule = false;  // for with_schedule(); not in the text
};

Trial random_trial(std::uint64_t seed);
// With random schedules for those kernels of the program that can have them, if the trial asks for it.
Trial with_schedule(Trial trial, const ir::Graph& g, runtime::Device* device);

std::string to_string(const Trial& trial);
Trial parse_trial(const std::string& line);

Tensors inputs_of(const ir::Graph& g, const Trial& trial);

// "" or what is wrong. On a simulator, or the device.
std::string attempt(const ir::Graph& g, const Trial& trial, runtime::Device* device = nullptr);

// A program that fails with `wrong`, and its trial, made small: what is wrong with it, and the text of a file.
std::string report(const ir::Graph& g, Trial trial, const std::string& wrong, runtime::Device* device);

}  // namespace bz::end_to_end
