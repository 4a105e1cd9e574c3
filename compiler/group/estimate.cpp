#include "compiler/group/estimate.h"

#include <algorithm>
#include <cmath>

#include "compiler/fuse/cost.h"

namespace bz::compiler {
namespace {

// Elements that keep a block busy.
constexpr double kElementsPerBlock = 512;
// The share of the multiprocessors that keeps DRAM busy.
constexpr double kSaturating = 0.75;
// What of L2 still has what tickets read again, and how long it takes until who waits for a ticket knows that it is done (H200, 2026-11).
constexpr double kQueueShare = 0.4, kSignalSeconds = 4e-6;
// A block that goes over a domain alone has so many bytes on their way at once.
constexpr double kBlockBytes = 16384;
// Where a kernel writes this part of what it reads, or more, what is to be read again does not stay in L2: layer_norm of 16 samples of 16 MiB
// took 0.211 ms as a queue, and 0.196 as several kernels (H200, 2026-12).
constexpr double kWrites = 4;
// Where there are no more domains than multiprocessors, so much of what these can compute is not used, as all are in the same stage at once:
// gn_tail of 32 samples took 0.19 ms with clusters of 4 that own one each, 0.10 as two kernels (H200, 2026-11).
constexpr double kAloneIdle = 0.4;

double domain_bytes(const Region& r) {
  double bytes = 0;
  for (const Expr& e : r.exprs) {
    if (e.kind == Expr::Kind::load && e.varies) bytes += size_of(e.stored);
  }
  return bytes * static_cast<double>(r.domain_size());
}

}  // namespace

struct Estimate::Traffic {
  std::int64_t once = 0;   // bytes moved when every source is read once
  std::int64_t again = 0;  // bytes of further reads by later members
};

// What a queue moves and computes: of the stages that come first, and of those that need something of others.
struct Estimate::Flow {
  double memory[2] = {0, 0}, arithmetic[2] = {0, 0};  // seconds, where nothing is found in L2
  double again = 0;                                   // bytes that a stage before has read or written
  double shared = 0;                                  // bytes that all teams read
  double read = 0, written = 0;                       // bytes, as often as that is done
  int waits = 0;                                      // stages that need something of others
  double domain = 0;                                  // seconds of a block for one of theirs, before
};

// Of `member`, when `read` has been read before.
Estimate::Traffic Estimate::traffic(int member, std::set<NodeId>& read) const {
  Traffic t;
  for (const NodeId s : members_[member].sources()) {
    const std::int64_t bytes = graph_.type(s).elements() * size_of(graph_.type(s).dtype);
    (read.insert(s).second ? t.once : t.again) += bytes;
  }
  for (const Root& r : members_[member].roots) t.once += graph_.type(r.node).elements() * size_of(r.stored);
  return t;
}

std::int64_t Estimate::bytes_once(const Team& team) const {
  std::set<NodeId> read;
  std::int64_t bytes = 0;
  for (const int m : team.members) bytes += traffic(m, read).once;
  return bytes;
}

double Estimate::apart(int member) const {
  std::set<NodeId> read;
  const double memory = static_cast<double>(traffic(member, read).once) / target_.dram_bytes_per_second;
  return kLaunchSeconds + std::max(memory, arithmetic_seconds(members_[member], target_));
}

// Teams that run at once.
double Estimate::at_once(const Team& team, int cluster) const {
  return std::clamp(target_.multiprocessors * reach(cluster) / cluster, 1.0,
                    static_cast<double>(team.size()));
}

bool Estimate::cached(const Team& team, int cluster) const {
  return at_once(team, cluster) * static_cast<double>(bytes_once(team)) <=
         kCacheShare * static_cast<double>(target_.l2_bytes * team.size());
}

double Estimate::owned(const Team& team, int cluster) const {
  const double teams = static_cast<double>(team.size());
  const double waves = std::ceil(teams / at_once(team, cluster));
  const double busy = std::min(1.0, teams / waves * cluster / target_.multiprocessors);
  const double computes = 1 - kAloneIdle / std::max(1.0, teams / target_.multiprocessors);
  const double again_speed = cached(team, cluster) && !writes_much(flow(team)) ? kCacheSpeed : 1;
  double sum = kLaunchSeconds;
  std::set<NodeId> read;
  for (const int m : team.members) {
    const Traffic t = traffic(m, read);
    const double bytes = static_cast<double>(t.once) + static_cast<double>(t.again) / again_speed;
    const double elements = static_cast<double>(members_[m].domains() * members_[m].domain_size()) / teams;
    const double used = busy * std::min(1.0, elements / (kElementsPerBlock * cluster));
    sum += std::max(bytes / target_.dram_bytes_per_second / std::min(1.0, used / kSaturating),
                    arithmetic_seconds(members_[m], target_) / (computes * used));
  }
  return sum;
}

Estimate::Flow Estimate::flow(const Team& team) const {
  Flow f;
  std::set<NodeId> known, again;
  for (const int m : team.members) {
    const int later = members_.needs(m, team) ? 1 : 0;
    f.waits += later;
    if (!members_.tables_of(m, team).empty())
      f.domain += domain_bytes(members_[m]) / kBlockBytes * kLoadSeconds;
    const Region& r = members_[m];
    double all = 0;
    for (const NodeId s : r.sources()) {
      const auto bytes = static_cast<double>(graph_.type(s).elements() * size_of(graph_.type(s).dtype));
      const bool fresh = known.insert(s).second;
      all += bytes;
      f.read += bytes;
      if (!fresh && again.insert(s).second) f.again += bytes;
      if (fresh && !is_of_team(m, s, team)) f.shared += bytes;
    }
    for (const Root& root : r.roots) {
      const auto bytes = static_cast<double>(graph_.type(root.node).elements() * size_of(root.stored));
      all += bytes;
      f.written += bytes;
      known.insert(root.node);
    }
    f.memory[later] += all / target_.dram_bytes_per_second;
    f.arithmetic[later] += arithmetic_seconds(r, target_);
  }
  return f;
}

bool Estimate::writes_much(const Flow& f) { return kWrites * f.written >= f.read; }

// Whether a team has its own part of what the member loads.
bool Estimate::is_of_team(int m, NodeId source, const Team& team) const {
  const std::size_t at = team.at(m);
  return std::any_of(members_[m].exprs.begin(), members_[m].exprs.end(), [&](const Expr& e) {
    return e.kind == Expr::Kind::load && e.source == source &&
           std::any_of(team.outer.begin(), team.outer.end(),
                       [&](const auto& position) { return e.index.uses(position[at].id); });
  });
}

// Points of the outer variables of which L2 holds what is needed again.
double Estimate::room(const Team& team, const Flow& f) const {
  const double each = f.again / static_cast<double>(team.size());
  return std::max(0.0, kQueueShare * static_cast<double>(target_.l2_bytes) - f.shared) / std::max(1.0, each);
}

// Counters have to be cleared before. From a ticket to one that waits for it a block has to go over a domain, and others have to hear of it:
// gn_tail is predicted to take 0.41 ms with a lag of 4 by that and took 0.40 (H200, 2026-11). Half of the room in L2 is for what blocks are at.
Queued Estimate::queued(const Team& team) const {
  const Flow f = flow(team);
  const double teams = static_cast<double>(team.size()), fits = room(team, f);
  const auto l2 = static_cast<double>(target_.l2_bytes);
  // What all teams read is read by each of them where L2 does not have it, in a queue that goes through one after the other.
  const double repeated = f.shared > kQueueShare * l2 ? (teams - 1) * f.shared : 0;
  const double arithmetic = f.arithmetic[0] + f.arithmetic[1];
  const double memory = f.memory[0] + f.memory[1] + repeated / target_.dram_bytes_per_second;
  const double saved = (1 - 1 / kCacheSpeed) * f.again / target_.dram_bytes_per_second;
  const double stays = writes_much(f) ? 0 : kQueueStays * l2 * teams / std::max(1.0, f.again);
  return {.teams = teams,
          .alone = std::max(f.memory[0], f.arithmetic[0]) + std::max(f.memory[1], f.arithmetic[1]),
          .memory = memory,
          .arithmetic = arithmetic,
          .saved = saved,
          .waits = teams * (kSignalSeconds * f.waits + f.domain),
          .launches = 2 * kLaunchSeconds,
          .near = fits < 1 ? 0 : std::max(1, static_cast<int>(std::min(fits / 2, double{kMostLag}))),
          .stays = stays};
}

double Estimate::ahead(const Team& team) const {
  constexpr double kBlockTicket = 64 << 10;  // bytes, about
  double tickets = 0;
  for (const int m : team.members) {
    std::set<NodeId> read;
    const double part = static_cast<double>(traffic(m, read).once) / static_cast<double>(team.size());
    tickets += std::max(1.0, part / std::max(kBlockTicket, domain_bytes(members_[m])));
  }
  constexpr int kThreads = 128;
  const int blocks = target_.registers_per_multiprocessor / (kQueueRegisters * kThreads);
  return std::max(0, blocks - 1) * target_.multiprocessors / tickets;
}

}  // namespace bz::compiler
