#include "compiler/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include "compiler/lower/kernel_builder.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

using kernel::kNone;
using Handle = ScalarBuilder::Handle;

class Lowering {
 public:
  Lowering(const Region& region, const ir::Graph& graph, const Schedule& schedule, int alignment)
      : region_(region),
        graph_(graph),
        s_(schedule),
        alignment_(alignment),
        extent_(extent_of(region, schedule)),
        b_(out_.kernel, schedule.lanes_reduced) {}

  Lowered run() {
    kernel::Kernel& k = out_.kernel;
    k.name = region_.name;
    k.vars = {"lane"};
    k.lanes = s_.vector;
    k.grid = extent_.blocks;
    k.block = s_.threads_kept * s_.threads_reduced;
    for (const Expr& e : region_.exprs) {
      if (e.kind != Expr::Kind::load || source_buffer_.contains(e.source)) continue;
      source_buffer_[e.source] = add_buffer({e.source, e.temporary, false}, e.stored);
    }
    for (const Root& r : region_.roots)
      root_buffers_.push_back(add_buffer({r.node, r.temporary, true}, r.stored));

    const IndexVar block = b_.var("b", extent_.blocks);
    const IndexVar kept = b_.var("tk", s_.threads_kept), reduced = b_.var("tr", s_.threads_reduced);
    thread_kept_ = Index::var(kept);
    thread_reduced_ = Index::var(reduced);
    if (s_.vector > 1) lane_ = Index::var({kernel::kLaneVar, s_.vector});
    place_kept(Index::var(block));
    const auto body = [&] { this->body(); };
    b_.loop(block, kernel::Level::grid, [&] {
      // The threads that run along contiguous memory are neighbours: the inner loop.
      const auto& [outer, inner] = s_.lanes_reduced ? std::pair(kept, reduced) : std::pair(reduced, kept);
      b_.loop(outer, kernel::Level::thread, [&] { b_.loop(inner, kernel::Level::thread, body); });
    });
    return std::move(out_);
  }

 private:
  using Memo = std::map<ExprId, Handle>;
  // One step of a thread through its domain: where the reduced variables are, and what is known there.
  struct Step {
    std::vector<std::pair<std::int32_t, Index>> reduced;  // region variable -> kernel index
    Index slot;                                           // of the step's vector among those kept
    std::vector<IndexBound> bounds;                       // of the domain, where they may fail
    Memo memo;
    std::map<std::vector<IndexBound>, Handle> masks;
  };

  const Expr& expr(ExprId id) const { return region_.exprs[static_cast<std::size_t>(id)]; }

  kernel::BufferId add_buffer(Binding binding, DType stored) {
    constexpr int kWidestAccess = 16;
    const NodeId n = binding.node;
    std::string name = graph_.node(n).name.empty() ? fmt::format("n{}", n) : graph_.node(n).name;
    std::replace(name.begin(), name.end(), '.', '_');
    out_.kernel.buffers.push_back({std::move(name), stored, graph_.type(n).elements(), binding.written,
                                   binding.temporary ? kWidestAccess : alignment_});
    out_.bindings.push_back(binding);
    return static_cast<kernel::BufferId>(out_.kernel.buffers.size()) - 1;
  }

  // ---- where a thread is ------------------------------------------------------------------------------------------

  static void spread(const std::vector<IndexVar>& vars, Index flat,
                     std::vector<std::pair<std::int32_t, Index>>& out) {
    for (std::size_t i = vars.size(); i-- > 0;) {
      out.emplace_back(vars[i].id, i == 0 ? flat : mod(flat, vars[i].extent));
      flat = floordiv(flat, vars[i].extent);
    }
  }

  void place_kept(const Index& block) {
    Index flat = block * s_.threads_kept + thread_kept_;
    if (!s_.lanes_reduced) flat = flat * s_.vector + lane_;
    const IndexBound bound{flat, 0, region_.domains()};
    // Tail of the grid: threads without a domain of their own still take part in shuffles and barriers.
    if (region_.domains() % extent_.rows_per_block != 0) row_bounds_ = {bound};
    spread(region_.kept, flat, kept_);
  }

