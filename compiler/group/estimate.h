// How long regions take, apart and as one kernel: what their grouping is decided by. Schedules are not known yet.
#pragma once

#include <set>

#include "compiler/group/team.h"

namespace bz::compiler {

class Estimate {
 public:
  Estimate(const Members& members, const ir::Graph& graph, const Target& target)
      : members_(members), graph_(graph), target_(target) {}

  // In seconds, with the launch: a region alone, and a team whose points a block or a cluster owns, one after the other.
  double apart(int member) const;
  double owned(const Team& team, int cluster) const;
  // Whether what the teams that are owned at once work on stays in L2 until the last stage has read it.
  bool cached(const Team& team, int cluster) const;

  Queued queued(const Team& team) const;
  // Teams of which blocks have tickets while one on each multiprocessor goes on. With a lag of less than half of that queues do not gain: of
  // 64 samples bf16 instance_norm, tanh and a maximum took 0.149 ms with a lag of 4, 0.131 as two kernels (H200, 2026-11).
  double ahead(const Team& team) const;

  // Bytes that a team moves when it reads every source once.
  std::int64_t bytes_once(const Team& team) const;

 private:
  struct Traffic;
  struct Flow;
  Traffic traffic(int member, std::set<NodeId>& read) const;
  Flow flow(const Team& team) const;
  static bool writes_much(const Flow& f);
  bool is_of_team(int m, NodeId source, const Team& team) const;
  double at_once(const Team& team, int cluster) const;
  double room(const Team& team, const Flow& f) const;

  const Members& members_;
  const ir::Graph& graph_;
  const Target& target_;
};

}  // namespace bz::compiler
