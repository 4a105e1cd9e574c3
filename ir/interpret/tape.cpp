#include "ir/interpret/tape.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/scalar_math.h"

namespace bz::interpret_detail {
namespace {

template <class T>
void apply_select(std::span<const Array> args, T* out, std::int64_t count) {
  const std::int64_t* c = args[0].i();
  const T* a = static_cast<const T*>(args[1].data);
  const T* b = static_cast<const T*>(args[2].data);
  for (std::int64_t k = 0; k < count; ++k) out[k] = c[k] != 0 ? a[k] : b[k];
}

void apply_cast(const Array& x, const Array& out, std::int64_t count) {
  if (is_float(x.dtype) && out.dtype == DType::f32) {
    for (std::int64_t k = 0; k < count; ++k) out.f()[k] = static_cast<double>(static_cast<float>(x.f()[k]));
  } else if (x.dtype == DType::boolean && is_float(out.dtype)) {
    for (std::int64_t k = 0; k < count; ++k) out.f()[k] = static_cast<double>(x.i()[k]);
  } else if (is_float(x.dtype) && is_float(out.dtype)) {
    for (std::int64_t k = 0; k < count; ++k) out.f()[k] = round_to(out.dtype, x.f()[k]);
  } else if (is_float(x.dtype)) {
    for (std::int64_t k = 0; k < count; ++k) out.i()[k] = Scalar::of(out.dtype, x.f()[k]).i;
  } else if (is_float(out.dtype)) {
    for (std::int64_t k = 0; k < count; ++k) out.f()[k] = Scalar::of_int(out.dtype, x.i()[k]).f;
  } else {
    for (std::int64_t k = 0; k < count; ++k) out.i()[k] = wrap_to(out.dtype, x.i()[k]);
  }
}

// Integer results of type i32 are wrapped; those of i64 and of logical ops on bool cannot leave their range.
template <class Fn>
void apply_integer(const std::int64_t* a, const std::int64_t* b, const std::int64_t* c, const Array& out,
                   std::int64_t count, Fn f) {
  std::int64_t* r = out.i();
  if (out.dtype == DType::i32) {
    for (std::int64_t k = 0; k < count; ++k) r[k] = static_cast<std::int32_t>(f(a[k], b[k], c[k]));
  } else {
    for (std::int64_t k = 0; k < count; ++k) r[k] = f(a[k], b[k], c[k]);
  }
}

}  // namespace

void apply(ScalarOp op, std::span<const Array> args, const Array& out, std::int64_t count) {
  // Ops look at as many arguments as they have: the others may be any valid array.
  const Array& x = args[0];
  const Array& y = args.size() > 1 ? args[1] : x;
  const Array& z = args.size() > 2 ? args[2] : x;
  const bool floating = is_float(x.dtype);
  if (op == ScalarOp::cast) return apply_cast(x, out, count);
  if (op == ScalarOp::select) {
    return is_float(out.dtype) ? apply_select(args, out.f(), count) : apply_select(args, out.i(), count);
  }
  if (scalar_math::is_classification(op)) {
    return scalar_math::visit_classification(op, [&](auto f) {
      for (std::int64_t k = 0; k < count; ++k) out.i()[k] = f(x.f()[k]) ? 1 : 0;
    });
  }
  if (info(op).result == Result::boolean && floating) {
    return scalar_math::visit_comparison<double>(op, [&](auto f) {
      for (std::int64_t k = 0; k < count; ++k) out.i()[k] = f(x.f()[k], y.f()[k]) ? 1 : 0;
    });
  }
  if (info(op).result == Result::boolean) {
    return scalar_math::visit_comparison<std::int64_t>(op, [&](auto f) {
      for (std::int64_t k = 0; k < count; ++k) out.i()[k] = f(x.i()[k], y.i()[k]) ? 1 : 0;
    });
  }
  if (floating) {
    return scalar_math::visit_float_op(op, [&](auto f) {
      const double *a = x.f(), *b = y.f(), *c = z.f();
      double* r = out.f();
      for (std::int64_t k = 0; k < count; ++k) r[k] = f(a[k], b[k], c[k]);
    });
  }
  if (op == ScalarOp::logical_not && out.dtype == DType::boolean) {
    for (std::int64_t k = 0; k < count; ++k) out.i()[k] = x.i()[k] == 0 ? 1 : 0;
    return;
  }
  scalar_math::visit_integer_op(op, [&](auto f) { apply_integer(x.i(), y.i(), z.i(), out, count, f); });
}

Array Arena::take(DType dtype) {
  if (used_ == blocks_.size()) blocks_.push_back(std::make_unique<std::byte[]>(8 * kTile));
  return {dtype, blocks_[used_++].get()};
}

Tape::Tape(const ir::Graph& g, std::span<const NodeId> results, const std::function<bool(NodeId)>& inside,
           const std::function<const Source&(NodeId)>& source, const Axes& order) {
  // The group, operands first: ids are in such an order.
  std::vector<NodeId> group, pending(results.begin(), results.end());
  std::unordered_map<NodeId, int> value_of;  // -1: known but not computed yet
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (!inside(id) || !value_of.emplace(id, -1).second) continue;
    group.push_back(id);
    for (NodeId x : g.node(id).operands) pending.push_back(x);
  }
  std::sort(group.begin(), group.end());

