// States of reductions: components side by side, in values or in arrays. A monoid is known by its row in the table alone.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/lower/context.h"

namespace bz::compiler {

class States {
 public:
  explicit States(const StageContext& stage) : stage_(stage), b_(stage.builder) {}

  // Lanes of a state: one for each domain of a vector.
  int width() const { return stage_.schedule.lanes_reduced ? 1 : stage_.schedule.vector; }
  std::vector<DType> dtypes(int r) const { return stage_.reduction(r).component_dtypes(); }

  Handles combine(int r, const Handles& a, const Handles& b) const;
  // What follows helps to compute the first of the nodes that are components of the reduction.
  void at(int r) const;

  // Arrays of a thread, one for each component, of some types and with some values in them.
  std::vector<kernel::ArrayId> arrays(int r, std::string_view name, const std::vector<DType>& types,
                                      const std::vector<Scalar>& values) const;
  // In number `place` of the arrays.
  Handles get(const std::vector<DType>& types, const std::vector<kernel::ArrayId>& arrays,
              const Index& place = Index(0)) const;
  void set(const std::vector<kernel::ArrayId>& arrays, const Handles& state,
           const Index& place = Index(0)) const;
  // Of one domain: an element of the arrays.
  Handles get_at(const std::vector<DType>& types, const std::vector<kernel::ArrayId>& arrays,
                 const Index& element) const;
  void set_at(const std::vector<kernel::ArrayId>& arrays, const Handles& state, const Index& element) const;
  // The element of an array.
  Index element(const Index& place) const {
    return place * width() + (stage_.schedule.lanes_reduced ? Index(0) : stage_.lane);
  }

 private:
  const StageContext& stage_;
  KernelBuilder& b_;
};

}  // namespace bz::compiler