  Index at(const Index& e, const Step* step) const {
    return e.substitute([&](std::int32_t id) -> const Index* {
      for (const auto& [var, index] : kept_) {
        if (var == id) return &index;
      }
      if (step != nullptr) {
        for (const auto& [var, index] : step->reduced) {
          if (var == id) return &index;
        }
      }
      throw InternalError(fmt::format("region {}: variable {} has no place", region_.name, id));
    });
  }

  // Step `u` of group `group`. `masked`: the domain may end inside.
  Step step(const Index& group, int u, bool masked) {
    Step s;
    const Index chunk = (group * s_.unroll + Index(u)) * s_.threads_reduced + thread_reduced_;
    Index flat = chunk;
    if (s_.lanes_reduced) {
      flat = chunk * s_.vector + lane_;
      if (extent_.shifted) flat = flat - at(aligned_start(region_, s_), nullptr);
    }
    if (masked) s.bounds = {{flat, 0, region_.domain_size()}};
    spread(region_.reduced, flat, s.reduced);
    // Neighbouring threads have neighbouring vectors in shared memory.
    const Index vector = s_.lanes_reduced
                             ? thread_kept_ * (extent_.groups * s_.unroll * s_.threads_reduced) + chunk
                             : chunk * s_.threads_kept + thread_kept_;
    s.slot = vector * s_.vector + lane_;
    return s;
  }

  // Runs `body(steps)` for all of the thread's steps: all at once where the domain stays in registers, with all that
  // earlier phases know, else `unroll` at a time in a loop. Only steps in which the domain may end are masked.
  template <class F>
  void for_each_group(F&& body) {
    if (s_.keep == Keep::registers) {
      const bool first = resident_.empty();
      for (std::int64_t i = 0; first && i < extent_.groups * s_.unroll; ++i) {
        const std::int64_t vectors = extent_.per_group / s_.unroll;  // elements of a step
        const bool inside = (i > 0 || !extent_.shifted) && (i + 1) * vectors <= region_.domain_size();
        resident_.push_back(step(Index(i / s_.unroll), static_cast<int>(i % s_.unroll), !inside));
      }
      return body(resident_);
    }
    const auto group = [&](const Index& g, bool masked) {
      std::vector<Step> steps;
      for (int u = 0; u < s_.unroll; ++u) {
        steps.push_back(step(g, u, masked));
      }
      body(steps);
    };
    const auto loop = [&](std::int64_t first, std::int64_t end, bool masked) {
      if (first >= end) return;
      if (first + 1 == end) return group(Index(first), masked);
      const IndexVar j = b_.var("j", end - first);
      b_.loop(j, kernel::Level::serial, [&] { group(Index::var(j) + Index(first), masked); });
    };
    loop(0, std::min(extent_.first_full, extent_.groups), true);
    loop(extent_.first_full, extent_.end_full, false);
    loop(extent_.end_full, extent_.groups, true);
  }

  // ---- expressions ------------------------------------------------------------------------------------------------

  Handle mask(std::vector<IndexBound> bounds, Step* step) {
    if (step == nullptr) return b_.inside(std::move(bounds));
    std::erase_if(bounds, [](const IndexBound& b) { return b.always(); });
    std::sort(bounds.begin(), bounds.end());
    const auto [at, fresh] = step->masks.try_emplace(bounds, kNone);
    if (fresh) at->second = b_.inside(bounds);
    return at->second;
  }

  std::vector<IndexBound> placed(const std::vector<IndexBound>& bounds, const Step* step) const {
    std::vector<IndexBound> out;
    for (const IndexBound& b : bounds) out.push_back({at(b.e, step), b.lo, b.hi});
    return out;
  }

