#include "compiler/fuse/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace bz::compiler {
namespace {

// Shared memory that the tables of a group may take together.
constexpr std::int64_t kTableBytes = 48 << 10;
// What a domain has side by side in memory should fill the lines of the cache.
constexpr std::int64_t kContiguousBytes = 128;
// Of one small kernel in a graph; H200, 2026-11.
constexpr double kLaunchSeconds = 2e-6;
// A second read that hits L2, against the copy speed of DRAM; and how much of L2 can be counted on. H200, 2026-11.
constexpr double kCacheSpeed = 1.4, kCacheShare = 0.6;
// The share of the multiprocessors that keeps DRAM busy.
constexpr double kSaturating = 0.75;
// Multiprocessors that clusters of 1, 2, 4, 8, 16 blocks reach: they do not cross the chip's processing clusters, which are
// not all of one size. Of the H200's 132: 15 clusters of 8 and 7 of 16.
double reach(int cluster) { return cluster == 16 ? 0.85 : cluster == 8 ? 0.91 : 1; }

std::int64_t coefficient(const Index& e, std::int32_t var) {
  for (const Index::Term& t : e.terms()) {
    if (t.atom->kind == Index::Atom::Kind::var && t.atom->variable.id == var) return t.coef;
  }
  return 0;
}

// The variables of an offset that is the sum of a coefficient times each, innermost first, so that each can be told from
// the offset: variable = offset / coefficient % extent. nullopt for another offset.
struct Digit {
  IndexVar var;
  std::int64_t step;
  Index of(const Index& offset) const { return mod(floordiv(offset, step), var.extent); }
};
std::optional<std::vector<Digit>> digits_of(const Index& offset) {
  std::vector<Digit> digits;
  for (const Index::Term& t : offset.terms()) {
    if (t.atom->kind != Index::Atom::Kind::var || t.coef <= 0) return std::nullopt;
    digits.push_back({t.atom->variable, t.coef});
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.step < b.step; });
  std::int64_t reached = 1;
  for (const Digit& d : digits) {
    if (d.step < reached) return std::nullopt;
    reached = d.step * d.var.extent;
  }
  if (offset.constant() != 0) return std::nullopt;
  return digits;
}

