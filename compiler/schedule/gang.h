// Blocks of a gang, which share domains from anywhere on the device: when they do what, and what of a domain they have in shared memory
// meanwhile.
//
// An exchange divides the phases of a domain into legs. A turn of a block has one leg of each of some domains: the first of the domain that
// is new in this turn, the second of the one that was new some turns before, and so on. By then what all blocks have found in the leg before
// is there, and nobody waits for the slowest. A turn first copies the domain that is new `prefetch` - 1 turns later.
//
// What is chosen by itself has two legs. Several are for schedules by hand: each takes places in shared memory, and softmax of 2^20 f32 with its
// maximum first reached 62 % of the copy speed, where 92 are reached with both in one exchange (H200, 2026-11).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace bz::compiler {

// What a block has posted at the end of a turn the others collect `lag` turns later, and use in the one after that.
inline int turns_of_leg(const Schedule& s) { return s.lag + 1; }
// Turns of which there are slots. A block that posts has collected what was posted `lag` turns before, and so knows that all others have
// collected what was as long before that.
inline int slot_rounds(const Schedule& s) { return 2 * s.lag; }
// Turns of which there is what threads have found: while it is put together and posted, they go on.
inline constexpr int kGangParts = 2;
// Domains of which there is what has been collected: it is written for one while it is read for the one before.
inline constexpr int kGangGiven = 2;

struct Gang {
  // In shared memory for as many domains as are under way from the leg that brings it until the last that needs it.
  struct Array {
    DType dtype = DType::f32;
    int places = 0;
  };
  std::vector<int> leg;  // by phase
  int legs = 1;
  std::vector<Array> arrays;  // an element for each of the domain
  std::vector<std::map<ExprId, int>>
      held;  // when a phase begins: the array of each expression that is in one
  // By leg: what is made of what all blocks have found for it, once a domain, by the warp that collects.
  std::vector<std::vector<ExprId>> given;
  // By reduction: the last leg that needs what it has found otherwise, and places for that where it is not the leg that finds it.
  std::vector<int> last, places;

  int turns = 0;  // from the one in which a domain is new until its last leg
};
Gang gang_of(const Region& region, const Schedule& s);

// Slots of each gang.
std::int64_t slots_of(const Region& region, const Schedule& s);
// Of a domain that a block has in shared memory.
std::int64_t gang_elements(const Region& region, const Schedule& s);
// Threads that go over domains, with those that have a few vectors that are left over.
int gang_threads(const Region& region, const Schedule& s);
// Shared memory of a block for what it has of domains.
std::int64_t gang_bytes(const Region& region, const Schedule& s);
std::optional<std::string> refuse_gang(const Region& region, const Schedule& s, const Target& target);

}  // namespace bz::compiler
