#include "compiler/schedule/queue.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/predict.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

// A stage has few tickets when another has so many times as many.
constexpr std::int64_t kFew = 8;
// Bytes that are worth a ticket.
constexpr double kTicketBytes = 32 << 10;

bool gives(const Region& from, const Region& to) {
  return std::any_of(from.roots.begin(), from.roots.end(), [&](const Root& r) {
    return std::any_of(to.exprs.begin(), to.exprs.end(), [&](const Expr& e) {
      return e.kind == Expr::Kind::load && e.source == r.node && e.temporary == r.temporary;
    });
  });
}

// Bytes that a team's part of the region loads and stores.
double bytes_of(const Region& region) {
  std::map<NodeId, double> bytes;
  const auto add = [&](NodeId node, const Index& offset, DType dtype) {
    std::vector<IndexVar> vars;
    offset.collect_vars(vars);
    double& most = bytes[node];
    most = std::max(most, static_cast<double>(product(vars) * size_of(dtype)));
  };
  for (const Expr& e : region.exprs) {
    if (e.kind == Expr::Kind::load) add(e.source, e.index, e.stored);
  }
  for (const Root& r : region.roots) add(r.node, r.offset, r.stored);
  double sum = 0;
  for (const auto& [node, n] : bytes) sum += n;
  return sum / static_cast<double>(region.teams());
}

// So many of `blocks`, or somewhat fewer that divide them.
std::int64_t even(std::int64_t blocks, double wanted) {
  const auto most = std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted), 1, blocks);
  for (std::int64_t n = most; 2 * n > most; --n) {
    if (blocks % n == 0) return n;
  }
  return most;
}

}  // namespace

TicketOrder order_of(const Group& group, std::span<const Schedule> schedules) {
  TicketOrder order;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    TicketStage stage;
    stage.blocks = group.ticket_blocks[i];
    stage.tickets = ceil_div(extent_of(group.stages[i], schedules[i]).blocks, stage.blocks);
    most = std::max(most, stage.tickets);
    order.stages.push_back(std::move(stage));
  }
  const auto few = [&](const TicketStage& s) { return s.tickets * kFew <= most; };
  std::vector<std::vector<bool>> after;  // by stage and stage: whether it needs the other, or what needs it
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    TicketStage& stage = order.stages[i];
    after.emplace_back(i, false);
    // From the last on: what that has waited for need not be waited for again.
    for (std::size_t p = i; p-- > 0;) {
      if (!gives(group.stages[p], group.stages[i])) continue;
      TicketStage& giver = order.stages[p];
      stage.lag = std::max(stage.lag, giver.lag + (few(stage) ? 0 : group.queue));
      if (after[i][p]) continue;
      stage.waits_for.push_back(static_cast<int>(p));
      giver.waited_for = true;
      after[i][p] = true;
      for (std::size_t q = 0; q < p; ++q) after[i][q] = after[i][q] || after[p][q];
    }
  }
  for (const TicketStage& s : order.stages) {
    if (!few(s)) order.spread += s.tickets;
  }
  order.per_step = order.spread;
  for (TicketStage& s : order.stages) {
    if (!few(s)) continue;
    s.first = order.per_step;
    order.per_step += s.tickets;
  }
  int lag = 0;
  for (const TicketStage& s : order.stages) {
    lag = std::max(lag, s.lag);
    for (const int p : s.waits_for) {
      const TicketStage& giver = order.stages[static_cast<std::size_t>(p)];
      check(s.lag > giver.lag || (s.lag == giver.lag && s.first > giver.first),
            "a ticket that waits for a later one");
    }
  }
  order.steps = group.teams() + lag;
  return order;
}

// Of n tickets spread among N places, a n / N stand before place a.
TicketPlace place_of(const TicketOrder& order, std::size_t stage, const Index& at) {
  const TicketStage& s = order.stages[stage];
  if (s.first >= 0) return {{{at, s.first, s.first + s.tickets}}, at - Index(s.first)};
  TicketPlace place{{{at, 0, order.spread}}, at};
  std::int64_t left = order.spread;  // places of this and later stages; `part` is which of them
  for (std::size_t i = 0; i <= stage; ++i) {
    const TicketStage& other = order.stages[i];
    if (other.first >= 0 || other.tickets == left) continue;
    const Index before = floordiv(place.part * other.tickets, left);
    const Index through = floordiv((place.part + Index(1)) * other.tickets, left);
    const std::int64_t here = i == stage ? 1 : 0;
    place.where.push_back({through - before, here, here + 1});
    place.part = i == stage ? before : place.part - before;
    left -= other.tickets;
  }
  return place;
}

int blocks_together(const Group& group, std::span<const Schedule> schedules, const Target& target) {
  std::int64_t blocks = target.registers_per_multiprocessor / (kQueueRegisters * threads_of(schedules[0]));
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    if (schedules[i].keep == Keep::registers)
      blocks = std::min(blocks, blocks_by_registers(group.stages[i], schedules[i], target));
  }
  const int most = std::min(target.blocks_per_multiprocessor,
                            target.threads_per_multiprocessor / threads_of(schedules[0]));
  return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, std::max(1, most)));
}

std::vector<std::int64_t> ticket_blocks(const Group& group, std::span<const Choice> choices) {
  std::vector<std::int64_t> blocks;
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    const std::int64_t all = extent_of(group.stages[i], choices[i].schedule).blocks;
    blocks.push_back(
        even(all, kTicketBytes * static_cast<double>(all) / std::max(1.0, bytes_of(group.stages[i]))));
  }
  return blocks;
}

}  // namespace bz::compiler
