#include "compiler/group/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "compiler/fuse/cost.h"
#include "compiler/fuse/digits.h"
#include "compiler/group/table.h"

namespace bz::compiler {
namespace {

// Shared memory that the tables of a group may take together.
constexpr std::int64_t kTableBytes = 48 << 10;
// An access that moves less than this part of what another one does hardly counts.
constexpr std::int64_t kMinor = 8;
// Elements that keep a block busy.
constexpr double kElementsPerBlock = 512;
// What a domain has side by side in memory should fill the lines of the cache.
constexpr std::int64_t kContiguousBytes = 128;
// Teams without a tie by data that a region is tried with.
constexpr std::size_t kSiblings = 8;
// The share of the multiprocessors that keeps DRAM busy.
constexpr double kSaturating = 0.75;
// What of L2 still has what tickets read again, and how long it takes until who waits for a ticket knows that it is done (H200, 2026-11).
constexpr double kQueueShare = 0.4, kSignalSeconds = 4e-6;
// A block that goes over a domain alone has so many bytes on their way at once.
constexpr double kBlockBytes = 16384;
// Where a kernel writes this part of what it reads, or more, what is to be read again does not stay in L2: layer_norm of 16 samples of 16 MiB
// took 0.211 ms as a queue, and 0.196 as several kernels (H200, 2026-12).
constexpr double kWrites = 4;
// What owns its domains has to be faster by so much: a softmax over the channels of a group_norm, 2048 samples of 32 x 32, took 0.44 ms by
// clusters of 4 that own one each, and 0.38 as two kernels, which is predicted to take as long but for the launches (H200, 2026-12).
constexpr double kOwnedMargin = 0.95;
// A queue has to be faster by so much. Where it was predicted to be by 3 to 5 %, with a part of the input found in L2, it was by 4 to 11 (H200, 2026-12).
constexpr double kQueueMargin = 0.97;
// Where there are no more domains than multiprocessors, so much of what these can compute is not used, as all are in the same stage at once:
// gn_tail of 32 samples took 0.19 ms with clusters of 4 that own one each, 0.10 as two kernels (H200, 2026-11).
constexpr double kAloneIdle = 0.4;
// And to take so many times what a launch does: what is shorter is bound by other things.
constexpr double kQueueLaunches = 10;

class Grouper {
 public:
  Grouper(std::vector<Region> regions, const ir::Graph& graph, const Target& target, std::vector<Cut>& cuts,
          Join how, const QueueWish& wish)
      : regions_(std::move(regions)), graph_(graph), target_(target), cuts_(cuts), join_(how), wish_(wish) {}

