#include "ir/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace bz::kernel {
namespace {

template <class... Fs>
struct Visit : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Visit(Fs...) -> Visit<Fs...>;

std::string hint(const std::optional<Evict>& evict) {
  if (!evict) return "";
  if (evict->last == 0) return " evict first";
  if (evict->last == Evict::kAll) return " evict last";
  return fmt::format(" evict {}/{} last", evict->last, Evict::kAll);
}

std::string value_name(ValueId id) { return fmt::format("v{}", id); }
std::string value_names(const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(value_name(id));
  return fmt::format("{}", fmt::join(names, ", "));
}

class Printer {
 public:
  explicit Printer(const Kernel& k) : k_(k) {}

  std::vector<Line> run() {
    std::vector<std::string> buffers;
    for (const Buffer& b : k_.buffers) {
      buffers.push_back(fmt::format("{}: {} {}", b.name, bz::name(b.dtype),
                                    b.shared    ? "in out"
                                    : b.written ? "out"
                                                : "in"));
    }
    line(0,
         fmt::format("kernel {}({})  grid {}{}, {}block {}, shared {} bytes", k_.name,
                     fmt::join(buffers, ", "), k_.persistent ? "up to " : "", k_.grid,
                     k_.cluster == 1 ? "" : fmt::format("{} {}, ", k_.gang ? "gang" : "cluster", k_.cluster),
                     k_.block, k_.shared_bytes()));
    for (const Array& a : k_.arrays) {
      line(1, fmt::format(
                  "{} {}: {}[{}]{}", a.space == Space::shared ? "shared" : "registers", a.name,
                  bz::name(a.dtype), a.elements,
                  a.within == kNone ? "" : " within " + k_.arrays[static_cast<std::size_t>(a.within)].name));
    }
    block(k_.body, 1);
    return std::move(lines_);
  }

 private:
  std::string index(const Index& e) const {
    return e.str([&](std::int32_t id) { return variable(id); });
  }
  std::string mask(ValueId m) const { return m == kNone ? "" : " if " + value_name(m); }
  std::string type(ValueId id) const {
    const Value& v = k_.values[static_cast<std::size_t>(id)];
    return v.width == 1 ? std::string(bz::name(v.dtype)) : fmt::format("{}x{}", bz::name(v.dtype), v.width);
  }
  void define(int depth, ValueId id, const std::string& what) {
    line(depth, fmt::format("{} = {:<44} {}", value_name(id), what, type(id)));
  }
  void line(int depth, std::string what) { lines_.push_back({std::move(what), depth, node_}); }

