// The order of a queue: which ticket of a kernel is which part of which stage of which team.
//
//   stages S -> C -> T, C of one ticket a team, a lag of 2
//
//   step 0   S(0)      S(0)      S(0) ...      C(0)
//   step 1   S(1)      S(1)      S(1) ...      C(1)
//   step 2   S(2) T(0) S(2) T(0) S(2) T(0) ... C(2)
//   step 3   S(3) T(1) S(3) T(1) S(3) T(1) ... C(3)
//
// Each step has the same places, in the order of the tickets: those of stages of many tickets, spread evenly among each other,
// then those of stages of few.
// A stage of many tickets stays `lag` teams behind what it needs; one of few stands at the end of the same step, and waits.
// Whatever a ticket waits for has a lower number.
#pragma once

#include <span>

#include "compiler/schedule/schedule.h"

namespace bz::compiler {

struct TicketStage {
  std::int64_t blocks = 1;     // of its schedule, in a ticket; fewer in the last of a team
  std::int64_t tickets = 1;    // of a team
  std::int64_t first = -1;     // place in a step, of a stage of few; the others have theirs among each other
  int lag = 0;                 // in step s the tickets are of team s - lag
  std::vector<int> waits_for;  // stages
  bool waited_for = false;
};

struct TicketOrder {
  std::vector<TicketStage> stages;
  std::int64_t spread = 0;  // places of stages of many tickets
  std::int64_t per_step = 0;
  std::int64_t steps = 0;
  std::int64_t tickets() const { return per_step * steps; }
};
TicketOrder order_of(const Group& group, std::span<const Schedule> schedules);

// Where in a step tickets of a stage are, and which of a team's the one at place `at` is then.
struct TicketPlace {
  std::vector<IndexBound> where;
  Index part;
};
TicketPlace place_of(const TicketOrder& order, std::size_t stage, const Index& at);

// How many blocks of a queue a multiprocessor should hold.
int blocks_together(const Group& group, std::span<const Schedule> schedules, const Target& target);

// Blocks that are one ticket, by stage: one, or several that move little.
std::vector<std::int64_t> ticket_blocks(const Group& group, std::span<const Choice> choices);

}  // namespace bz::compiler
