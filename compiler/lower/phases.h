// The phases of a region over the domains of one block. Each passes over all steps of a thread: loads, computes, stores, and
// reduces to states that the threads then exchange.
#pragma once

#include "compiler/lower/exchange.h"
#include "compiler/lower/read_ahead.h"

namespace bz::compiler {

// `ahead`: where the first phase finds its loads, and asks for the next; null when nothing is read ahead.
void lower_phases(const StageContext& stage, const Position& position, Exchange& exchange, ReadAhead* ahead);

// The first phase of a domain that `held` has: what the thread reduces, by number of the reduction. And the later ones, with what all
// threads have reduced.
std::map<int, Handles> lower_first_phase(const StageContext& stage, const Position& position,
                                         const Held& held);
void lower_later_phases(const StageContext& stage, const Position& position, const Held& held,
                        const std::map<int, Handles>& results);

}  // namespace bz::compiler