  void block(const Block& b, int depth) {
    for (const Stmt& s : b) {
      node_ = s.node;
      std::visit(
          Visit{
              [&](const Const& c) { define(depth, c.result, to_string(c.value)); },
              [&](const Apply& a) {
                define(depth, a.result,
                       fmt::format("{} {}{}", info(a.op).text, value_names(a.args),
                                   a.nonpositive ? " (<= 0)" : ""));
              },
              [&](const SumOfTerms& t) {
                define(depth, t.result, fmt::format("sum of exp {}", value_names(t.args)));
              },
              [&](const ScaledExp& e) {
                for (std::size_t i = 0; i < e.results.size(); ++i) {
                  define(depth, e.results[i],
                         fmt::format("scaled exp {} - {}{}", value_name(e.x[i]), value_name(e.pivot),
                                     i == 0 ? ", least " + value_name(e.least) : ""));
                }
              },
              [&](const ExpFactor& f) { define(depth, f.result, "factor of exp " + value_name(f.pivot)); },
              [&](const Fold& f) {
                define(depth, f.result, fmt::format("fold {} {}", info(f.op).text, value_name(f.value)));
              },
              [&](const Lane& l) {
                define(depth, l.result, fmt::format("{}.{}", value_name(l.value), l.lane));
              },
              [&](const Widen& w) { define(depth, w.result, "widen " + value_name(w.value)); },
              [&](const IndexValue& i) { define(depth, i.result, "index " + index(i.index)); },
              [&](const Inside& i) {
                std::vector<std::string> bounds;
                for (const IndexBound& b : i.bounds)
                  bounds.push_back(fmt::format("{} <= {} < {}", b.lo, index(b.e), b.hi));
                define(depth, i.result, fmt::format("{}", fmt::join(bounds, " and ")));
              },
              [&](const Load& l) {
                define(depth, l.result,
                       fmt::format("load {}[{}]{}{}", buffer(l.buffer), index(l.offset), mask(l.mask),
                                   hint(l.evict)));
              },
              [&](const Store& st) {
                line(depth, fmt::format("store {}[{}] = {}{}", buffer(st.buffer), index(st.offset),
                                        value_name(st.value), mask(st.mask)));
              },
              [&](const Get& g) {
                define(depth, g.result, fmt::format("{}[{}]{}", array(g.array), index(g.at), mask(g.mask)));
              },
              [&](const Set& st) {
                line(depth, fmt::format("{}[{}]{} = {}{}", array(st.array), index(st.at),
                                        st.rank ? fmt::format(" of block {}", index(*st.rank)) : "",
                                        value_name(st.value), mask(st.mask)));
              },
              [&](const Copy& c) {
                line(depth, fmt::format("copy {}[{}] = {}[{}]{}", array(c.array), index(c.at),
                                        buffer(c.buffer), index(c.offset), mask(c.mask)));
              },
              [&](const Commit&) { line(depth, "commit copies"); },
              [&](const Await& a) {
                line(depth, a.pending == 0 ? "await copies"
                                           : fmt::format("await copies but for {} batches", a.pending));
              },
              [&](const Barrier& b) {
                line(depth, b.scope == Scope::cluster ? "barrier of the cluster" : "barrier");
              },
              [&](const Start& st) {
                line(depth, st.boxes == kNone ? "start" : "start, open " + array(st.boxes));
              },
              [&](const Started&) { line(depth, "wait for the start of the cluster"); },
              [&](const Send& m) {
                line(depth, fmt::format("send {}[{}] of block {} = {} by {}[{}]", array(m.array), index(m.at),
                                        index(m.rank), value_name(m.value), array(m.boxes), index(m.box)));
              },
              [&](const Receive& r) {
                line(depth, fmt::format("receive {} bytes from {}[{}], round {}", r.bytes, array(r.boxes),
                                        index(r.box), index(r.round)));
              },
              [&](const Shuffle& sh) {
                define(depth, sh.result, fmt::format("shuffle {} xor {}", value_name(sh.value), sh.mask));
              },
              [&](const Signal& sg) {
                line(depth, fmt::format("signal {}[{}]", buffer(sg.buffer), index(sg.offset)));
              },
              [&](const Wait& w) {
                line(depth,
                     fmt::format("wait until {}[{}] is {}", buffer(w.buffer), index(w.offset), w.count));
              },
              [&](const Post& p) {
                line(depth, fmt::format("post {}[{}] = {}, round {}", buffer(p.buffer), index(p.offset),
                                        value_name(p.value), index(p.round)));
              },
              [&](const Collect& c) {
                for (std::size_t i = 0; i < c.results.size(); ++i) {
                  define(depth, c.results[i],
                         i == 0 ? fmt::format("collect {}[{}], round {}", buffer(c.buffer),
                                              index(c.offsets[0]), index(c.round))
                                : fmt::format("  and {}[{}]", buffer(c.buffer), index(c.offsets[i])));
                }
              },
              [&](const Let& l) {
                line(depth, fmt::format("let {} = {}", variable(l.var.id), index(l.value)));
              },
              [&](const For& f) {
                static constexpr std::string_view kLevels[] = {"grid", "cluster", "thread", "serial"};
                line(depth, fmt::format("for {} in 0..{} {}{}", variable(f.var.id), f.var.extent,
                                        kLevels[static_cast<int>(f.level)],
                                        f.unroll > 1 ? fmt::format(", {} at a time", f.unroll) : ""));
                block(f.body, depth + 1);
              },
              [&](const Teams& t) {
                line(depth, fmt::format("let {} = teams launched", variable(t.var.id)));
              },
              [&](const Turns& t) {
                line(depth, fmt::format("for {} from {} below {}{} in turns by {}, then {}, round {}",
                                        variable(t.var.id), variable(t.first), t.end,
                                        t.lag == 0 ? "" : fmt::format(" and {} more", t.lag),
                                        variable(t.teams), variable(t.next.id), variable(t.round.id)));
                block(t.body, depth + 1);
              },
              [&](const Ticket& t) {
                line(depth, fmt::format("let {} = next of {}", variable(t.var.id), buffer(t.queue)));
              },
              [&](const If& i) {
                line(depth, fmt::format("if {}", value_name(i.condition)));
                block(i.body, depth + 1);
              },
              [&](const Comment& c) { line(depth, "# " + c.text); },
          },
          s.op);
    }
  }