  Handle evaluate(const Expr& e, Step* step) {
    b_.at(e.node);
    const auto operand = [&](ExprId id) { return expr(id).varies ? step->memo.at(id) : row_memo_.at(id); };
    switch (e.kind) {
      case Expr::Kind::constant: return b_.constant(e.value);
      case Expr::Kind::index: {
        const Handle i = b_.index(at(e.index, step));
        return e.dtype == DType::i64 ? i : b_.apply(ScalarOp::cast, std::array{i}, e.dtype);
      }
      case Expr::Kind::load: {
        const Index offset = at(e.index, step);
        std::vector<IndexBound> bounds = placed(e.where, step);
        bounds.insert(bounds.end(), row_bounds_.begin(), row_bounds_.end());
        if (step != nullptr) bounds.insert(bounds.end(), step->bounds.begin(), step->bounds.end());
        // A bound that the address does not depend on need not guard it.
        if (offset.is_constant() && e.where.empty()) bounds.clear();
        return b_.load(source_buffer_.at(e.source), offset, mask(std::move(bounds), step), e.dtype);
      }
      case Expr::Kind::map: {
        std::vector<Handle> args;
        for (const ExprId o : e.operands) args.push_back(operand(o));
        const bool rounds = e.op == ScalarOp::cast && e.cast != e.dtype;
        const Handle r = b_.apply(e.op, args, e.op == ScalarOp::cast ? e.cast : e.dtype);
        return rounds ? b_.apply(ScalarOp::cast, std::array{r}, e.dtype) : r;
      }
      case Expr::Kind::pad: {
        const Handle inside = mask(placed(e.where, step), step);
        if (inside == kNone) return operand(e.operands[0]);
        return b_.apply(ScalarOp::select, std::array{inside, operand(e.operands[0]), b_.constant(e.value)},
                        e.dtype);
      }
      case Expr::Kind::reduce: return results_.at(e.reduction)[static_cast<std::size_t>(e.component)];
    }
    throw InternalError("an expression of no kind");
  }

  // What has to be computed for `targets`: inside the domain, and once for it. Kept values end the search.
  struct Needs {
    std::vector<ExprId> varying, row;
  };
  Needs needs(const std::vector<ExprId>& targets) const {
    std::vector<bool> wanted(region_.exprs.size(), false);
    for (const ExprId t : targets) wanted[static_cast<std::size_t>(t)] = true;
    Needs n;
    for (ExprId id = static_cast<ExprId>(region_.exprs.size()); id-- > 0;) {
      if (!wanted[static_cast<std::size_t>(id)] || (!expr(id).varies && row_memo_.contains(id))) continue;
      if (expr(id).varies && !resident_.empty() && resident_[0].memo.contains(id)) continue;
      (expr(id).varies ? n.varying : n.row).push_back(id);
      if (keep_.contains(id)) continue;
      for (const ExprId o : expr(id).operands) wanted[static_cast<std::size_t>(o)] = true;
    }
    std::reverse(n.varying.begin(), n.varying.end());
    std::reverse(n.row.begin(), n.row.end());
    return n;
  }

  void compute_rows(const Needs& n) {
    for (const ExprId id : n.row) row_memo_[id] = evaluate(expr(id), nullptr);
  }

  void compute(const Needs& n, std::span<Step> steps) {
    // Loads of all steps first: as many as possible in flight before the first use.
    for (const bool loads : {true, false}) {
      for (Step& s : steps) {
        for (const ExprId id : n.varying) {
          if ((expr(id).kind == Expr::Kind::load || keep_.contains(id)) != loads) continue;
          const auto kept = keep_.find(id);
          b_.at(expr(id).node);
          s.memo[id] =
              kept != keep_.end() ? b_.get(kept->second, s.slot, expr(id).dtype) : evaluate(expr(id), &s);
        }
      }
    }
  }

  // ---- phases --------------------------------------------------------------------------------------------------------

  void body() {
    if (s_.keep == Keep::shared) fill();
    for (int phase = 0; phase < region_.phases(); ++phase) this->phase(phase);
    store_rows();
  }

  // Brings the domain to shared memory.
  void fill() {
    b_.comment("keep the domain");
    const std::vector<ExprId> values = kept_values(region_);
    const Needs n = needs(values);
    compute_rows(n);
    const std::int64_t slots = extent_.groups * s_.unroll * s_.vector * out_.kernel.block;
    std::map<ExprId, kernel::ArrayId> arrays;
    for (const ExprId id : values) {
      arrays[id] = b_.array(fmt::format("keep{}", id), kept_dtype(region_, id), slots, kernel::Space::shared);
    }
    for_each_group([&](std::vector<Step>& steps) {
      compute(n, steps);
      for (Step& s : steps) {
        for (const ExprId id : values) {
          b_.at(expr(id).node);
          b_.set(arrays[id], s.slot, b_.widen(s.memo.at(id), s_.vector));
        }
      }
    });
    keep_ = std::move(arrays);
  }

