// Graphs and the tensors in them, as a C++ program sees them.
//
//   bz::Graph g("scaled");
//   bz::Tensor x = g.input("x", bz::f32, {4, 8});
//   g.output("y", x * 0.5);
//
// A Tensor is a handle on a node of a graph: cheap to copy, and valid as long as it exists. Types are
// inferred as the program is built, so a mistake is an Error at the line that makes it.
//
// How lines are known: every function takes its tensors as `Arg` or `Operand`, which a Tensor (for Operand
// also a number) turns into where the function is called, and whose constructor notes that place. That works
// for operators too, which cannot have default arguments. The location is that of the first operand.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>

#include "ir/graph.h"

namespace bz {

inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f64 = DType::f64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i64 = DType::i64;
inline constexpr DType boolean = DType::boolean;

// A line of the caller's source.
struct Place {
  const char* file = "";
  int line = 0;

  static Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  SourceLoc loc() const;  // with the name of the file alone
};

// A bool, an integer or a floating-point number that takes the type of the tensor it meets.
class Number {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Number(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      value_ = static_cast<double>(value);
    } else if constexpr (std::same_as<T, std::uint64_t> || std::same_as<T, unsigned long long>) {
      if (value > static_cast<T>(INT64_MAX)) {
        value_ = static_cast<double>(value);
      } else {
        value_ = static_cast<std::int64_t>(value);
      }
    } else {
      value_ = static_cast<std::int64_t>(value);
    }
  }

  // nullopt when the number is not a value of the type: 0.5 of i32, 3e9 of i32, 1e39 of f32, 2 of bool.
  std::optional<Scalar> as(DType dtype) const;
  std::string text() const;

 private:
  std::variant<std::int64_t, double> value_ = std::int64_t{0};
};

// A node of a graph. One that was made without a graph is empty: where a function has optional tensors
// (gamma and beta of norms), an empty one stands for "none".
class Tensor {
 public:
  Tensor() = default;

  bool empty() const { return graph_ == nullptr; }
  DType dtype(Place at = Place::here()) const { return type(at).dtype; }
  const Shape& shape(Place at = Place::here()) const { return type(at).shape; }
  int rank(Place at = Place::here()) const { return type(at).rank(); }
  std::int64_t size(int axis, Place at = Place::here()) const;  // extent; a negative axis counts from the end
  const Type& type(Place at = Place::here()) const;

  // The name that dumps show; returns the tensor.
  Tensor named(std::string name, Place at = Place::here()) const;

  // The same as the functions of these names in braze/operations.h.
  Tensor cast(DType dtype, Place at = Place::here()) const;
  Tensor broadcast_to(Shape shape, Place at = Place::here()) const;
  Tensor reshape(Shape shape, Place at = Place::here()) const;
  Tensor permute(Axes perm, Place at = Place::here()) const;
  Tensor transpose(int axis0, int axis1, Place at = Place::here()) const;
  Tensor flip(Axes axes, Place at = Place::here()) const;

  NodeId node() const { return node_; }
  const std::shared_ptr<ir::Graph>& graph() const { return graph_; }

 private:
  friend class Graph;
  friend Tensor wrap(std::shared_ptr<ir::Graph> graph, NodeId node);
  Tensor(std::shared_ptr<ir::Graph> graph, NodeId node) : graph_(std::move(graph)), node_(node) {}

  std::shared_ptr<ir::Graph> graph_;
  NodeId node_ = kNoNode;
};

// A tensor as an argument, with the line it is passed on.
struct Arg {
  Arg(const Tensor& tensor, Place at = Place::here()) : tensor(tensor), at(at) {}

  Tensor tensor;
  Place at;
};

// A tensor or a number as an argument, with the line it is passed on.
struct Operand {
  Operand(const Tensor& tensor, Place at = Place::here()) : tensor(tensor), at(at) {}
  Operand(const Arg& arg) : tensor(arg.tensor), at(arg.at) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value, Place at = Place::here())
      : number(value), is_number(true), at(at) {}

  Tensor tensor;
  Number number = 0;
  bool is_number = false;
  Place at;
};

// A program under construction.
class Graph {
 public:
  explicit Graph(std::string name = "main");
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  Tensor input(std::string name, DType dtype, Shape shape, Place at = Place::here());
  // Every element is `value`; Error when it is not a value of the type.
  Tensor constant(DType dtype, Number value, Shape shape = {}, Place at = Place::here());
  // The index along `axis`, 0, 1, 2, ...
  Tensor iota(DType dtype, Shape shape, int axis, Place at = Place::here());
  void output(std::string name, const Arg& x);

  const ir::Graph& ir() const { return *graph_; }
  std::string text() const;  // the program in the form of .braze files

 private:
  std::shared_ptr<ir::Graph> graph_;
};

}  // namespace bz
