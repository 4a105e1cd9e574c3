// The phases of a region over the domains of one block. Each passes over all steps of a thread: loads, computes, stores, and
// reduces to states that the threads then exchange.
#pragma once

#include "compiler/lower/exchange.h"
#include "compiler/lower/read_ahead.h"

namespace bz::compiler {

// `ahead`: where the first phase finds its loads, and asks for the next; null when nothing is read ahead.
void lower_phases(const StageContext& stage, const Position& position, Exchange& exchange, ReadAhead* ahead);

// Phases of a domain that is in shared memory, of which others come some turns later.
struct Leg {
  int first, end;
  // By phase: what shared memory has when it begins, and what it has to put there for later ones.
  std::vector<Held> held, added;
};
// With what the domain has once that is known, and results of earlier reductions, by number: those of the leg's own, what has to be
// exchanged as the thread has reduced it.
std::map<int, Handles> lower_leg(const StageContext& stage, const Position& position, const Leg& leg,
                                 Memo known, const std::map<int, Handles>& results);

}  // namespace bz::compiler