  void phase(int p) {
    std::vector<int> reductions, stores;
    std::vector<ExprId> targets;
    for (std::size_t i = 0; i < region_.reductions.size(); ++i) {
      if (region_.reductions[i].phase != p) continue;
      reductions.push_back(static_cast<int>(i));
      targets.insert(targets.end(), region_.reductions[i].operands.begin(),
                     region_.reductions[i].operands.end());
    }
    for (std::size_t i = 0; i < region_.roots.size(); ++i) {
      const ExprId e = region_.roots[i].expr;
      if (!region_.roots[i].varies || region_.phase_of(region_.roots[i]) != p) continue;
      stores.push_back(static_cast<int>(i));
      targets.push_back(e);
    }
    if (targets.empty()) return;
    std::string title = fmt::format("phase {}:", p);
    for (const int r : reductions) title += fmt::format(" {}", info(reduction(r).monoid).text);
    for (const int s : stores)
      title += fmt::format(
          " store {}",
          out_.kernel.buffers[static_cast<std::size_t>(root_buffers_[static_cast<std::size_t>(s)])].name);
    b_.comment(std::move(title));

    const Needs n = needs(targets);
    compute_rows(n);
    const bool once = extent_.groups == 1 || s_.keep == Keep::registers;
    std::map<int, std::vector<kernel::ArrayId>> partial;
    if (!once) {
      for (const int r : reductions) partial[r] = accumulators(r, "acc");
    }
    for_each_group([&](std::vector<Step>& steps) {
      // The first phase brings the domain in, with all its loads in flight. What later ones load beside it is used at once
      // and must not fill the registers.
      const std::span<Step> all(steps);
      const std::size_t chunk = p == 0 ? all.size() : static_cast<std::size_t>(s_.unroll);
      for (std::size_t i = 0; i < all.size(); i += chunk) {
        const std::span<Step> part = all.subspan(i, std::min(chunk, all.size() - i));
        compute(n, part);
        for (const int s : stores) store(s, part);
      }
      for (const int r : reductions) {
        const Handles state = lift_in_chunks(r, steps);
        if (once) {
          results_[r] = state;
        } else {
          set_state(partial[r], combine(r, get_state(r, partial[r], Index(0)), state), Index(0));
        }
      }
    });
    for (const int r : reductions) {
      if (!once) results_[r] = get_state(r, partial[r], Index(0));
      results_[r] = across_threads(r, results_[r]);
    }
  }

  const Reduction& reduction(int r) const { return region_.reductions[static_cast<std::size_t>(r)]; }
  // The first of the nodes that are components of the reduction.
  NodeId node_of(int r) const {
    const auto e = std::find_if(region_.exprs.begin(), region_.exprs.end(),
                                [&](const Expr& e) { return e.kind == Expr::Kind::reduce && e.reduction == r; });
    return e == region_.exprs.end() ? kNoNode : e->node;
  }

  void store(int i, std::span<Step> steps) {
    const Root& root = region_.roots[static_cast<std::size_t>(i)];
    b_.at(root.node);
    for (Step& s : steps) {
      std::vector<IndexBound> bounds = row_bounds_;
      bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
      b_.store(root_buffers_[static_cast<std::size_t>(i)], at(root.offset, &s),
               expr(root.expr).varies ? s.memo.at(root.expr) : row_memo_.at(root.expr),
               mask(std::move(bounds), &s));
    }
  }

  // What has one value a domain is stored by one of its threads.
  void store_rows() {
    std::vector<ExprId> targets;
    for (const Root& r : region_.roots) {
      if (!r.varies) targets.push_back(r.expr);
    }
    if (targets.empty()) return;
    compute_rows(needs(targets));
    b_.when(b_.inside({{thread_reduced_, 0, 1}}), [&] {
      const Handle valid = b_.inside(row_bounds_);
      for (std::size_t i = 0; i < region_.roots.size(); ++i) {
        const Root& r = region_.roots[i];
        b_.at(r.node);
        if (!r.varies) b_.store(root_buffers_[i], at(r.offset, nullptr), row_memo_.at(r.expr), valid);
      }
    });
  }