class Grouper {
 public:
  Grouper(std::vector<Region> regions, const ir::Graph& graph, const Target& target, std::vector<Cut>& cuts, bool join)
      : regions_(std::move(regions)), graph_(graph), target_(target), cuts_(cuts), join_(join) {}

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
        if (const auto o = owner_.find(s); o != owner_.end()) consumers_[o->second].insert(static_cast<int>(i));
      }
    }
    // From the last region back, so that a region's consumers have settled when it is its turn to join them.
    for (int producer = static_cast<int>(regions_.size()) - 1; join_ && producer >= 0; --producer) join(producer);
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
    std::int64_t size() const {
      std::int64_t n = 1;
      for (const auto& position : outer) n *= position[0].extent;
      return n;
    }
  };

  Region& region(int i) { return regions_[static_cast<std::size_t>(i)]; }
  const Root* stored(int producer, NodeId node) {
    for (const Root& r : region(producer).roots) {
      if (r.node == node && r.stored == compute_dtype(r.stored)) return &r;
    }
    return nullptr;
  }

  void join(int producer) {
    const auto users = consumers_.find(producer);
    if (users == consumers_.end()) return;
    const int home = home_[static_cast<std::size_t>(*users->second.begin())];
    for (const int u : users->second) {
      if (home_[static_cast<std::size_t>(u)] != home) return;
    }
    Team& team = teams_[static_cast<std::size_t>(home)];
    std::optional<Team> joined = common(producer, team);
    if (!joined || !tables_fit(*joined)) return;
    if (const std::string why = choose_cluster(producer, team, *joined); !why.empty()) {
      for (Cut& c : cuts_) {
        if (stored(producer, c.from) == nullptr) continue;
        c.reason = CutReason::domain_too_large;
        c.detail = why;
      }
      return;
    }
    team = std::move(*joined);
    home_[static_cast<std::size_t>(producer)] = home;
  }

  // The team with the producer in it; nullopt when they have nothing in common.
  std::optional<Team> common(int producer, const Team& team) {
    std::vector<std::optional<IndexVar>> own(team.outer.size());
    std::vector<bool> seen(team.outer.size(), false);
    for (std::size_t m = 0; m < team.members.size(); ++m) {
      for (const Expr& e : region(team.members[m]).exprs) {
        const Root* root = e.kind == Expr::Kind::load ? stored(producer, e.source) : nullptr;
        if (root == nullptr) continue;
        const auto digits = digits_of(root->offset);
        if (!digits) return std::nullopt;
        for (std::size_t p = 0; p < team.outer.size(); ++p) {
          std::optional<IndexVar> mine;
          for (const Digit& d : *digits) {
            const auto& kept = region(producer).kept;
            if (d.var.extent == team.outer[p][m].extent && d.of(e.index).as_var() == team.outer[p][m].id &&
                std::find(kept.begin(), kept.end(), d.var) != kept.end()) {
              mine = d.var;
            }
          }
          own[p] = !seen[p] || (mine && own[p] && *mine == *own[p]) ? mine : std::nullopt;
          seen[p] = true;
        }
      }
    }
    Team joined{{producer}, {}};
    joined.members.insert(joined.members.end(), team.members.begin(), team.members.end());
    for (std::size_t p = 0; p < team.outer.size(); ++p) {
      if (!own[p]) continue;
      std::vector<IndexVar> position = {*own[p]};
      position.insert(position.end(), team.outer[p].begin(), team.outer[p].end());
      if (keeps_lines_whole(joined.members, position)) joined.outer.push_back(std::move(position));
    }
    return joined;
  }

  // Whether what lies side by side in memory stays with one team.
  bool keeps_lines_whole(const std::vector<int>& members, const std::vector<IndexVar>& position) {
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Region& r = region(members[m]);
      const auto narrow = [&](const Index& e, DType t) {
        const std::int64_t c = coefficient(e, position[m].id);
        return c != 0 && c * size_of(t) < kContiguousBytes;
      };
      for (const Expr& e : r.exprs) {
        const auto o = owner_.find(e.source);
        const bool table = o != owner_.end() && member({members, {}}, o->second) < members.size();
        if (e.kind == Expr::Kind::load && e.varies && !table && narrow(e.index, e.stored)) return false;
      }
      for (const Root& root : r.roots) {
        if (root.varies && narrow(root.offset, root.stored)) return false;
      }
    }
    return true;
  }

  // Elements of a root that belong to one team.
  std::int64_t table_elements(int producer, const Root& root, const Team& joined) {
    std::int64_t n = 1;
    const std::vector<Digit> digits = *digits_of(root.offset);
    for (const Digit& d : digits) {
      const bool outer = std::any_of(joined.outer.begin(), joined.outer.end(),
                                     [&](const auto& position) { return position[member(joined, producer)] == d.var; });
      if (!outer) n *= d.var.extent;
    }
    return n;
  }
  static std::size_t member(const Team& team, int i) {
    return static_cast<std::size_t>(std::find(team.members.begin(), team.members.end(), i) - team.members.begin());
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
    std::int64_t again = 0;  // bytes of further reads by other members
  };
  Traffic traffic(const std::vector<int>& members) {
    Traffic t;
    std::set<NodeId> read;
    for (const int m : members) {
      for (const NodeId s : region(m).sources()) {
        const std::int64_t bytes = graph_.type(s).elements() * size_of(graph_.type(s).dtype);
        (read.insert(s).second ? t.once : t.again) += bytes;
      }
      for (const Root& r : region(m).roots) t.once += graph_.type(r.node).elements() * size_of(r.stored);
    }
    return t;
  }

  double seconds(std::int64_t bytes, double cached, double busy) const {
    return (static_cast<double>(bytes) + cached / kCacheSpeed) / (target_.dram_bytes_per_second * std::max(busy, 0.001));
  }

  double seconds_apart(const std::vector<int>& members) {
    double sum = 0;
    for (const int m : members) {
      const Traffic t = traffic({m});
      sum += kLaunchSeconds + seconds(t.once, 0, 1);
    }
    return sum;
  }

  // Teams that run at once.
  double at_once(const Team& team, int cluster) const {
    return std::clamp(target_.multiprocessors * reach(cluster) / cluster, 1.0, static_cast<double>(team.size()));
  }
  // Whether what they work on stays in L2 until the last stage has read it.
  bool cached(const Team& team, int cluster) {
    return at_once(team, cluster) * static_cast<double>(traffic(team.members).once) <=
           kCacheShare * static_cast<double>(target_.l2_bytes * team.size());
  }

  double seconds_together(const Team& team, int cluster) {
    const Traffic t = traffic(team.members);
    const double teams = static_cast<double>(team.size());
    const double waves = std::ceil(teams / at_once(team, cluster));
    const double busy = std::min(1.0, teams / waves * cluster / (kSaturating * target_.multiprocessors));
    return kLaunchSeconds + (cached(team, cluster) ? seconds(t.once, static_cast<double>(t.again), busy)
                                                   : seconds(t.once + t.again, 0, busy));
  }

  // Decides on the number of blocks of a team; the reason when one kernel is not faster.
  std::string choose_cluster(int producer, const Team& team, Team& joined) {
    const double apart = seconds_apart({producer}) +
                         (team.members.size() > 1 ? seconds_together(team, team.cluster) : seconds_apart(team.members));
    double best = 0;
    for (int cluster = 1; cluster <= target_.max_cluster; cluster *= 2) {
      const double s = seconds_together(joined, cluster);
      if (best != 0 && s >= 0.98 * best) continue;
      best = s;
      joined.cluster = cluster;
    }
    joined.cached = cached(joined, joined.cluster);
    if (best < apart) return "";
    const Traffic t = traffic(joined.members);
    return fmt::format("{} domains of {} bytes: {:.1f} us in one kernel, {:.1f} us in several", joined.size(),
                       t.once / std::max<std::int64_t>(1, joined.size()), best * 1e6, apart * 1e6);
  }

  // ---- the result ----------------------------------------------------------------------------------------------------

  Group finish(const Team& team) {
    Group group;
    group.name = region(team.members.back()).name;
    group.cluster = team.cluster;
    group.cached = team.cached;
    if (team.members.size() > 1) {
      for (std::size_t m = 0; m < team.members.size(); ++m) {
        Region& r = region(team.members[m]);
        for (const auto& position : team.outer) {
          r.outer.push_back(position[m]);
          std::erase(r.kept, position[m]);
        }
      }
      for (const int p : team.members) make_tables(p, team, group);
    }
    for (const int m : team.members) group.stages.push_back(std::move(region(m)));
    return group;
  }

  void make_tables(int producer, const Team& team, Group& group) {
    for (const NodeId node : tables_of(producer, team)) {
      const int table = static_cast<int>(group.tables.size());
      const Root root = *stored(producer, node);
      group.tables.push_back({node, root.stored, table_elements(producer, root, team)});
      std::vector<Digit> digits = *digits_of(root.offset);
      std::erase_if(digits, [&](const Digit& d) {
        const auto& outer = region(producer).outer;
        return std::find(outer.begin(), outer.end(), d.var) != outer.end();
      });
      const auto place = [&](const Index& offset) {
        Index at;
        std::int64_t step = 1;
        for (const Digit& d : digits) {
          at = at + d.of(offset) * step;
          step *= d.var.extent;
        }
        return at;
      };
      for (const int m : team.members) {
        for (Expr& e : region(m).exprs) {
          if (e.kind != Expr::Kind::load || e.source != node) continue;
          e.table = table;
          e.index = place(e.index);
        }
      }
      // An output is stored for the user as well.
      std::vector<Root>& roots = region(producer).roots;
      const bool output = std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                                      [&](const Output& o) { return o.node == node; });
      Root inner = root;
      inner.table = table;
      inner.temporary = false;
      inner.offset = place(root.offset);
      for (Root& r : roots) {
        if (r.node == node && r.stored == root.stored && r.table < 0 && (r.temporary || !output)) r = inner;
      }
      if (std::none_of(roots.begin(), roots.end(), [&](const Root& r) { return r.table == table; }))
        roots.push_back(inner);
      std::erase_if(cuts_, [&](const Cut& c) { return c.from == node; });
    }
  }

  std::vector<Region> regions_;
  const ir::Graph& graph_;
  const Target& target_;
  std::vector<Cut>& cuts_;
  bool join_;
  std::vector<Team> teams_;  // by the region that began them
  std::vector<int> home_;    // by region: its team
  std::map<NodeId, int> owner_;
  std::map<int, std::set<int>> consumers_;
};

}  // namespace

std::vector<Group> group(std::vector<Region> regions, const ir::Graph& graph, const Target& target,
                         std::vector<Cut>& cuts, bool join) {
  return Grouper(std::move(regions), graph, target, cuts, join).run();
}

}  // namespace bz::compiler
