#include "compiler/group/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/fuse/cost.h"
#include "compiler/fuse/digits.h"
#include "compiler/group/estimate.h"
#include "compiler/group/table.h"
#include "compiler/group/team.h"

namespace bz::compiler {
namespace {

// Shared memory that the tables of a group may take together.
constexpr std::int64_t kTableBytes = 48 << 10;
// An access that moves less than this part of what another one does hardly counts.
constexpr std::int64_t kMinor = 8;
// What a domain has side by side in memory should fill the lines of the cache.
constexpr std::int64_t kContiguousBytes = 128;
// Teams without a tie by data that a region is tried with.
constexpr std::size_t kSiblings = 8;
// What owns its domains has to be faster by so much: a softmax over the channels of a group_norm, 2048 samples of 32 x 32, took 0.44 ms by
// clusters of 4 that own one each, and 0.38 as two kernels, which is predicted to take as long but for the launches (H200, 2026-12).
constexpr double kOwnedMargin = 0.95;
// A queue has to be faster by so much. Where it was predicted to be by 3 to 5 %, with a part of the input found in L2, it was by 4 to 11 (H200, 2026-12).
constexpr double kQueueMargin = 0.97;
// And to take so many times what a launch does: what is shorter is bound by other things.
constexpr double kQueueLaunches = 10;
// Where arithmetic takes so many times what memory does, and there are so many times as many teams as the lag, blocks may wait for tickets.
constexpr double kComputes = 1.3;
constexpr int kTeamsOfLag = 8;

class Grouper {
 public:
  Grouper(std::vector<Region> regions, const ir::Graph& graph, const Target& target, std::vector<Cut>& cuts,
          Join how, const QueueWish& wish)
      : members_(std::move(regions), graph),
        estimate_(members_, graph, target),
        graph_(graph),
        target_(target),
        cuts_(cuts),
        join_(how),
        wish_(wish) {}

  std::vector<Group> run() {
    for (int i = 0; i < members_.count(); ++i) {
      home_.push_back(i);
      Team& alone = teams_.emplace_back();
      alone.members.push_back(i);
      for (const IndexVar& v : members_[i].kept) alone.outer.push_back({v});
      for (const NodeId s : members_[i].sources()) {
        if (const std::optional<int> owner = members_.owner(s)) consumers_[*owner].insert(i);
      }
    }
    // From the last region back, so that a region's consumers have settled when it is its turn to join them.
    for (int i = members_.count() - 1; join_ != Join::no && i >= 0; --i) join(i);
    std::vector<Group> groups;
    for (int i = 0; i < members_.count(); ++i) {
      // A group stands where its last stage was: what the others need has run by then.
      const int home = home_[static_cast<std::size_t>(i)];
      if (Team& team = teams_[static_cast<std::size_t>(home)]; team.members.back() == i)
        groups.push_back(finish(team));
    }
    return groups;
  }

 private:
  // Makes the region a stage in front of those that use what it stores or, if nothing does, of one that reads the same.
  void join(int i) {
    std::set<int> homes;
    const auto users = consumers_.find(i);
    if (users != consumers_.end()) {
      for (const int u : users->second) homes.insert(home_[static_cast<std::size_t>(u)]);
      if (homes.size() > 1) return;
    } else {
      // Later regions do not wait for it, and those after it in the order do not feed it.
      for (int later = i + 1; later < members_.count() && homes.size() < kSiblings; ++later) {
        const int home = home_[static_cast<std::size_t>(later)];
        if (teams_[static_cast<std::size_t>(home)].members.front() > i) homes.insert(home);
      }
    }
    for (const int home : homes) {
      const std::optional<std::string> through = join_through(i, home);
      if (through && through->empty()) return;
      Team& team = teams_[static_cast<std::size_t>(home)];
      std::optional<Team> joined = common(i, team);
      if (!joined || !arguments_fit(*joined)) continue;
      const std::string why = choose_form(estimate_.apart(i) + seconds(team), *joined);
      if (!why.empty()) {
        explain(i, through ? *through : why);
        continue;
      }
      settle(std::move(*joined), home);
      return;
    }
  }

