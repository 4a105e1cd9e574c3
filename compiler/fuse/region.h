// A region: a set of graph nodes that becomes one kernel, with the views already turned into index arithmetic.
//
// The region's index space has two groups of variables, kept and reduced. Every reduction of the region runs over all
// reduced variables at one point of the kept ones: that point and its slice are a *domain*, and domains never talk to
// each other. For softmax over rows the kept variables are the rows and the reduced ones the columns; a pointwise
// region has no reduced variables. Where regions over different axes share a kernel (group.h), the variables that they
// have in common are the `outer` ones; the kept ones lie inside them.
//
// An Expr is the value of a node at given index expressions. Those that depend on a reduced variable *vary* inside a
// domain; the others have one value for each domain. Reductions cut the work on a domain into phases: an expression
// of phase p needs the results of reductions of phases below p.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/index.h"

namespace bz::compiler {

using ExprId = int;

struct Expr {
  enum class Kind : std::uint8_t {
    load,      // element `index` of `source`
    constant,  // `value`
    index,     // the number `index`
    map,       // `op` on operands
    pad,       // operands[0] where `where` holds, else `value`
    scaled_exp,  // of operands[0] and its pivot, operands[1]; operands[2] is the thread's least: see kernel::ScaledExp
    exp_factor,  // of the pivot
    reduce,      // component `component` of reductions[`reduction`]
  };
  Kind kind = Kind::load;
  NodeId node = kNoNode;     // the graph node this is a value of
  DType dtype = DType::f32;  // compute type
  std::vector<ExprId> operands;
  ScalarOp op = ScalarOp::add;
  DType cast = DType::f32;  // of a cast or an index: the node's own type, to which it rounds
  Index index;
  std::vector<IndexBound> where;  // of a load: where it may be read
  Scalar value;
  NodeId source = kNoNode;
  DType stored = DType::f32;  // of a load: the type in memory
  bool temporary = false;     // of a load: from a temporary, not from an input or output
  int table = -1;             // of a load: from this table of the group, not from memory
  int reduction = -1;
  int component = 0;
  bool varies = false;
  int phase = 0;
};

// What a reduction goes over. Threads share a domain (schedule.h): a form of a region for that may have what each thread reduces of
// its part, which is then that thread's own, and only later what all of them have.
enum class Over : std::uint8_t {
  domain,   // the elements of the domain
  thread,   // those that the thread itself handles
  threads,  // the threads: operands are components of a state that each has
};

struct Reduction {
  Monoid monoid = Monoid::sum;
  DType dtype = DType::f32;  // of the value operand, compute type
  bool merge = false;        // operands are components of partial states
  std::vector<ExprId> operands;
  std::vector<IndexBound> where;  // elements that take part
  int phase = 0;
  Over over = Over::domain;

  // Whether threads that share a domain have to tell each other.
  bool exchanges() const { return over != Over::thread; }
  // The form in which a thread takes in elements, so many at once; nullptr: the state.
  const Running* running(int elements) const {
    const Running* r = merge || operands.size() > 1 ? nullptr : info(monoid).running;
    return r != nullptr && elements >= r->least ? r : nullptr;
  }
  std::vector<DType> component_dtypes() const { return info(monoid).component_dtypes(dtype, inputs()); }
  std::vector<Scalar> identity() const { return info(monoid).identity(dtype, inputs()); }

 private:
  int inputs() const { return inputs_of(info(monoid), static_cast<int>(operands.size()), merge); }
};

// A node that the region stores.
struct Root {
  NodeId node = kNoNode;
  ExprId expr = -1;
  Index offset;  // element of the node's tensor
  DType stored = DType::f32;
  bool varies = false;  // has more than one element in a domain, of one value or several
  bool temporary =
      false;  // stored for other regions, in the compute type: what fusion does not round, a cut must not
  int table = -1;                 // stored in this table of the group, not in memory
  std::vector<IndexBound> where;  // of a root that varies: the elements that are stored
};

std::int64_t product(const std::vector<IndexVar>& vars);  // of the extents
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Region {
  std::string name;
  std::vector<IndexVar> outer, kept, reduced;  // outermost first, in the order they are flattened
  std::vector<std::string> var_names;          // by variable id
  std::vector<Expr> exprs;                     // operands first
  std::vector<Reduction> reductions;           // in order of phase
  std::vector<Root> roots;
  bool fast_math = false;  // of the program: operations on f32 take fewer instructions

  std::int64_t teams() const;        // product of the outer extents
  std::int64_t domains() const;      // product of the kept extents: domains of one team
  std::int64_t domain_size() const;  // product of the reduced extents
  int phases() const;                // passes over a domain
  // The pass in which a root is stored.
  int phase_of(const Root& r) const { return exprs[static_cast<std::size_t>(r.expr)].phase; }
  // The expression that a root stores: its own, or what that rounds where storing rounds the same way.
  ExprId stored(const Root& r) const;
  std::vector<NodeId> sources() const;  // each node loaded, once, in order of id
};

std::string print(const Region& region, const ir::Graph& graph);
// With other names for the nodes that are loaded and stored.
std::string print(const Region& region, const std::function<std::string(NodeId)>& label);

}  // namespace bz::compiler