  const std::string& variable(std::int32_t id) const { return k_.vars[static_cast<std::size_t>(id)]; }
  const std::string& buffer(BufferId b) const { return k_.buffers[static_cast<std::size_t>(b)].name; }
  const std::string& array(ArrayId a) const { return k_.arrays[static_cast<std::size_t>(a)].name; }

  const Kernel& k_;
  NodeId node_ = kNoNode;
  std::vector<Line> lines_;
};

class Verifier {
 public:
  explicit Verifier(const Kernel& k)
      : k_(k),
        defined_(k.values.size(), false),
        alike_(k.values.size(), false),
        alike_in_warp_(k.values.size(), false),
        own_(k.vars.size(), false) {
    own_[kLaneVar] = true;
  }

  std::vector<std::string> run() {
    std::int64_t extents[] = {1, 1, 1};  // of the grid, cluster and thread loops
    const Block* inner = &k_.body;
    Level level = Level::grid;
    while (!inner->empty()) {  // the nest of parallel loops: each holds just the next
      const For* f = nullptr;
      for (const Stmt& s : *inner) {
        if (const For* g = std::get_if<For>(&s.op); g != nullptr && g->level <= Level::thread) f = g;
      }
      if (f == nullptr) break;
      if (f->level < level) fail("parallel loops that are not nested as grid, cluster, thread");
      level = f->level;
      extents[static_cast<int>(level)] *= f->var.extent;
      inner = &f->body;
    }
    const auto [clusters, cluster, threads] = extents;
    if (clusters * cluster != k_.grid)
      fail(fmt::format("grid loops make {} blocks, the launch has {}", clusters * cluster, k_.grid));
    if (cluster != k_.cluster)
      fail(fmt::format("cluster loops make {} blocks, the launch has {}", cluster, k_.cluster));
    if (threads != k_.block)
      fail(fmt::format("thread loops make {} threads, the launch has {}", threads, k_.block));
    if (k_.synchronizes && k_.block % 32 != 0) fail(fmt::format("synchronizes with {} threads", k_.block));
    for (const Array& a : k_.arrays) within(a);
    block(k_.body, false, false);
    return std::move(errors_);
  }

