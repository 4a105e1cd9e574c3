// Algebra of single maps. Every identity holds bit by bit, but for the sign and payload of a NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/simplify/rules.h"

namespace bz {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

bool is_commutative(ScalarOp op) {
  static constexpr ScalarOp kOps[] = {ScalarOp::add,         ScalarOp::mul,         ScalarOp::max,
                                      ScalarOp::min,         ScalarOp::logical_and, ScalarOp::logical_or,
                                      ScalarOp::logical_xor, ScalarOp::eq,          ScalarOp::ne};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

// A map draft, with the questions that rules ask.
class Match {
 public:
  Match(Rewriter& rw, const Draft& draft, ScalarOp op) : rw_(rw), draft_(draft), op_(op) {}

  NodeId operator[](std::size_t i) const { return draft_.operands[i]; }
  DType operand_dtype() const { return rw_.type(draft_.operands.back()).dtype; }
  bool floating() const { return is_float(operand_dtype()); }
  bool same(std::size_t i, std::size_t j) const { return draft_.operands[i] == draft_.operands[j]; }
  const Scalar* constant(std::size_t i) const { return rw_.constant_value(draft_.operands[i]); }
  // Operand i is this value everywhere, its sign of zero included.
  bool is(std::size_t i, double value) const {
    const Scalar* c = constant(i);
    if (!c) return false;
    if (!is_float(c->dtype)) return c->i == static_cast<std::int64_t>(value);
    return c->f == value && std::signbit(c->f) == std::signbit(value);
  }
  // The neutral element of addition: -0 for floats, as 0 + -0 is 0.
  bool is_neutral_zero(std::size_t i) const { return is(i, floating() ? -0.0 : 0.0); }
  // Operand k of operand i, when that is the map `op`; else kNoNode.
  NodeId inner(std::size_t i, ScalarOp op, std::size_t k = 0) const {
    const std::vector<NodeId>* operands = rw_.operands_of(draft_.operands[i], op);
    return operands ? (*operands)[k] : kNoNode;
  }
  // What operand i is the negative of, through broadcasts and reshapes (which stand outside of maps); else
  // kNoNode.
  NodeId negated(std::size_t i) const {
    std::vector<NodeId> views;
    NodeId x = draft_.operands[i];
    for (; is_uniform_view(x); x = rw_.graph().node(x).operands[0]) views.push_back(x);
    const std::vector<NodeId>* negation = rw_.operands_of(x, ScalarOp::neg);
    if (!negation) return kNoNode;
    NodeId result = (*negation)[0];
    for (; !views.empty(); views.pop_back()) {
      const Node& view = rw_.graph().node(views.back());
      result = rw_.emit({view.attrs, view.type, {result}});
    }
    return result;
  }
  // Operand 0 is this very operation.
  bool repeated() const { return inner(0, op_) != kNoNode; }

  NodeId map(ScalarOp op, std::vector<NodeId> operands) const { return rw_.map(op, std::move(operands)); }
  NodeId constant(const Scalar& value) const { return rw_.constant(value, draft_.type.shape); }
  NodeId value(double v) const { return constant(Scalar::of(draft_.type.dtype, v)); }

 private:
  bool is_uniform_view(NodeId x) const {
    return rw_.graph().node(x).as<BroadcastAttrs>() || rw_.graph().node(x).as<ReshapeAttrs>();
  }

  Rewriter& rw_;
  const Draft& draft_;
  ScalarOp op_;
};

struct Identity {
  ScalarOp op;
  NodeId (*apply)(const Match& m);  // kNoNode when it does not apply
};

// x / c = x * (1 / c) when 1 / c is exact: both round the same number once.
NodeId multiply_by_inverse(const Match& m) {
  const Scalar* c = m.constant(1);
  if (!c || !std::isnormal(c->f)) return kNoNode;
  int exponent = 0;
  if (std::fabs(std::frexp(c->f, &exponent)) != 0.5) return kNoNode;
  Scalar inverse = Scalar::of(c->dtype, 1 / c->f);
  // Smaller inverses are subnormal, which is exact too but slow on some machines.
  double smallest =
      c->dtype == DType::f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  if (inverse.f != 1 / c->f || std::fabs(inverse.f) < smallest) return kNoNode;
  return m.map(ScalarOp::mul, {m[0], m.constant(inverse)});
}

NodeId subtract_constant(const Match& m) {
  const Scalar* c = m.constant(1);
  if (!c) return kNoNode;
  if (is_float(c->dtype)) return m.map(ScalarOp::add, {m[0], m.constant(Scalar::of(c->dtype, -c->f))});
  auto negated = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(c->i));
  return m.map(ScalarOp::add, {m[0], m.constant(Scalar::of_int(c->dtype, wrap_to(c->dtype, negated)))});
}

NodeId operand_if(const Match& m, bool condition, std::size_t i = 0) { return condition ? m[i] : kNoNode; }
NodeId value_if(const Match& m, bool condition, double value) { return condition ? m.value(value) : kNoNode; }
NodeId unary_of(const Match& m, ScalarOp op, NodeId x) { return x == kNoNode ? kNoNode : m.map(op, {x}); }

// clang-format off
constexpr Identity kIdentities[] = {
    // x + -0 = x; a + -b = a - b; -a + b = b - a
    {ScalarOp::add, [](const Match& m) { return operand_if(m, m.is_neutral_zero(1)); }},
    {ScalarOp::add, [](const Match& m) {
       NodeId b = m.negated(1);
       return b == kNoNode ? kNoNode : m.map(ScalarOp::sub, {m[0], b}); }},
    {ScalarOp::add, [](const Match& m) {
       NodeId a = m.negated(0);
       return a == kNoNode ? kNoNode : m.map(ScalarOp::sub, {m[1], a}); }},
    // x - c = x + -c; a - -b = a + b; -0 - x = -x; n - n = 0 for integers
    {ScalarOp::sub, subtract_constant},
    {ScalarOp::sub, [](const Match& m) {
       NodeId b = m.negated(1);
       return b == kNoNode ? kNoNode : m.map(ScalarOp::add, {m[0], b}); }},
    {ScalarOp::sub, [](const Match& m) { return unary_of(m, ScalarOp::neg, m.is_neutral_zero(0) ? m[1] : kNoNode); }},
    {ScalarOp::sub, [](const Match& m) { return value_if(m, !m.floating() && m.same(0, 1), 0); }},
    // x * 1 = x; x * -1 = -x; -a * -b = a * b; n * 0 = 0 for integers
    {ScalarOp::mul, [](const Match& m) { return operand_if(m, m.is(1, 1)); }},
    {ScalarOp::mul, [](const Match& m) { return unary_of(m, ScalarOp::neg, m.is(1, -1) ? m[0] : kNoNode); }},
    {ScalarOp::mul, [](const Match& m) {
       NodeId a = m.inner(0, ScalarOp::neg), b = m.inner(1, ScalarOp::neg);
       return a == kNoNode || b == kNoNode ? kNoNode : m.map(ScalarOp::mul, {a, b}); }},
    {ScalarOp::mul, [](const Match& m) { return operand_if(m, !m.floating() && m.is(1, 0), 1); }},
    // x / 1 = x; x / 2^k = x * 2^-k; 1 / x = reciprocal(x)
    {ScalarOp::div, [](const Match& m) { return operand_if(m, m.is(1, 1)); }},
    {ScalarOp::div, multiply_by_inverse},
    {ScalarOp::div, [](const Match& m) { return unary_of(m, ScalarOp::reciprocal, m.is(0, 1) ? m[1] : kNoNode); }},
    {ScalarOp::floordiv, [](const Match& m) { return operand_if(m, !m.floating() && m.is(1, 1)); }},
    {ScalarOp::mod, [](const Match& m) { return value_if(m, !m.floating() && m.is(1, 1), 0); }},
    // x^0 = 1, of NaN too; x^1 = x; x^2 = x * x; x^-1 = reciprocal(x)
    {ScalarOp::pow, [](const Match& m) { return value_if(m, m.is(1, 0) || m.is(1, -0.0), 1); }},
    {ScalarOp::pow, [](const Match& m) { return operand_if(m, m.is(1, 1)); }},
    {ScalarOp::pow, [](const Match& m) { return m.is(1, 2) ? m.map(ScalarOp::mul, {m[0], m[0]}) : kNoNode; }},
    {ScalarOp::pow, [](const Match& m) { return unary_of(m, ScalarOp::reciprocal, m.is(1, -1) ? m[0] : kNoNode); }},
    // --x = x; | |x| | = |-x| = |x|
    {ScalarOp::neg, [](const Match& m) { return m.inner(0, ScalarOp::neg); }},
    {ScalarOp::abs, [](const Match& m) { return operand_if(m, m.repeated()); }},
    {ScalarOp::abs, [](const Match& m) { return unary_of(m, ScalarOp::abs, m.inner(0, ScalarOp::neg)); }},
    {ScalarOp::floor, [](const Match& m) { return operand_if(m, m.repeated()); }},
    {ScalarOp::ceil, [](const Match& m) { return operand_if(m, m.repeated()); }},
    {ScalarOp::round, [](const Match& m) { return operand_if(m, m.repeated()); }},
    {ScalarOp::trunc, [](const Match& m) { return operand_if(m, m.repeated()); }},
    {ScalarOp::sign, [](const Match& m) { return operand_if(m, m.repeated()); }},
    {ScalarOp::max, [](const Match& m) { return operand_if(m, m.same(0, 1) || (m.floating() && m.is(1, -kInf))); }},
    {ScalarOp::min, [](const Match& m) { return operand_if(m, m.same(0, 1) || (m.floating() && m.is(1, kInf))); }},
    // Bits: -1 is all ones; bool has one bit, where xor with true is not.
    {ScalarOp::logical_not, [](const Match& m) { return m.inner(0, ScalarOp::logical_not); }},
    {ScalarOp::logical_not, [](const Match& m) {
       NodeId a = m.inner(0, ScalarOp::eq);
       return a == kNoNode ? kNoNode : m.map(ScalarOp::ne, {a, m.inner(0, ScalarOp::eq, 1)}); }},
    {ScalarOp::logical_not, [](const Match& m) {
       NodeId a = m.inner(0, ScalarOp::ne);
       return a == kNoNode ? kNoNode : m.map(ScalarOp::eq, {a, m.inner(0, ScalarOp::ne, 1)}); }},
    {ScalarOp::logical_and, [](const Match& m) {
       return operand_if(m, m.same(0, 1) || m.is(1, m.operand_dtype() == DType::boolean ? 1 : -1)); }},
    {ScalarOp::logical_and, [](const Match& m) { return operand_if(m, m.is(1, 0), 1); }},
    {ScalarOp::logical_or, [](const Match& m) { return operand_if(m, m.same(0, 1) || m.is(1, 0)); }},
    {ScalarOp::logical_or, [](const Match& m) {
       return operand_if(m, m.is(1, m.operand_dtype() == DType::boolean ? 1 : -1), 1); }},
    {ScalarOp::logical_xor, [](const Match& m) { return operand_if(m, m.is(1, 0)); }},
    {ScalarOp::logical_xor, [](const Match& m) { return value_if(m, m.same(0, 1), 0); }},
    {ScalarOp::logical_xor, [](const Match& m) {
       bool flips = m.is(1, m.operand_dtype() == DType::boolean ? 1 : -1);
       return unary_of(m, ScalarOp::logical_not, flips ? m[0] : kNoNode); }},
    // a > b is b < a; only NaN differs from itself
    {ScalarOp::gt, [](const Match& m) { return m.map(ScalarOp::lt, {m[1], m[0]}); }},
    {ScalarOp::ge, [](const Match& m) { return m.map(ScalarOp::le, {m[1], m[0]}); }},
    {ScalarOp::ne, [](const Match& m) {
       return unary_of(m, ScalarOp::isnan, m.floating() && m.same(0, 1) ? m[0] : kNoNode); }},
    {ScalarOp::ne, [](const Match& m) { return value_if(m, !m.floating() && m.same(0, 1), 0); }},
    {ScalarOp::eq, [](const Match& m) { return value_if(m, !m.floating() && m.same(0, 1), 1); }},
    {ScalarOp::select, [](const Match& m) { return operand_if(m, m.is(0, 1) || m.same(1, 2), 1); }},
    {ScalarOp::select, [](const Match& m) { return operand_if(m, m.is(0, 0), 2); }},
    {ScalarOp::select, [](const Match& m) {
       NodeId c = m.inner(0, ScalarOp::logical_not);
       return c == kNoNode ? kNoNode : m.map(ScalarOp::select, {c, m[2], m[1]}); }},
    {ScalarOp::select, [](const Match& m) {
       return operand_if(m, m.operand_dtype() == DType::boolean && m.is(1, 1) && m.is(2, 0)); }},
    {ScalarOp::select, [](const Match& m) {
       bool inverts = m.operand_dtype() == DType::boolean && m.is(1, 0) && m.is(2, 1);
       return unary_of(m, ScalarOp::logical_not, inverts ? m[0] : kNoNode); }},
};
// clang-format on

const std::vector<const Identity*>& identities_of(ScalarOp op) {
  static const std::vector<std::vector<const Identity*>> by_op = [] {
    std::vector<std::vector<const Identity*>> table(scalar_ops().size());
    for (const Identity& identity : kIdentities)
      table[static_cast<std::size_t>(identity.op)].push_back(&identity);
    return table;
  }();
  return by_op[static_cast<std::size_t>(op)];
}

}  // namespace

// Constants last, else by number: x + y and y + x are one node.
std::optional<NodeId> order_operands(Rewriter& rw, const Draft& draft) {
  const MapAttrs* map = std::get_if<MapAttrs>(&draft.attrs);
  if (!map) return std::nullopt;
  if (!is_commutative(map->op) && map->op != ScalarOp::fma) return std::nullopt;
  NodeId a = draft.operands[0], b = draft.operands[1];
  bool a_constant = rw.constant_value(a) != nullptr, b_constant = rw.constant_value(b) != nullptr;
  bool ordered = a_constant == b_constant ? a <= b : b_constant;
  if (ordered) return std::nullopt;
  Draft swapped = draft;
  std::swap(swapped.operands[0], swapped.operands[1]);
  return rw.emit(std::move(swapped));
}

std::optional<NodeId> simplify_arithmetic(Rewriter& rw, const Draft& draft) {
  const MapAttrs* map = std::get_if<MapAttrs>(&draft.attrs);
  if (!map) return std::nullopt;
  Match match(rw, draft, map->op);
  for (const Identity* identity : identities_of(map->op)) {
    NodeId result = identity->apply(match);
    if (result != kNoNode) return result;
  }
  return std::nullopt;
}

}  // namespace bz
