#include "compiler/schedule/spill.h"

#include <functional>
#include <set>

#include "compiler/fuse/cost.h"

namespace bz::compiler {
namespace {

// A load from shared memory, with its share of the store, takes about as long as so many instructions.
constexpr int kRecompute = 4;

class Spilling {
 public:
  explicit Spilling(const Region& region) : region_(region) {}

  // Whether it takes more instructions to compute it from what is held than to hold it.
  bool is_worth_holding(ExprId id, const std::map<ExprId, int>& held) const {
    std::set<ExprId> seen;
    int instructions = 0;
    walk(id, [&](ExprId e) {
      if (held.contains(e) || !seen.insert(e).second) return false;
      instructions += element_instructions(region_, at(e));
      return instructions <= kRecompute;
    });
    return instructions > kRecompute;
  }

  // Visits what varies, from an expression down, as long as `visit` says so.
  void walk(ExprId id, const std::function<bool(ExprId)>& visit) const {
    if (!at(id).varies || !visit(id)) return;
    for (const ExprId o : at(id).operands) walk(o, visit);
  }

  // What a phase computes, and takes from what is held.
  std::set<ExprId> reached(int phase, const std::map<ExprId, int>& held) const {
    std::set<ExprId> all;
    for (const ExprId t : targets_of(region_, phase)) {
      walk(t, [&](ExprId e) { return all.insert(e).second && !held.contains(e); });
    }
    return all;
  }

  const Expr& at(ExprId id) const { return region_.exprs[static_cast<std::size_t>(id)]; }

 private:
  const Region& region_;
};

enum class Hold : std::uint8_t { loads, computed };  // also what phases compute, where that is worth it

Spill spill_with(const Region& region, const Schedule& s, Hold hold) {
  const Spilling spilling(region);
  Spill out;
  std::map<ExprId, int> held;
  for (const ExprId id : loads_ahead(region, s)) {
    held[id] = static_cast<int>(out.arrays.size());
    out.arrays.push_back({kept_dtype(region, id)});
  }
  out.held.push_back(held);
  for (int phase = 0; phase + 1 < region.phases(); ++phase) {
    const std::set<ExprId> computed = spilling.reached(phase, held);
    std::set<ExprId> worth, needed, seen;
    for (int later = phase + 1; later < region.phases(); ++later) {
      for (const ExprId t : targets_of(region, later)) {
        spilling.walk(t, [&](ExprId e) {
          if (held.contains(e)) {
            needed.insert(e);
            return false;
          }
          if (hold == Hold::loads || !computed.contains(e) || !spilling.is_worth_holding(e, held))
            return seen.insert(e).second;
          worth.insert(e);
          return false;
        });
      }
    }
    std::map<ExprId, int> next;
    std::set<int> taken;
    for (const ExprId e : needed) taken.insert(next[e] = held.at(e));
    for (const ExprId e : worth) {
      const DType t = spilling.at(e).dtype;
      int array = 0;
      while (array < static_cast<int>(out.arrays.size()) &&
             (taken.contains(array) || out.arrays[static_cast<std::size_t>(array)].dtype != t))
        ++array;
      if (array == static_cast<int>(out.arrays.size())) out.arrays.push_back({t});
      taken.insert(next[e] = array);
    }
    held = std::move(next);
    out.held.push_back(held);
  }
  return out;
}

// Puts what is loaded in the place of wider values that are held when it no longer is. Blocks that stay copy what they load next to places that
// nobody else has; domains that share a block would lie in each other's columns.
void share_places(Spill& spill, const Schedule& s) {
  if (s.prefetch > 0 || s.threads_kept > 1) return;
  const auto is_held = [&](std::size_t phase, int array) {
    const auto& held = spill.held[phase];
    return std::any_of(held.begin(), held.end(), [&](const auto& one) { return one.second == array; });
  };
  const auto count = static_cast<int>(spill.arrays.size());
  std::vector<bool> shared(spill.arrays.size(), false);
  for (int a = 0; a < count; ++a) {
    Spill::Array& narrow = spill.arrays[static_cast<std::size_t>(a)];
    std::size_t end = 0;
    while (end < spill.held.size() && is_held(end, a)) ++end;
    bool again = false;
    for (std::size_t phase = end; phase < spill.held.size(); ++phase) again = again || is_held(phase, a);
    if (end == 0 || again || size_of(narrow.dtype) * s.vector != kPieceBytes) continue;
    for (int b = 0; b < count && narrow.within < 0; ++b) {
      bool before = shared[static_cast<std::size_t>(b)];
      for (std::size_t phase = 0; phase < end; ++phase) before = before || is_held(phase, b);
      if (before || size_of(spill.arrays[static_cast<std::size_t>(b)].dtype) <= size_of(narrow.dtype))
        continue;
      narrow.within = b;
      shared[static_cast<std::size_t>(b)] = true;
    }
  }
}

std::int64_t bytes_of(const Spill& spill, const Schedule& s) {
  const std::int64_t elements = static_cast<std::int64_t>(s.spill) * s.vector * threads_of(s);
  std::int64_t bytes = 0;
  for (const Spill::Array& a : spill.arrays)
    bytes += a.within < 0 ? (elements * size_of(a.dtype) + 15) / 16 * 16 : 0;
  return bytes;
}

}  // namespace

// What is held must not leave room for far fewer blocks than registers do: exponentials of 262144 bf16 in shared memory beside
// their elements took softmax from 85 to 78 % of the copy speed (H200, 2026-11).
Spill spill_of(const Region& region, const Schedule& s) {
  constexpr double kSharedOfRegister = 4.5;  // bytes; a multiprocessor has 3.5 for each of its registers
  Spill spill = spill_with(region, s, Hold::computed);
  share_places(spill, s);
  const double room = kSharedOfRegister * static_cast<double>(registers_of(region, s)) * threads_of(s);
  return static_cast<double>(bytes_of(spill, s)) <= room ? spill : spill_with(region, s, Hold::loads);
}

Spill hold_in_place(const Region& region, const Schedule& s) {
  Spill spill = spill_with(region, s, Hold::computed);
  const bool in_place = spill.arrays.size() == loads_ahead(region, s).size();
  return in_place ? spill : spill_with(region, s, Hold::loads);
}

std::int64_t spill_bytes(const Region& region, const Schedule& s) { return bytes_of(spill_of(region, s), s); }

}  // namespace bz::compiler