  // What a region gives to the only user of it, alone in its kernel, which gives it on to one team: neither is worth a kernel
  // with the next, but all of them may be: statistics of parts, their combination, and what is done with them. The reason when
  // they are not; nullopt when there is no such chain.
  std::optional<std::string> join_through(int i, int middle) {
    if (consumers_.find(i) == consumers_.end() || teams_[static_cast<std::size_t>(middle)].members.size() > 1)
      return std::nullopt;
    const auto users = consumers_.find(middle);
    if (users == consumers_.end()) return std::nullopt;
    const int home = home_[static_cast<std::size_t>(*users->second.begin())];
    for (const int u : users->second) {
      if (home_[static_cast<std::size_t>(u)] != home) return std::nullopt;
    }
    const Team& last = teams_[static_cast<std::size_t>(home)];
    const std::optional<Team> later = common(middle, last, true);
    std::optional<Team> joined = later ? common(i, *later, true) : std::nullopt;
    if (!joined || !arguments_fit(*joined)) return std::nullopt;
    const double apart = estimate_.apart(i) + estimate_.apart(middle) + seconds(last);
    std::string why = choose_form(apart, *joined);
    if (why.empty()) settle(std::move(*joined), home);
    return why;
  }

  void settle(Team joined, int home) {
    for (const int m : joined.members) home_[static_cast<std::size_t>(m)] = home;
    teams_[static_cast<std::size_t>(home)] = std::move(joined);
  }

  // Of cuts that one kernel would do without; what was stored for another reason than its domain was so by choice.
  void explain(int producer, const std::string& why) {
    for (Cut& c : cuts_) {
      const bool of_domain = c.reason == CutReason::different_domain ||
                             c.reason == CutReason::inside_reduction ||
                             c.reason == CutReason::repeated_reduction;
      if (!of_domain || members_.stored(producer, c.from) == nullptr) continue;
      c.reason = CutReason::domain_too_large;
      c.detail = why;
    }
  }

  // Two offsets in one piece of memory: the digits of what the new stage stores or loads there, and where a member does.
  struct Tie {
    std::vector<Digit> digits;
    std::size_t member;
    const Index* offset;
  };
  // Of all that the region gives to the team; else of all that both read. nullopt when an offset does not say.
  std::optional<std::vector<Tie>> ties(int i, const Team& team) {
    std::vector<Tie> given, shared;
    for (std::size_t m = 0; m < team.members.size(); ++m) {
      for (const Expr& e : members_[team.members[m]].exprs) {
        if (e.kind != Expr::Kind::load) continue;
        if (const Root* root = members_.stored(i, e.source)) {
          const auto digits = digits_of(root->offset);
          if (!digits) return std::nullopt;
          given.push_back({*digits, m, &e.index});
          continue;
        }
        for (const Expr& own : members_[i].exprs) {
          if (own.kind != Expr::Kind::load || own.source != e.source || !own.varies || !e.varies) continue;
          if (const auto digits = digits_of(own.index)) shared.push_back({*digits, m, &e.index});
        }
      }
    }
    return given.empty() ? shared : given;
  }

  // The team with the region in it; nullopt when they have nothing in common. `minor_members`: what is side by side in memory may
  // be of several teams in members that move little.
  std::optional<Team> common(int producer, const Team& team, bool minor_members = false) {
    const std::optional<std::vector<Tie>> all = ties(producer, team);
    if (!all || all->empty()) return std::nullopt;
    std::vector<std::optional<IndexVar>> own(team.outer.size());
    std::vector<bool> seen(team.outer.size(), false);
    const auto& kept = members_[producer].kept;
    for (const Tie& tie : *all) {
      for (std::size_t p = 0; p < team.outer.size(); ++p) {
        const IndexVar& theirs = team.outer[p][tie.member];
        std::optional<IndexVar> mine;
        for (const Digit& d : tie.digits) {
          if (d.var.extent == theirs.extent && d.of(*tie.offset).as_var() == theirs.id &&
              std::find(kept.begin(), kept.end(), d.var) != kept.end()) {
            mine = d.var;
          }
        }
        own[p] = !seen[p] || (mine && own[p] && *mine == *own[p]) ? mine : std::nullopt;
        seen[p] = true;
      }
    }
    Team joined{{producer}, {}};
    joined.members.insert(joined.members.end(), team.members.begin(), team.members.end());
    for (std::size_t p = 0; p < team.outer.size(); ++p) {
      if (!own[p]) continue;
      std::vector<IndexVar> position = {*own[p]};
      position.insert(position.end(), team.outer[p].begin(), team.outer[p].end());
      if (keeps_lines_whole(joined.members, position, minor_members))
        joined.outer.push_back(std::move(position));
    }
    return joined;
  }