 private:
  void fail(const std::string& what) { errors_.push_back(fmt::format("kernel {}: {}", k_.name, what)); }
  void define(ValueId id) {
    if (id < 0 || id >= static_cast<ValueId>(defined_.size())) return fail(fmt::format("no value v{}", id));
    if (defined_[static_cast<std::size_t>(id)]) fail(fmt::format("v{} is defined twice", id));
    defined_[static_cast<std::size_t>(id)] = true;
    scope_.push_back(id);
  }
  Value use(ValueId id) {
    if (id < 0 || id >= static_cast<ValueId>(defined_.size()) || !defined_[static_cast<std::size_t>(id)]) {
      fail(fmt::format("v{} is used but not defined here", id));
      return {};
    }
    return k_.values[static_cast<std::size_t>(id)];
  }
  void width(ValueId id, int result) {
    const Value v = use(id);
    if (v.width != 1 && v.width != result)
      fail(fmt::format("v{} of width {} in a result of width {}", id, v.width, result));
  }
  void mask(ValueId id, int result) {
    if (id == kNone) return;
    if (use(id).dtype != DType::boolean) fail(fmt::format("mask v{} is not bool", id));
    width(id, result);
  }
  void inside(ArrayId a, const Index& at) {
    const Array& array = k_.arrays[static_cast<std::size_t>(a)];
    const Index e = with_remainders(at);
    if (e.lo() < 0 || e.hi() >= array.elements)
      fail(fmt::format("{}[{}..{}] is outside its {} elements", array.name, e.lo(), e.hi(), array.elements));
  }

  void rank(const Index& r) {
    if (r.lo() < 0 || r.hi() >= k_.cluster)
      fail(fmt::format("block {}..{} of a cluster of {}", r.lo(), r.hi(), k_.cluster));
  }
  void mailbox(ArrayId a, const Index& at) {
    const Array& array = k_.arrays[static_cast<std::size_t>(a)];
    if (array.space != Space::shared || array.dtype != DType::i64)
      fail(fmt::format("{} has no mailboxes", array.name));
    inside(a, at);
  }
  // Whether all threads of a block have the same value of it.
  bool alike(const Index& e) const {
    std::vector<IndexVar> vars;
    e.collect_vars(vars);
    return std::none_of(vars.begin(), vars.end(),
                        [&](const IndexVar& v) { return own_[static_cast<std::size_t>(v.id)]; });
  }
  // The same of the threads of a warp, of the bound of the thread's own number.
  bool alike_in_warp(const IndexBound& bound) const {
    constexpr std::int64_t kWarp = 32;
    const Index thread = Index::var(thread_);
    return alike(bound.e) || (thread_.extent == k_.block && bound.e == thread && bound.lo % kWarp == 0 &&
                              bound.hi % kWarp == 0);
  }
  void queue(BufferId b, const Index& offset) {
    const Buffer& buffer = k_.buffers[static_cast<std::size_t>(b)];
    if (buffer.dtype != DType::i32 || !buffer.shared) fail(fmt::format("{} is no queue", buffer.name));
    if (!alike(offset)) fail(fmt::format("a place in {} that differs between threads", buffer.name));
    if (offset.lo() < 0 || offset.hi() >= buffer.elements)
      fail(fmt::format("{}[{}..{}] is outside its {} elements", buffer.name, offset.lo(), offset.hi(),
                       buffer.elements));
  }

  void within(const Array& a) {
    if (a.within == kNone) return;
    const auto bytes = [](const Array& array) { return array.elements * size_of(array.dtype); };
    const auto count = static_cast<ArrayId>(k_.arrays.size());
    const Array* other =
        a.within >= 0 && a.within < count ? &k_.arrays[static_cast<std::size_t>(a.within)] : nullptr;
    if (other == nullptr || a.space != Space::shared || other->space != Space::shared ||
        other->within != kNone) {
      fail(fmt::format("{} has no shared array that it is within", a.name));
    } else if (bytes(a) > bytes(*other)) {
      fail(fmt::format("{} of {} bytes is within {} of {}", a.name, bytes(a), other->name, bytes(*other)));
    }
  }

  void slot(BufferId b, const Index& offset, const Index& round) {
    const Buffer& buffer = k_.buffers[static_cast<std::size_t>(b)];
    if (buffer.dtype != DType::i64 || !buffer.shared) fail(fmt::format("{} has no slots", buffer.name));
    if (!k_.gang) fail("slots of blocks that are no gang");
    if (!alike(round)) fail("a round that differs between threads");
    const Index e = with_remainders(offset);
    if (e.lo() < 0 || e.hi() >= buffer.elements)
      fail(
          fmt::format("{}[{}..{}] is outside its {} elements", buffer.name, e.lo(), e.hi(), buffer.elements));
  }

