#include "compiler/lower/exchange.h"

#include <array>

namespace bz::compiler {

void Exchange::across_threads(ByReduction& states) {
  if (states.empty()) return;
  for (auto& [r, state] : states) {
    states_.at(r);
    state = across_lanes(r, std::array{state}, warps_.in_warp);
  }
  if (warps_.count > 1) {
    const Index& thread = stage_.place.thread_reduced;
    const Parts parts = parts_of(states, "part", warps_.count);
    const Index warp = floordiv(thread, warps_.in_warp);
    b_.when(b_.inside({{mod(thread, warps_.in_warp), 0, 1}}), [&] {
      for (const auto& [r, state] : states) {
        states_.at(r);
        states_.set(parts.arrays.at(r), state, slot_of(parts, warp));
      }
    });
    b_.barrier(kernel::Scope::block);
    combine_parts(states, parts);
  }
  if (stage_.schedule.cluster > 1) across_blocks(states);
}

Exchange::ByReduction Exchange::across_lanes(const std::vector<ByReduction>& states) {
  ByReduction whole;
  for (const auto& [r, first] : states[0]) {
    states_.at(r);
    std::vector<Handles> of_lane;
    for (const ByReduction& s : states) of_lane.push_back(s.at(r));
    whole[r] = across_lanes(r, of_lane, warps_.in_warp);
  }
  return whole;
}

// Over `count` threads of a domain that are in a warp.
Handles Exchange::across_lanes(int r, std::span<const Handles> states, int count) {
  const Reduction& reduction = stage_.reduction(r);
  if (count > 1 && puts_together(reduction, stage_.schedule)) {
    return info(reduction.monoid)
        .together(b_, reduction.dtype, states, [&](ScalarOp op, std::span<const Handle> values) {
          Handle h = values[0];
          for (const Handle v : values.subspan(1)) h = b_.apply(op, std::array{h, v}, b_.dtype(h));
          for (int d = 1; d < count; d *= 2)
            h = b_.apply(op, std::array{h, b_.shuffle(h, d * warps_.stride)}, b_.dtype(h));
          return h;
        });
  }
  Handles state = states[0];
  for (const Handles& s : states.subspan(1)) state = states_.combine(r, state, s);
  for (int d = 1; d < count; d *= 2) state = with_lane(r, state, d * warps_.stride, d);
  return state;
}

// Combines with the state of the lane `mask` threads away; `distance` is that in threads of the domain.
Handles Exchange::with_lane(int r, const Handles& state, int mask, int distance) {
  Handles other;
  for (const Handle h : state) other.push_back(b_.shuffle(h, mask));
  if (info(stage_.reduction(r).monoid).commutative) return states_.combine(r, state, other);
  // Lower thread first in both lanes, so that both get the same bits.
  const Handle upper = b_.inside({{mod(floordiv(stage_.place.thread_reduced, distance), 2), 1, 2}});
  Handles first, second;
  for (std::size_t c = 0; c < state.size(); ++c) {
    const DType t = b_.dtype(state[c]);
    first.push_back(b_.apply(ScalarOp::select, std::array{upper, other[c], state[c]}, t));
    second.push_back(b_.apply(ScalarOp::select, std::array{upper, state[c], other[c]}, t));
  }
  return states_.combine(r, first, second);
}

void Exchange::wait_for_cluster() {
  if (stage_.place.cluster > 1 && !stage_.place.staged && !started_) b_.started();
  started_ = true;
}

// Thread i of a domain sends the state of its block to block i.
void Exchange::across_blocks(ByReduction& states) {
  KernelContext& kernel = stage_.kernel;
  const int cluster = stage_.schedule.cluster;
  const Parts parts = parts_of(states, "block", cluster);
  const Index box = Index(kernel.boxes_used) + mod(round_, parts.places);
  kernel.boxes_used += parts.places;
  // A block that has our message may send the next one where this block's threads still read, unless they all have read.
  if (warps_.count == 1) b_.barrier(kernel::Scope::block);
  wait_for_cluster();
  std::int64_t bytes = 0;
  b_.when(b_.inside({{stage_.place.thread_reduced, 0, cluster}}), [&] {
    const Index to = mod(stage_.place.thread_reduced, cluster);
    for (const auto& [r, state] : states) {
      states_.at(r);
      for (std::size_t c = 0; c < state.size(); ++c) {
        const kernel::ArrayId array = parts.arrays.at(r)[c];
        const kernel::Array& a = kernel.array(array);
        Handle h = state[c];
        if (b_.dtype(h) != a.dtype) h = b_.apply(ScalarOp::cast, std::array{h}, a.dtype);
        b_.send(array, states_.element(slot_of(parts, stage_.share)), h, to, kernel.boxes, box);
        bytes += a.elements / parts.places * size_of(a.dtype);
      }
    }
  });
  b_.receive(kernel.boxes, box, floordiv(round_, parts.places), bytes);
  combine_parts(states, parts);
}

Exchange::Parts Exchange::parts_of(const ByReduction& states, std::string_view name, int count) {
  const Schedule& s = stage_.schedule;
  Parts parts{name, count, alternates(stage_.region, s) ? 2 : 1, {}};
  for (const auto& [r, state] : states) {
    const std::vector<DType> types = states_.dtypes(r);
    for (std::size_t c = 0; c < types.size(); ++c) {
      parts.arrays[r].push_back(b_.array(
          stage_.array_name(name, r, c), name == "block" ? message_dtype(types[c]) : types[c],
          std::int64_t{parts.places} * count * s.threads_kept * states_.width(), kernel::Space::shared));
    }
  }
  return parts;
}

Index Exchange::slot_of(const Parts& parts, const Index& part) const {
  const Schedule& s = stage_.schedule;
  const Index here = s.lanes_reduced ? stage_.place.thread_kept * parts.count + part
                                     : part * s.threads_kept + stage_.place.thread_kept;
  return mod(round_, parts.places) * (std::int64_t{parts.count} * s.threads_kept) + here;
}

void Exchange::combine_parts(ByReduction& states, const Parts& parts) {
  for (auto& [r, state] : states) {
    states_.at(r);
    state = whole(r, parts);
  }
}

Handles Exchange::whole(int r, const Parts& parts) {
  const std::vector<kernel::ArrayId>& arrays = parts.arrays.at(r);
  const std::vector<DType> types = states_.dtypes(r);
  if (warps_.in_warp >= parts.count) {  // one partial result a lane
    const Index part = mod(stage_.place.thread_reduced, parts.count);
    return across_lanes(r, std::array{states_.get(types, arrays, slot_of(parts, part))}, parts.count);
  }
  const std::vector<kernel::ArrayId> sum =
      states_.arrays(r, fmt::format("{}_whole", parts.name), types, stage_.reduction(r).identity());
  const IndexVar p = b_.var("p", parts.count);
  b_.loop(p, kernel::Level::serial, [&] {
    const Handles part = states_.get(types, arrays, slot_of(parts, Index::var(p)));
    states_.set(sum, states_.combine(r, states_.get(types, sum), part));
  });
  return states_.get(types, sum);
}

}  // namespace bz::compiler