  // Whether what lies side by side in memory stays with one team, in the accesses that move the most: of each member or, where
  // members may be minor, of all.
  bool keeps_lines_whole(const std::vector<int>& members, const std::vector<IndexVar>& position,
                         bool minor_members) {
    std::int64_t most = 0, most_narrow = 0;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Region& r = members_[members[m]];
      if (!minor_members) most = most_narrow = 0;
      const auto access = [&](const Index& e, DType t) {
        std::vector<IndexVar> vars;
        e.collect_vars(vars);
        const std::int64_t bytes = product(vars) * size_of(t);
        const std::int64_t c = coefficient(e, position[m]);
        most = std::max(most, bytes);
        if (c != 0 && c * size_of(t) < kContiguousBytes) most_narrow = std::max(most_narrow, bytes);
      };
      for (const Expr& e : r.exprs) {
        if (e.kind == Expr::Kind::load) access(e.index, e.stored);
      }
      for (const Root& root : r.roots) access(root.offset, root.stored);
      if (!minor_members && most_narrow * kMinor > most) return false;
    }
    return most_narrow * kMinor <= most;
  }

  // Elements of a root that belong to one team.
  std::int64_t table_elements(int producer, const Root& root, const Team& joined) {
    std::int64_t n = 1;
    const std::vector<Digit> digits = *digits_of(root.offset);
    for (const Digit& d : digits) {
      const bool outer = std::any_of(joined.outer.begin(), joined.outer.end(), [&](const auto& position) {
        return position[joined.at(producer)] == d.var;
      });
      if (!outer) n *= d.var.extent;
    }
    return n;
  }
  bool tables_fit(const Team& joined) {
    std::int64_t bytes = 0;
    for (const int p : joined.members) {
      for (const NodeId n : members_.tables_of(p, joined)) {
        const Root& root = *members_.stored(p, n);
        bytes += (table_elements(p, root, joined) * size_of(root.stored) + 15) / 16 * 16;
      }
    }
    return bytes <= kTableBytes;
  }

  bool arguments_fit(const Team& joined) {
    std::set<NodeId> read;
    std::size_t written = 0;
    for (const int m : joined.members) {
      for (const NodeId s : members_[m].sources()) read.insert(s);
      written += members_[m].roots.size();
    }
    return read.size() + written <= kMostArguments;
  }

  // ---- is it worth it? ---------------------------------------------------------------------------------------------

  double seconds(const Team& team) {
    return team.members.size() > 1 ? team.seconds : estimate_.apart(team.members[0]);
  }

  static int best_lag(const Queued& q, int most) {
    int best = 1;
    for (int lag = 2; lag <= most; ++lag) {
      if (q.seconds(lag) < q.seconds(best)) best = lag;
    }
    return best;
  }

  // Whether a schedule by hand asks for a queue of all of them: for one, and for none that there is none.
  bool is_wished(const Team& team) {
    if (!wish_ || team.size() == 1) return false;
    bool wished = false;
    for (const int m : team.members) {
      const std::optional<bool> wish = wish_(members_[m].name);
      if (wish == false) return false;
      wished = wished || wish.has_value();
    }
    return wished;
  }