  // `divergent`: not all threads of a block may come here; `split`: not all of a warp.
  void block(const Block& b, bool divergent, bool split) {
    const std::size_t mark = scope_.size();
    for (const Stmt& s : b) {
      std::visit(Visit{
                     [&](const Const& c) { define(c.result); },
                     [&](const Apply& a) { apply(a); },
                     [&](const Fold& f) { use(f.value), define(f.result); },
                     [&](const SumOfTerms& t) { terms(t); },
                     [&](const ScaledExp& e) { scaled_exp(e); },
                     [&](const ExpFactor& f) { like(f.pivot, f.result), define(f.result); },
                     [&](const Lane& l) {
                       if (l.lane >= use(l.value).width)
                         fail(fmt::format("v{} has no lane {}", l.value, l.lane));
                       define(l.result);
                     },
                     [&](const Widen& w) {
                       if (use(w.value).width != 1) fail(fmt::format("v{} is wide already", w.value));
                       define(w.result);
                     },
                     [&](const IndexValue& i) { define(i.result); },
                     [&](const Inside& i) {
                       define(i.result);
                       alike_[static_cast<std::size_t>(i.result)] =
                           std::all_of(i.bounds.begin(), i.bounds.end(),
                                       [&](const IndexBound& bound) { return alike(bound.e); });
                       alike_in_warp_[static_cast<std::size_t>(i.result)] =
                           std::all_of(i.bounds.begin(), i.bounds.end(),
                                       [&](const IndexBound& bound) { return alike_in_warp(bound); });
                     },
                     [&](const Load& l) {
                       mask(l.mask, k_.values[static_cast<std::size_t>(l.result)].width), define(l.result);
                     },
                     [&](const Store& st) {
                       if (!k_.buffers[static_cast<std::size_t>(st.buffer)].written)
                         fail("a store to an input");
                       use(st.value), mask(st.mask, st.width);
                     },
                     [&](const Get& g) {
                       mask(g.mask, k_.values[static_cast<std::size_t>(g.result)].width);
                       if (g.mask == kNone) inside(g.array, g.at);
                       define(g.result);
                     },
                     [&](const Set& st) {
                       use(st.value), mask(st.mask, st.width);
                       if (st.mask == kNone) inside(st.array, st.at);
                       if (st.rank) {
                         if (k_.arrays[static_cast<std::size_t>(st.array)].space != Space::shared)
                           fail("a register array of another block");
                         rank(*st.rank);
                       }
                     },
                     [&](const Copy& c) {
                       if (k_.arrays[static_cast<std::size_t>(c.array)].space != Space::shared)
                         fail("a copy to registers");
                       if (k_.arrays[static_cast<std::size_t>(c.array)].dtype !=
                           k_.buffers[static_cast<std::size_t>(c.buffer)].dtype)
                         fail("a copy between types");
                       if (c.mask != kNone) mask(c.mask, 1);
                       inside(c.array, c.at);
                     },
                     [&](const Commit&) {},
                     [&](const Await&) {},
                     [&](const Barrier&) {
                       if (divergent) fail("a barrier under a condition");
                     },
                     [&](const Start& st) {
                       if (divergent) fail("a start of the cluster under a condition");
                       if (st.boxes != kNone) mailbox(st.boxes, Index(0));
                     },
                     [&](const Started&) {
                       if (divergent) fail("a wait for the start of the cluster under a condition");
                     },
                     [&](const Send& m) {
                       const Array& to = k_.arrays[static_cast<std::size_t>(m.array)];
                       if (to.space != Space::shared) fail("a message to registers");
                       if (size_of(to.dtype) < 4 || to.dtype != use(m.value).dtype)
                         fail(fmt::format("a message of {} to {}", bz::name(use(m.value).dtype), to.name));
                       inside(m.array, m.at);
                       rank(m.rank);
                       mailbox(m.boxes, m.box);
                     },
                     [&](const Receive& r) {
                       if (divergent) fail("messages received under a condition");
                       if (r.bytes <= 0) fail(fmt::format("messages of {} bytes", r.bytes));
                       mailbox(r.boxes, r.box);
                     },
                     [&](const Shuffle& sh) {
                       if (split) fail("a shuffle under a condition");
                       use(sh.value), define(sh.result);
                     },
                     [&](const Signal& sg) {
                       if (divergent) fail("a signal under a condition");
                       queue(sg.buffer, sg.offset);
                     },
                     [&](const Wait& w) {
                       if (divergent) fail("a wait under a condition");
                       queue(w.buffer, w.offset);
                     },
                     [&](const Post& p) {
                       if (size_of(use(p.value).dtype) != 4 || use(p.value).width != 1)
                         fail(fmt::format("v{} is posted", p.value));
                       slot(p.buffer, p.offset, p.round);
                     },
                     [&](const Collect& c) {
                       for (const ValueId v : c.results) {
                         define(v);
                         if (size_of(use(v).dtype) != 4) fail(fmt::format("v{} is collected", v));
                       }
                       for (const Index& offset : c.offsets) slot(c.buffer, offset, c.round);
                     },
                     [&](const Let& l) { own_[static_cast<std::size_t>(l.var.id)] = !alike(l.value); },
                     [&](const For& f) {
                       own_[static_cast<std::size_t>(f.var.id)] = f.level == Level::thread;
                       if (f.level == Level::thread) thread_ = f.var;
                       const int loops = std::exchange(loops_, loops_ + (f.level == Level::serial ? 1 : 0));
                       block(f.body, divergent, split);
                       loops_ = loops;
                     },
                     [&](const Teams& t) { own_[static_cast<std::size_t>(t.var.id)] = false; },
                     [&](const Turns& t) {
                       if (!k_.persistent) fail("turns in a kernel that is not persistent");
                       ++loops_;
                       block(t.body, divergent, split);
                       --loops_;
                     },
                     [&](const Ticket& t) {
                       if (k_.cluster > 1) fail("tickets of clusters");
                       if (divergent) fail("a ticket under a condition");
                       if (std::exchange(has_ticket_, true) || loops_ > 0)
                         fail("a block with several tickets");
                       if (t.var.extent != k_.grid)
                         fail(fmt::format("{} tickets for {} blocks", t.var.extent, k_.grid));
                       const Array& slot = k_.arrays[static_cast<std::size_t>(t.slot)];
                       if (slot.space != Space::shared || slot.dtype != DType::i32 || slot.elements != 1)
                         fail(fmt::format("{} is no shared i32", slot.name));
                       queue(t.queue, Index(0));
                       own_[static_cast<std::size_t>(t.var.id)] = false;
                     },
                     [&](const If& i) {
                       if (use(i.condition).width != 1) fail("a condition of several lanes");
                       const auto condition = static_cast<std::size_t>(i.condition);
                       block(i.body, divergent || !alike_[condition], split || !alike_in_warp_[condition]);
                     },
                     [&](const Comment&) {},
                 },
                 s.op);
    }
    for (std::size_t i = mark; i < scope_.size(); ++i) defined_[static_cast<std::size_t>(scope_[i])] = false;
    scope_.resize(mark);
  }