  // ---- reductions ----------------------------------------------------------------------------------------------------

  int state_width() const { return s_.lanes_reduced ? 1 : s_.vector; }
  std::vector<DType> state_dtypes(int r) const {
    const Reduction& red = reduction(r);
    return info(red.monoid).component_dtypes(red.dtype);
  }

  Handles combine(int r, const Handles& a, const Handles& b) {
    return info(reduction(r).monoid).combine(b_, reduction(r).dtype, a, b);
  }

  Handles lift(const Reduction& r, std::span<Step> steps) {
    std::vector<Handles> chunk;
    Handles valid;
    for (Step& s : steps) {
      Handles entry;
      for (const ExprId o : r.operands)
        entry.push_back(b_.widen(expr(o).varies ? s.memo.at(o) : row_memo_.at(o), s_.vector));
      chunk.push_back(std::move(entry));
      std::vector<IndexBound> bounds = placed(r.where, &s);
      bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
      valid.push_back(mask(std::move(bounds), &s));
    }
    Handles state = r.merge ? merge(r, chunk, valid) : info(r.monoid).lift(b_, r.dtype, chunk, valid);
    for (Handle& h : state) h = b_.widen(h, state_width());
    return state;
  }

  // All steps at once, or `unroll` at a time where lifting holds values of its own for every element.
  Handles lift_in_chunks(int r, std::span<Step> all) {
    b_.at(node_of(r));
    const std::size_t chunk =
        info(reduction(r).monoid).lift_holds_elements ? static_cast<std::size_t>(s_.unroll) : all.size();
    Handles state;
    for (std::size_t i = 0; i < all.size(); i += chunk) {
      const Handles part = lift(reduction(r), all.subspan(i, std::min(chunk, all.size() - i)));
      state = i == 0 ? part : combine(r, state, part);
    }
    return state;
  }

