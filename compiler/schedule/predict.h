// How long a region takes with a schedule: a model of the machine, good enough to tell candidates apart.
//
//   double seconds = predict(region, schedule, target);            // without the launch
//
// Three times bound a kernel, and the one nearest to the others is not hidden by them altogether:
//
//   memory       bytes over the copy speed; what a later phase reads again comes from L2 when all that is in flight fits there
//   arithmetic   instructions over what all multiprocessors issue, with the warps that each of them holds
//   chain        what one block does, one after the other, times the waves that the grid takes: in each phase it waits for
//                its loads (those of a thread that are independent together) while it computes, then for the other threads
//                and for the other blocks of its cluster
//
// A multiprocessor with one block does nothing while that block waits; with several the chain is shorter than the memory
// takes, and no longer counts. tests/predict_test.cpp has the measurements that the constants come from.
#pragma once

#include "compiler/schedule/schedule.h"

namespace bz::compiler {

// Blocks that a multiprocessor holds at once: by threads, registers and shared memory.
int resident_blocks(const Region& region, const Schedule& s, const Target& target);
// Gangs that shared memory and threads leave room for; the driver says how many of them registers allow.
std::int64_t room_for_gangs(const Region& region, const Schedule& s, const Target& target);
// So many are launched at most; at least one.
std::int64_t gangs_at_once(const Region& region, const Schedule& s, const Target& target);

// `region` in the form that the schedule wants. Seconds of a kernel, or of the stage that `bounds` describes.
double predict(const Region& region, const Schedule& s, const Target& target, const Bounds& bounds = {});

}  // namespace bz::compiler