  void terms(const SumOfTerms& t) {
    const Value result = k_.values[static_cast<std::size_t>(t.result)];
    if (!is_float(result.dtype)) fail(fmt::format("v{} of exp is {}", t.result, bz::name(result.dtype)));
    if (t.args.empty()) fail(fmt::format("v{} is a sum of nothing", t.result));
    for (const ValueId v : t.args) {
      if (use(v).dtype != result.dtype)
        fail(fmt::format("v{} is {}, a term of {}", v, bz::name(use(v).dtype), bz::name(result.dtype)));
      if (result.width != 1) width(v, result.width);
    }
    define(t.result);
  }

  void scaled_exp(const ScaledExp& e) {
    if (e.results.empty() || e.results.size() != e.x.size())
      fail(fmt::format("{} exponentials of {} values", e.results.size(), e.x.size()));
    for (std::size_t i = 0; i < std::min(e.results.size(), e.x.size()); ++i) {
      like(e.x[i], e.results[i]);
      if (use(e.x[i]).width != use(e.x[0]).width)
        fail(fmt::format("v{} of width {} beside v{} of width {}", e.x[i], use(e.x[i]).width, e.x[0],
                         use(e.x[0]).width));
      for (const ValueId v : {e.pivot, e.least}) like(v, e.results[i]);
    }
    for (const ValueId v : e.results) define(v);
  }