  // Elements that are states themselves.
  Handles merge(const Reduction& r, const std::vector<Handles>& chunk, const Handles& valid) {
    const MonoidInfo& m = info(r.monoid);
    const std::vector<Scalar> none = m.identity(r.dtype);
    std::vector<Handles> states;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      std::vector<Handles> lanes;  // by component
      for (std::size_t c = 0; c < chunk[i].size(); ++c) {
        Handle h = chunk[i][c];
        if (valid[i] != kNone)
          h = b_.apply(ScalarOp::select, std::array{valid[i], h, b_.constant(none[c])}, b_.dtype(h));
        lanes.push_back(b_.elements(h));
      }
      for (std::size_t l = 0; l < lanes[0].size(); ++l) {
        Handles state;
        for (const Handles& component : lanes) state.push_back(component[l]);
        states.push_back(std::move(state));
      }
    }
    Handles all = states[0];
    for (std::size_t i = 1; i < states.size(); ++i) all = m.combine(b_, r.dtype, all, states[i]);
    return all;
  }

  std::vector<kernel::ArrayId> accumulators(int r, std::string_view name) {
    b_.at(node_of(r));
    const std::vector<Scalar> none = info(reduction(r).monoid).identity(reduction(r).dtype);
    const std::vector<DType> types = state_dtypes(r);
    std::vector<kernel::ArrayId> arrays;
    Handles start;
    for (std::size_t c = 0; c < types.size(); ++c) {
      arrays.push_back(
          b_.array(fmt::format("{}{}_{}", name, r, c), types[c], state_width(), kernel::Space::registers));
      start.push_back(b_.widen(b_.constant(none[c]), state_width()));
    }
    set_state(arrays, start, Index(0));
    return arrays;
  }

  Index state_lane() const { return s_.lanes_reduced ? Index(0) : lane_; }
  Handles get_state(int r, const std::vector<kernel::ArrayId>& arrays, const Index& at) {
    const std::vector<DType> types = state_dtypes(r);
    Handles state;
    for (std::size_t c = 0; c < arrays.size(); ++c)
      state.push_back(b_.get(arrays[c], at * state_width() + state_lane(), types[c]));
    return state;
  }
  void set_state(const std::vector<kernel::ArrayId>& arrays, const Handles& state, const Index& at) {
    for (std::size_t c = 0; c < arrays.size(); ++c)
      b_.set(arrays[c], at * state_width() + state_lane(), state[c]);
  }

  // Combines with the state of the lane `mask` threads away; `distance` is that in threads of the domain.
  Handles exchange(int r, const Handles& state, int mask, int distance) {
    Handles other;
    for (const Handle h : state) other.push_back(b_.shuffle(h, mask));
    if (info(reduction(r).monoid).commutative) return combine(r, state, other);
    // Lower thread first in both lanes, so that both get the same bits.
    const Handle upper = b_.inside({{mod(floordiv(thread_reduced_, distance), 2), 1, 2}});
    Handles first, second;
    for (std::size_t c = 0; c < state.size(); ++c) {
      const DType t = b_.dtype(state[c]);
      first.push_back(b_.apply(ScalarOp::select, std::array{upper, other[c], state[c]}, t));
      second.push_back(b_.apply(ScalarOp::select, std::array{upper, state[c], other[c]}, t));
    }
    return combine(r, first, second);
  }

  // Over the lanes of a warp by shuffles, over the warps of the block through shared memory. Every thread of the domain
  // ends with the whole.
  Handles across_threads(int r, Handles state) {
    b_.at(node_of(r));
    if (s_.threads_reduced == 1) return state;
    const auto [stride, in_warp, warps] = warps_of(s_);
    for (int d = 1; d < in_warp; d *= 2) state = exchange(r, state, d * stride, d);
    if (warps == 1) return state;

    const std::vector<DType> types = state_dtypes(r);
    const Index row = thread_kept_;
    const auto slot = [&, count = warps](const Index& warp) {
      return s_.lanes_reduced ? row * count + warp : warp * s_.threads_kept + row;
    };
    std::vector<kernel::ArrayId> arrays;
    for (std::size_t c = 0; c < types.size(); ++c) {
      arrays.push_back(b_.array(fmt::format("part{}_{}", r, c), types[c],
                                static_cast<std::int64_t>(warps) * s_.threads_kept * state_width(),
                                kernel::Space::shared));
    }
    const Index warp = floordiv(thread_reduced_, in_warp);
    b_.when(b_.inside({{mod(thread_reduced_, in_warp), 0, 1}}),
            [&] { set_state(arrays, state, slot(warp)); });
    b_.barrier();
    if (in_warp >= warps) {  // one partial result a lane
      state = get_state(r, arrays, slot(mod(thread_reduced_, warps)));
      for (int d = 1; d < warps; d *= 2) state = exchange(r, state, d * stride, d);
      return state;
    }
    const std::vector<kernel::ArrayId> sum = accumulators(r, "whole");
    const IndexVar w = b_.var("w", warps);
    b_.loop(w, kernel::Level::serial, [&] {
      set_state(sum, combine(r, get_state(r, sum, Index(0)), get_state(r, arrays, slot(Index::var(w)))),
                Index(0));
    });
    return get_state(r, sum, Index(0));
  }

  const Region& region_;
  const ir::Graph& graph_;
  Schedule s_;
  int alignment_;
  Extent extent_;
  Lowered out_;
  KernelBuilder b_;
  std::map<NodeId, kernel::BufferId> source_buffer_;
  std::vector<kernel::BufferId> root_buffers_;
  Index thread_kept_, thread_reduced_, lane_;
  std::vector<std::pair<std::int32_t, Index>> kept_;
  std::vector<IndexBound> row_bounds_;
  Memo row_memo_;
  std::map<int, Handles> results_;
  std::map<ExprId, kernel::ArrayId> keep_;  // in shared memory
  std::vector<Step> resident_;              // all steps of the thread, where the domain stays in registers
};

}  // namespace

Lowered lower(const Region& region, const ir::Graph& graph, const Schedule& schedule, int alignment) {
  return Lowering(region, graph, schedule, alignment).run();
}

}  // namespace bz::compiler
