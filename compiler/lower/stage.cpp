#include "compiler/lower/stage.h"

#include "compiler/lower/gang.h"
#include "compiler/lower/phases.h"

namespace bz::compiler {
namespace {

// The next turn writes where others still read, unless that is another place, or another exchange is in between.
void end_turn(const StageContext& stage) {
  const Schedule& s = stage.schedule;
  const bool exchanges = warps_of(s).count > 1 || s.cluster > 1;
  if (exchanges && exchanges_of(stage.region) == 1 && !alternates(stage.region, s))
    stage.builder.barrier(s.cluster > 1 ? kernel::Scope::cluster : kernel::Scope::block);
}

void lower_block(const StageContext& stage, const Position& position, const Index& round = Index(0)) {
  Exchange exchange(stage, round);
  stage.builder.when(stage.builder.inside(position.warp_bounds()),
                     [&] { lower_phases(stage, position, exchange, nullptr); });
}

// The block stays and takes turns; what the next one needs is on its way to shared memory.
void lower_reading_ahead(const StageContext& stage) {
  KernelBuilder& b = stage.builder;
  const std::int64_t blocks = stage.extent.blocks;
  const IndexVar turn = b.var("turn", blocks), round = b.var("round", blocks),
                 next = b.var("next", 2 * blocks), teams = b.teams("teams", blocks);
  ReadAhead ahead(stage, stage.place.team, next);
  Exchange exchange(stage, Index::var(round));
  exchange.wait_for_cluster();
  b.turns({turn, stage.place.team.id, next, round, teams.id, blocks}, [&] {
    lower_phases(stage, Position(stage, Index::var(turn)), exchange, &ahead);
    end_turn(stage);
  });
}

// The blocks of a ticket, one after the other.
void lower_ticket(const StageContext& stage) {
  constexpr int kTogether = 4;  // blocks without an exchange load together
  KernelBuilder& b = stage.builder;
  const StagePlace& place = stage.place;
  const Extent& e = stage.extent;
  if (place.ticket_blocks == 1) return lower_block(stage, Position(stage, place.first_block));
  const IndexVar turn = b.var("turn", place.ticket_blocks);
  const bool together = stage.region.reductions.empty() && e.blocks % place.ticket_blocks == 0;
  const auto one = [&] {
    const Index block = place.first_block + Index::var(turn);
    b.when(b.inside({{block, 0, e.blocks}}), [&] {
      Position position(stage, block);
      // Of blocks that are there, each has all of its domains.
      if (stage.region.domains() % e.rows_per_block == 0) position.assume_full();
      lower_block(stage, position, Index::var(turn));
      end_turn(stage);
    });
  };
  b.loop(turn, kernel::Level::serial, one, together ? kTogether : 1);
}

// All blocks of the stage by those of the team, which take turns where they do not share domains.
void lower_team(const StageContext& stage) {
  KernelBuilder& b = stage.builder;
  const bool shares = stage.schedule.cluster > 1;
  const int apart = stage.place.cluster / stage.schedule.cluster;
  const std::int64_t turns = ceil_div(stage.extent.blocks, apart);
  const Index first = shares ? Index(0) : stage.place.rank;
  if (turns == 1) return lower_block(stage, Position(stage, first));
  const IndexVar turn = b.var("turn", turns);
  b.loop(turn, kernel::Level::serial, [&] {
    const Index round = Index::var(turn);
    lower_block(stage, Position(stage, round * apart + first), round);
    end_turn(stage);
  });
}

}  // namespace

void lower_stage(KernelContext& kernel, const Region& region, const Schedule& schedule,
                 const StagePlace& place) {
  const StageContext stage(kernel, region, schedule, place);
  kernel.builder.set_lanes(schedule.vector, schedule.lanes_reduced);
  if (schedule.gang > 1) return lower_gang(stage);
  if (schedule.prefetch > 0) return lower_reading_ahead(stage);
  if (place.ticket_blocks > 0) return lower_ticket(stage);
  if (place.staged) return lower_team(stage);
  lower_block(stage, Position(stage, Index::var(place.team)));
}

}  // namespace bz::compiler