  // An operand of the result's floating type, in every lane.
  void like(ValueId operand, ValueId result) {
    const Value r = k_.values[static_cast<std::size_t>(result)];
    if (!is_float(r.dtype)) fail(fmt::format("v{} of exp is {}", result, bz::name(r.dtype)));
    if (use(operand).dtype != r.dtype)
      fail(fmt::format("v{} is {}, of exp of {}", operand, bz::name(use(operand).dtype), bz::name(r.dtype)));
    width(operand, r.width);
  }

  void apply(const Apply& a) {
    std::vector<DType> types;
    const Value result = k_.values[static_cast<std::size_t>(a.result)];
    for (const ValueId v : a.args) {
      types.push_back(use(v).dtype);
      width(v, result.width);
    }
    std::string why;
    const std::optional<DType> t = infer_dtype(a.op, types, result.dtype, &why);
    if (!t) {
      fail(fmt::format("v{}: {}", a.result, why));
    } else if (*t != result.dtype) {
      fail(fmt::format("v{} is {} but {} gives {}", a.result, bz::name(result.dtype), info(a.op).text,
                       bz::name(*t)));
    }
    define(a.result);
  }

  const Kernel& k_;
  std::vector<bool> defined_;
  std::vector<bool> alike_;  // values that all threads of a block share
  std::vector<bool> alike_in_warp_;
  std::vector<bool> own_;  // variables that they do not
  IndexVar thread_;        // of the innermost loop over threads
  bool has_ticket_ = false;
  int loops_ = 0;  // around a statement, whose turns one thread goes through
  std::vector<ValueId> scope_;
  std::vector<std::string> errors_;
};

}  // namespace

int Kernel::shared_offset(ArrayId id) const {
  const auto array = [&](ArrayId a) -> const Array& { return arrays[static_cast<std::size_t>(a)]; };
  if (id < static_cast<ArrayId>(arrays.size()) && array(id).within != kNone) id = array(id).within;
  std::int64_t offset = 0;
  for (ArrayId i = 0; i < id; ++i) {
    const Array& a = array(i);
    if (a.space == Space::shared && a.within == kNone)
      offset += (a.elements * size_of(a.dtype) + 15) / 16 * 16;
  }
  return static_cast<int>(offset);
}

int Kernel::shared_bytes() const { return shared_offset(static_cast<ArrayId>(arrays.size())); }

std::vector<Line> lines(const Kernel& k) { return Printer(k).run(); }

int first_line(const Kernel& k) { return 2 + static_cast<int>(k.arrays.size()); }

std::string print(const Kernel& k) {
  std::string text;
  for (const Line& l : lines(k))
    text += std::string(static_cast<std::size_t>(l.depth) * 2, ' ') + l.text + '\n';
  return text;
}

std::vector<std::string> verify(const Kernel& k) { return Verifier(k).run(); }

}  // namespace bz::kernel