  // Decides on the number of blocks of a team, or on a queue. Returns why no kernel for all is faster than what they take apart, ""
  // when one is.
  std::string choose_form(double apart, Team& joined) {
    std::optional<double> best;
    const bool owned = tables_fit(joined);
    for (int cluster = 1; owned && cluster <= target_.max_cluster; cluster *= 2) {
      const double s = estimate_.owned(joined, cluster);
      if (best && s >= 0.98 * *best) continue;
      best = s;
      joined.cluster = cluster;
    }
    joined.cached = estimate_.cached(joined, joined.cluster);
    joined.queue = 0;
    const Queued q = estimate_.queued(joined);
    // Blocks take tickets ahead, and some take longer than others. More teams cost little: with lags of 8, 12 and 16 gn_tail took 0.32,
    // 0.31 and 0.31 ms. With few teams in all blocks wait: of 32 samples it took 0.109 ms with a lag of 8, and 0.104 as two kernels
    // (H200, 2026-11).
    constexpr int kLags = 3;
    const auto most = static_cast<int>(std::clamp(q.teams / 4, 1.0, double{kMostLag}));
    const int least_lag = best_lag(q, most);
    int lag = q.cached(least_lag) ? least_lag : std::min(most, kLags * least_lag);
    bool waits = !q.cached(lag) && 2 * lag < kLags * least_lag;
    if (2 * lag < estimate_.ahead(joined)) {
      // Some blocks wait then. Others compute meanwhile, where that is what takes long, not what is written: gn_tail of 128 samples bf16 took
      // 0.325 ms as two kernels, 0.309 as a queue with a lag of 16, and more with less; of 64 samples both took as long, of 32 0.092 and
      // 0.119 ms (H200, 2026-12).
      const bool may_wait =
          q.arithmetic > kComputes * q.memory && q.stays > 0 && q.teams >= kTeamsOfLag * most;
      waits = waits || !may_wait;
      lag = most;
    }
    const double s = q.seconds(lag);
    const bool pays = s < kQueueMargin * apart && s > kQueueLaunches * kLaunchSeconds && !waits;
    if (is_wished(joined) || (pays && (!best || s < *best))) {
      joined.queue = lag;
      joined.queued = q;
      joined.cluster = 1;
      joined.cached = q.cached(lag);
      best = s;
    }
    joined.seconds = best.value_or(s);
    if (joined.queue > 0 || (best && *best < kOwnedMargin * apart)) return "";
    const double least = std::min(s, joined.seconds);
    return fmt::format("{} domains of {} bytes: {:.1f} us in one kernel, {:.1f} us in several{}",
                       joined.size(), estimate_.bytes_once(joined) / joined.size(), least * 1e6, apart * 1e6,
                       least < apart ? ", too little gained or too few domains for a queue" : "");
  }

  // ---- the result ----------------------------------------------------------------------------------------------------

  Group finish(const Team& team) {
    Group group;
    group.name = members_[team.members.back()].name;
    group.cluster = team.cluster;
    group.cached = team.cached;
    group.queue = team.queue;
    group.queued = team.queued;
    if (team.members.size() > 1) {
      for (std::size_t m = 0; m < team.members.size(); ++m) {
        Region& r = members_[team.members[m]];
        for (const auto& position : team.outer) {
          r.outer.push_back(position[m]);
          std::erase(r.kept, position[m]);
        }
      }
      for (const int p : team.members) {
        if (team.queue == 0) make_tables(p, team, group);
        for (const NodeId node : members_.tables_of(p, team))
          std::erase_if(cuts_, [&](const Cut& c) { return c.from == node; });
      }
    }
    for (const int m : team.members) group.stages.push_back(std::move(members_[m]));
    return group;
  }

  void make_tables(int producer, const Team& team, Group& group) {
    std::vector<Region*> members;
    for (const int m : team.members) members.push_back(&members_[m]);
    for (const NodeId node : members_.tables_of(producer, team)) {
      const bool is_output = std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                                         [&](const Output& o) { return o.node == node; });
      // A copy, as the region's own may become that of the table.
      const Root root = *members_.stored(producer, node);
      make_table(members_[producer], root, is_output, members, group);
    }
  }

  Members members_;
  Estimate estimate_;
  const ir::Graph& graph_;
  const Target& target_;
  std::vector<Cut>& cuts_;
  Join join_;
  const QueueWish& wish_;
  std::vector<Team> teams_;  // by the region that began them
  std::vector<int> home_;    // by region: its team
  std::map<int, std::set<int>> consumers_;
};

}  // namespace

std::vector<Group> group(std::vector<Region> regions, const ir::Graph& graph, const Target& target,
                         std::vector<Cut>& cuts, Join join, const QueueWish& wish) {
  return Grouper(std::move(regions), graph, target, cuts, join, wish).run();
}

}  // namespace bz::compiler
