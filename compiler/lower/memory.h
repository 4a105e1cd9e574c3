// What a stage loads and stores, and under which masks: memory, the tables that stages of a kernel give each other, and what
// shared memory holds of a domain.
#pragma once

#include <map>
#include <span>
#include <string>

#include "compiler/lower/position.h"

namespace bz::compiler {

// Expressions that shared memory holds, each at the slot of a step from `begin` on, or that the thread does.
struct Holding {
  kernel::ArrayId array = kernel::kNone;
  Index begin = Index(0);
  bool own = false;
};
using Held = std::map<ExprId, Holding>;

// Whether `bounds` hold; asked once a step. kNone when they always do.
Handle mask(KernelBuilder& builder, std::vector<IndexBound> bounds, Step* step);

Handle load_value(const StageContext& stage, const Position& position, const Expr& load, Step* step);

// To memory, or to the table in every block of the team.
void store_value(const StageContext& stage, const Root& root, const Index& offset, Handle value, Handle mask);
// Of the buffer or table that the root is stored in.
std::string place_name(const StageContext& stage, const Root& root);

// Of the step's vector in what is held. Of 8 elements of 4 bytes each half is a piece of its own, so that the 16 bytes that neighbouring
// threads access at once lie side by side in all banks.
Index place_in(const StageContext& stage, const Position& position, const Holding& in, const Step& step);
// Puts what has been computed in the steps to shared memory.
void hold(const StageContext& stage, const Position& position, const Held& values,
          std::span<const Step> steps);
// Starts to copy what these loads bring to the step there, past the registers.
void start_copies(const StageContext& stage, const Position& position, const Held& loads, Step& step);

}  // namespace bz::compiler