  int values = 0;
  const auto value = [&](NodeId id) {
    const auto known = value_of.find(id);
    if (known != value_of.end()) return known->second;
    loaders_.emplace_back(source(id), order);
    steps_.push_back({static_cast<int>(loaders_.size()) - 1, ScalarOp::neg, g.type(id).dtype, {}, values});
    value_of[id] = values;
    return values++;
  };
  for (NodeId id : group) {
    const Node& node = g.node(id);
    std::vector<int> args;
    for (NodeId x : node.operands) args.push_back(value(x));
    steps_.push_back({-1, node.as<MapAttrs>()->op, node.type.dtype, std::move(args), values});
    value_of[id] = values++;
  }
  for (NodeId id : results) results_.push_back(value(id));

  const bool all_present =
      std::all_of(loaders_.begin(), loaders_.end(), [](const Loader& l) { return l.all_present(); });
  if (!all_present) {
    present_ = arena_.take(DType::boolean);
    loaded_present_ = arena_.take(DType::boolean);
  }
  assign_slots(values);
}

// Values whose last use is past give their array to later ones, so that a long chain stays in the cache.
void Tape::assign_slots(int values) {
  std::vector<std::size_t> last_use(static_cast<std::size_t>(values), 0);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    for (int v : steps_[s].args) last_use[static_cast<std::size_t>(v)] = s;
  }
  for (int v : results_) last_use[static_cast<std::size_t>(v)] = steps_.size();
  std::vector<int> slot_of(static_cast<std::size_t>(values), -1);
  std::vector<Array> free;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Step& step = steps_[s];
    const std::vector<int> args = step.args;
    for (int& v : step.args) v = slot_of[static_cast<std::size_t>(v)];
    for (std::size_t k = 0; k < args.size(); ++k) {
      const bool first = std::find(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(k), args[k]) ==
                         args.begin() + static_cast<std::ptrdiff_t>(k);
      if (first && last_use[static_cast<std::size_t>(args[k])] == s) {
        free.push_back(slots_[static_cast<std::size_t>(step.args[k])]);
      }
    }
    Array array = free.empty() ? arena_.take(step.dtype) : free.back();
    if (!free.empty()) free.pop_back();
    array.dtype = step.dtype;
    const auto value = static_cast<std::size_t>(step.value);
    slot_of[value] = step.value = static_cast<int>(slots_.size());
    slots_.push_back(array);
  }
  for (int& v : results_) v = slot_of[static_cast<std::size_t>(v)];
}

void Tape::run(std::int64_t begin, std::int64_t count) {
  if (present_.data != nullptr) fill(present_, count, Scalar::of_int(DType::boolean, 1));
  for (const Step& step : steps_) {
    const Array& out = slots_[static_cast<std::size_t>(step.value)];
    if (step.loader < 0) {
      std::array<Array, 3> args;
      for (std::size_t k = 0; k < step.args.size(); ++k)
        args[k] = slots_[static_cast<std::size_t>(step.args[k])];
      apply(step.op, std::span(args.data(), step.args.size()), out, count);
      continue;
    }
    const Loader& loader = loaders_[static_cast<std::size_t>(step.loader)];
    loader.load(begin, count, out);
    if (loader.all_present()) continue;
    loader.load_present(begin, count, loaded_present_);
    apply(ScalarOp::logical_and, std::array{present_, loaded_present_}, present_, count);
  }
}

}  // namespace bz::interpret_detail