  std::vector<Group> run() {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      home_.push_back(static_cast<int>(i));
      teams_.push_back({{static_cast<int>(i)}, {}});
      for (const IndexVar& v : regions_[i].kept) teams_[i].outer.push_back({v});
      for (const Root& r : regions_[i].roots) {
        const bool input = graph_.node(r.node).as<InputAttrs>() != nullptr;  // an output that is a copy of it
        if (!input && r.stored == compute_dtype(r.stored)) owner_[r.node] = static_cast<int>(i);
      }
    }
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      for (const NodeId s : regions_[i].sources()) {
        if (const auto o = owner_.find(s); o != owner_.end())
          consumers_[o->second].insert(static_cast<int>(i));
      }
    }
    // From the last region back, so that a region's consumers have settled when it is its turn to join them.
    for (int i = static_cast<int>(regions_.size()) - 1; join_ != Join::no && i >= 0; --i) join(i);
    std::vector<Group> groups;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      // A group stands where its last stage was: what the others need has run by then.
      if (Team& team = teams_[static_cast<std::size_t>(home_[i])]; team.members.back() == static_cast<int>(i))
        groups.push_back(finish(team));
    }
    return groups;
  }

 private:
  // Regions that will share a kernel, and their common variables: by position, each member's own.
  struct Team {
    std::vector<int> members;
    std::vector<std::vector<IndexVar>> outer;  // [position][member]
    int cluster = 1;
    bool cached = true;
    int queue = 0;
    double seconds = 0;  // of all members in one kernel
    Queued queued;
    std::int64_t size() const {
      std::int64_t n = 1;
      for (const auto& position : outer) n *= position[0].extent;
      return n;
    }
  };

  Region& region(int i) { return regions_[static_cast<std::size_t>(i)]; }
  const Root* stored(int producer, NodeId node) {
    if (const auto o = owner_.find(node); o == owner_.end() || o->second != producer) return nullptr;
    for (const Root& r : region(producer).roots) {
      if (r.node == node && r.stored == compute_dtype(r.stored)) return &r;
    }
    return nullptr;
  }

  // Makes the region a stage in front of those that use what it stores or, if nothing does, of one that reads the same.
  void join(int i) {
    std::set<int> homes;
    const auto users = consumers_.find(i);
    if (users != consumers_.end()) {
      for (const int u : users->second) homes.insert(home_[static_cast<std::size_t>(u)]);
      if (homes.size() > 1) return;
    } else {
      // Later regions do not wait for it, and those after it in the order do not feed it.
      for (std::size_t later = static_cast<std::size_t>(i) + 1;
           later < regions_.size() && homes.size() < kSiblings; ++later) {
        const int home = home_[later];
        if (teams_[static_cast<std::size_t>(home)].members.front() > i) homes.insert(home);
      }
    }
    for (const int home : homes) {
      const std::optional<std::string> through = join_through(i, home);
      if (through && through->empty()) return;
      Team& team = teams_[static_cast<std::size_t>(home)];
      std::optional<Team> joined = common(i, team);
      if (!joined || !arguments_fit(*joined)) continue;
      const std::string why = choose_form(seconds_apart(i) + seconds(team), *joined);
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
    const double apart = seconds_apart(i) + seconds_apart(middle) + seconds(last);
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
      if (!of_domain || stored(producer, c.from) == nullptr) continue;
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
      for (const Expr& e : region(team.members[m]).exprs) {
        if (e.kind != Expr::Kind::load) continue;
        if (const Root* root = stored(i, e.source)) {
          const auto digits = digits_of(root->offset);
          if (!digits) return std::nullopt;
          given.push_back({*digits, m, &e.index});
          continue;
        }
        for (const Expr& own : region(i).exprs) {
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
    const auto& kept = region(producer).kept;
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
      const Region& r = region(members[m]);
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
        return position[member(joined, producer)] == d.var;
      });
      if (!outer) n *= d.var.extent;
    }
    return n;
  }
  static std::size_t member(const Team& team, int i) {
    return static_cast<std::size_t>(std::find(team.members.begin(), team.members.end(), i) -
                                    team.members.begin());
  }

  bool tables_fit(const Team& joined) {
    std::int64_t bytes = 0;
    for (const int p : joined.members) {
      for (const NodeId n : tables_of(p, joined)) {
        const Root& root = *stored(p, n);
        bytes += (table_elements(p, root, joined) * size_of(root.stored) + 15) / 16 * 16;
      }
    }
    return bytes <= kTableBytes;
  }

  bool arguments_fit(const Team& joined) {
    std::set<NodeId> read;
    std::size_t written = 0;
    for (const int m : joined.members) {
      for (const NodeId s : region(m).sources()) read.insert(s);
      written += region(m).roots.size();
    }
    return read.size() + written <= kMostArguments;
  }

  // Nodes that member `p` gives to other members.
  std::vector<NodeId> tables_of(int p, const Team& team) {
    std::set<NodeId> nodes;
    for (const int m : team.members) {
      if (m == p) continue;
      for (const Expr& e : region(m).exprs) {
        if (e.kind == Expr::Kind::load && stored(p, e.source) != nullptr) nodes.insert(e.source);
      }
    }
    return {nodes.begin(), nodes.end()};
  }

  // ---- is it worth it? ---------------------------------------------------------------------------------------------

  struct Traffic {
    std::int64_t once = 0;   // bytes moved when every source is read once
    std::int64_t again = 0;  // bytes of further reads by later members
  };
  // Of `member`, when `read` has been read before.
  Traffic traffic(int member, std::set<NodeId>& read) {
    Traffic t;
    for (const NodeId s : region(member).sources()) {
      const std::int64_t bytes = graph_.type(s).elements() * size_of(graph_.type(s).dtype);
      (read.insert(s).second ? t.once : t.again) += bytes;
    }
    for (const Root& r : region(member).roots) t.once += graph_.type(r.node).elements() * size_of(r.stored);
    return t;
  }
  std::int64_t bytes_once(const Team& team) {
    std::set<NodeId> read;
    std::int64_t bytes = 0;
    for (const int m : team.members) bytes += traffic(m, read).once;
    return bytes;
  }

  double seconds_apart(int member) {
    std::set<NodeId> read;
    const double memory = static_cast<double>(traffic(member, read).once) / target_.dram_bytes_per_second;
    return kLaunchSeconds + std::max(memory, arithmetic_seconds(region(member), target_));
  }
  double seconds(const Team& team) {
    return team.members.size() > 1 ? team.seconds : seconds_apart(team.members[0]);
  }

  // Teams that run at once.
  double at_once(const Team& team, int cluster) const {
    return std::clamp(target_.multiprocessors * reach(cluster) / cluster, 1.0,
                      static_cast<double>(team.size()));
  }
  // Whether what they work on stays in L2 until the last stage has read it.
  bool cached(const Team& team, int cluster) {
    return at_once(team, cluster) * static_cast<double>(bytes_once(team)) <=
           kCacheShare * static_cast<double>(target_.l2_bytes * team.size());
  }

  double seconds_together(const Team& team, int cluster) {
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
      const double elements = static_cast<double>(region(m).domains() * region(m).domain_size()) / teams;
      const double used = busy * std::min(1.0, elements / (kElementsPerBlock * cluster));
      sum += std::max(bytes / target_.dram_bytes_per_second / std::min(1.0, used / kSaturating),
                      arithmetic_seconds(region(m), target_) / (computes * used));
    }
    return sum;
  }

  bool needs(int member, const Team& team) {
    const std::vector<NodeId> sources = region(member).sources();
    return std::any_of(sources.begin(), sources.end(), [&](NodeId s) {
      return std::any_of(team.members.begin(), team.members.end(),
                         [&](int p) { return p != member && stored(p, s) != nullptr; });
    });
  }

  // What a queue moves and computes: of the stages that come first, and of those that need something of others.
  struct Flow {
    double memory[2] = {0, 0}, arithmetic[2] = {0, 0};  // seconds, where nothing is found in L2
    double again = 0;                                   // bytes that a stage before has read or written
    double shared = 0;                                  // bytes that all teams read
    double read = 0, written = 0;                       // bytes, as often as that is done
    int waits = 0;                                      // stages that need something of others
    double domain = 0;                                  // seconds of a block for one of theirs, before
  };
  Flow flow(const Team& team) {
    Flow f;
    std::set<NodeId> known, again;
    for (const int m : team.members) {
      const int later = needs(m, team) ? 1 : 0;
      f.waits += later;
      if (!tables_of(m, team).empty()) f.domain += domain_bytes(region(m)) / kBlockBytes * kLoadSeconds;
      const Region& r = region(m);
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

  static bool writes_much(const Flow& f) { return kWrites * f.written >= f.read; }

  static double domain_bytes(const Region& r) {
    double bytes = 0;
    for (const Expr& e : r.exprs) {
      if (e.kind == Expr::Kind::load && e.varies) bytes += size_of(e.stored);
    }
    return bytes * static_cast<double>(r.domain_size());
  }

  // Whether a team has its own part of what the member loads.
  bool is_of_team(int m, NodeId source, const Team& team) {
    const std::size_t at = member(team, m);
    return std::any_of(region(m).exprs.begin(), region(m).exprs.end(), [&](const Expr& e) {
      return e.kind == Expr::Kind::load && e.source == source &&
             std::any_of(team.outer.begin(), team.outer.end(),
                         [&](const auto& position) { return e.index.uses(position[at].id); });
    });
  }

  // Points of the outer variables of which L2 holds what is needed again.
  double room(const Team& team, const Flow& f) const {
    const double each = f.again / static_cast<double>(team.size());
    return std::max(0.0, kQueueShare * static_cast<double>(target_.l2_bytes) - f.shared) /
           std::max(1.0, each);
  }

  // Counters have to be cleared before. From a ticket to one that waits for it a block has to go over a domain, and others have to hear of it:
  // gn_tail is predicted to take 0.41 ms with a lag of 4 by that and took 0.40 (H200, 2026-11). Half of the room in L2 is for what blocks are at.
  Queued queued(const Team& team, const Flow& f) const {
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

  // Teams of which blocks have tickets while one on each multiprocessor goes on. With a lag of less than half of that queues do not gain: of
  // 64 samples bf16 instance_norm, tanh and a maximum took 0.149 ms with a lag of 4, 0.131 as two kernels (H200, 2026-11).
  double ahead(const Team& team) {
    constexpr double kBlockTicket = 64 << 10;  // bytes, about
    double tickets = 0;
    for (const int m : team.members) {
      std::set<NodeId> read;
      const double part = static_cast<double>(traffic(m, read).once) / static_cast<double>(team.size());
      tickets += std::max(1.0, part / std::max(kBlockTicket, domain_bytes(region(m))));
    }
    constexpr int kThreads = 128;
    const int blocks = target_.registers_per_multiprocessor / (kQueueRegisters * kThreads);
    return std::max(0, blocks - 1) * target_.multiprocessors / tickets;
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
      const std::optional<bool> wish = wish_(region(m).name);
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
      const double s = seconds_together(joined, cluster);
      if (best && s >= 0.98 * *best) continue;
      best = s;
      joined.cluster = cluster;
    }
    joined.cached = cached(joined, joined.cluster);
    joined.queue = 0;
    const Flow f = flow(joined);
    const Queued q = queued(joined, f);
    // Blocks take tickets ahead, and some take longer than others. More teams cost little: with lags of 8, 12 and 16 gn_tail took 0.32,
    // 0.31 and 0.31 ms. With few teams in all blocks wait: of 32 samples it took 0.109 ms with a lag of 8, and 0.104 as two kernels
    // (H200, 2026-11).
    constexpr int kLags = 3;
    const auto most = static_cast<int>(std::clamp(q.teams / 4, 1.0, double{kMostLag}));
    const int least_lag = best_lag(q, most);
    const int lag = q.cached(least_lag) ? least_lag : std::min(most, kLags * least_lag);
    const double s = q.seconds(lag);
    const bool waits = (!q.cached(lag) && 2 * lag < kLags * least_lag) || 2 * lag < ahead(joined);
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
                       joined.size(), bytes_once(joined) / joined.size(), least * 1e6, apart * 1e6,
                       least < apart ? ", too little gained or too few domains for a queue" : "");
  }

  // ---- the result ----------------------------------------------------------------------------------------------------

  Group finish(const Team& team) {
    Group group;
    group.name = region(team.members.back()).name;
    group.cluster = team.cluster;
    group.cached = team.cached;
    group.queue = team.queue;
    group.queued = team.queued;
    if (team.members.size() > 1) {
      for (std::size_t m = 0; m < team.members.size(); ++m) {
        Region& r = region(team.members[m]);
        for (const auto& position : team.outer) {
          r.outer.push_back(position[m]);
          std::erase(r.kept, position[m]);
        }
      }
      for (const int p : team.members) {
        if (team.queue == 0) make_tables(p, team, group);
        for (const NodeId node : tables_of(p, team))
          std::erase_if(cuts_, [&](const Cut& c) { return c.from == node; });
      }
    }
    for (const int m : team.members) group.stages.push_back(std::move(region(m)));
    return group;
  }

  void make_tables(int producer, const Team& team, Group& group) {
    std::vector<Region*> members;
    for (const int m : team.members) members.push_back(&region(m));
    for (const NodeId node : tables_of(producer, team)) {
      const bool is_output = std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                                         [&](const Output& o) { return o.node == node; });
      // A copy, as the region's own may become that of the table.
      const Root root = *stored(producer, node);
      make_table(region(producer), root, is_output, members, group);
    }
  }

  std::vector<Region> regions_;
  const ir::Graph& graph_;
  const Target& target_;
  std::vector<Cut>& cuts_;
  Join join_;
  const QueueWish& wish_;
  std::vector<Team> teams_;  // by the region that began them
  std::vector<int> home_;    // by region: its team
  std::map<NodeId, int> owner_;
  std::map<int, std::set<int>> consumers_;
};

}  // namespace

std::vector<Group> group(std::vector<Region> regions, const ir::Graph& graph, const Target& target,
                         std::vector<Cut>& cuts, Join join, const QueueWish& wish) {
  return Grouper(std::move(regions), graph, target, cuts, join, wish).run();
}

}  // namespace bz::compiler
