// Appends statements to a kernel; the ScalarBuilder through which monoids write themselves into kernel IR.
#pragma once

#include <map>
#include <set>

#include "ir/kernel.h"
#include "ir/monoid.h"

namespace bz::compiler {

class KernelBuilder final : public ScalarBuilder {
 public:
  explicit KernelBuilder(kernel::Kernel& k) : k_(k) { blocks_.push_back(&k.body); }

  // Of the statements that follow. `fold`: the lanes of a value are elements of one domain (not one element of several).
  void set_lanes(int lanes, bool fold) {
    lanes_ = lanes;
    lanes_fold_ = fold;
  }

  // What is appended from here on helps to compute `node`.
  void at(NodeId node) { node_ = node; }

  Handle apply(ScalarOp op, std::span<const Handle> args, DType result) override;
  Handle constant(const Scalar& value) override;
  Handle exp_nonpositive(Handle x, DType type) override;
  std::vector<Handle> scaled_exp(std::span<const Handle> x, Handle pivot, Handle least);
  Handle exp_factor(Handle pivot);
  Handle sum_of_terms(std::span<const Handle> x, DType type) override;
  std::vector<Handle> replace_if(Handle condition, std::span<const Handle> values, DType type,
                                 const std::function<std::vector<Handle>()>& other) override;
  Handle fold(ScalarOp op, std::span<const Handle> values, DType type) override;
  std::vector<Handle> elements(Handle value) override;

  Handle index(const Index& e);
  Handle inside(std::vector<IndexBound> bounds);  // kNone when they always hold
  Handle load(kernel::BufferId buffer, const Index& offset, Handle mask, DType type,
              std::optional<kernel::Evict> evict = std::nullopt);
  void store(kernel::BufferId buffer, const Index& offset, Handle value, Handle mask);
  Handle get(kernel::ArrayId array, const Index& at, DType type, Handle mask = kernel::kNone);
  void set(kernel::ArrayId array, const Index& at, Handle value, Handle mask = kernel::kNone,
           std::optional<Index> rank = {});
  // Of the lanes that `at` and `offset` have. `mask`: of width 1.
  void copy(kernel::ArrayId array, const Index& at, kernel::BufferId buffer, const Index& offset,
            Handle mask);
  void commit() { append({kernel::Commit{}}); }
  void await(int pending) { append({kernel::Await{pending}}); }
  void start(kernel::ArrayId boxes) {
    append({kernel::Start{boxes}});
    k_.synchronizes = true;
  }
  void started() { append({kernel::Started{}}); }
  void send(kernel::ArrayId array, const Index& at, Handle value, const Index& rank, kernel::ArrayId boxes,
            const Index& box) {
    append({kernel::Send{array, at, value, rank, boxes, box}});
  }
  void receive(kernel::ArrayId boxes, const Index& box, const Index& round, std::int64_t bytes) {
    append({kernel::Receive{boxes, box, round, bytes}});
    k_.synchronizes = true;
  }
  Handle shuffle(Handle value, int mask);
  void barrier(kernel::Scope scope) {
    append({kernel::Barrier{scope}});
    k_.synchronizes = true;
  }
  void comment(std::string text) { append({kernel::Comment{std::move(text)}}); }
  // A variable that is the block's number in the queue from here on.
  IndexVar ticket(std::string name, std::int64_t extent, kernel::BufferId queue, kernel::ArrayId slot) {
    const IndexVar v = var(std::move(name), extent);
    append({kernel::Ticket{v, queue, slot}});
    k_.synchronizes = true;
    return v;
  }
  void signal(kernel::BufferId buffer, const Index& offset) {
    append({kernel::Signal{buffer, offset}});
    k_.synchronizes = true;
  }
  void wait(kernel::BufferId buffer, const Index& offset, std::int32_t count) {
    append({kernel::Wait{buffer, offset, count}});
    k_.synchronizes = true;
  }
  void post(kernel::BufferId buffer, const Index& offset, Handle value, const Index& round) {
    append({kernel::Post{buffer, offset, value, round}});
  }
  Handles collect(kernel::BufferId buffer, std::vector<Index> offsets, const Index& round,
                  std::span<const DType> types) {
    Handles results;
    for (const DType t : types) results.push_back(value(t, 1));
    append({kernel::Collect{results, buffer, std::move(offsets), round}});
    k_.synchronizes = true;
    return results;
  }
  // A variable that is `value` from here on.
  IndexVar let(std::string name, std::int64_t extent, const Index& value) {
    const IndexVar v = var(std::move(name), extent);
    append({kernel::Let{v, value}});
    return v;
  }
  kernel::ArrayId array(std::string name, DType t, std::int64_t elements, kernel::Space space,
                        kernel::ArrayId within = kernel::kNone);
  IndexVar var(std::string name, std::int64_t extent);
  // The value in `width` lanes.
  Handle widen(Handle value, int width);
  int width(Handle h) const { return k_.values[static_cast<std::size_t>(h)].width; }
  DType dtype(Handle h) const { return k_.values[static_cast<std::size_t>(h)].dtype; }

  template <class F>
  void loop(const IndexVar& v, kernel::Level level, F&& body, int unroll = 1) {
    nested({kernel::For{v, level, {}, unroll}}, body);
  }
  IndexVar teams(std::string name, std::int64_t most) {
    const IndexVar v = var(std::move(name), most + 1);
    append({kernel::Teams{v}});
    return v;
  }
  template <class F>
  void turns(kernel::Turns t, F&& body) {
    k_.persistent = true;
    nested({std::move(t)}, body);
  }
  template <class F>
  void when(Handle condition, F&& body) {
    if (condition == kernel::kNone) return body();
    nested({kernel::If{condition, {}}}, body);
  }

 private:
  Handle value(DType t, int width);
  void append(kernel::Stmt s) {
    s.node = node_;
    blocks_.back()->push_back(std::move(s));
  }
  int index_width(const Index& e) const { return e.uses(kernel::kLaneVar) ? lanes_ : 1; }
  // The body is built apart and moved in: statements must not move while one of their blocks is open.
  template <class F>
  void nested(kernel::Stmt s, F&& body) {
    kernel::Block inner;
    blocks_.push_back(&inner);
    body();
    blocks_.pop_back();
    if (auto* f = std::get_if<kernel::For>(&s.op)) f->body = std::move(inner);
    if (auto* t = std::get_if<kernel::Turns>(&s.op)) t->body = std::move(inner);
    if (auto* i = std::get_if<kernel::If>(&s.op)) i->body = std::move(inner);
    append(std::move(s));
  }

  kernel::Kernel& k_;
  int lanes_ = 1;
  bool lanes_fold_ = false;
  NodeId node_ = kNoNode;
  std::set<Handle> constants_;  // and what is computed of nothing else: the same in all threads
  std::vector<kernel::Block*> blocks_;
};

}  // namespace bz::compiler
