// Index expressions: integer arithmetic over loop variables, kept in a normal form so that equal expressions compare
// equal and reshape chains fold away.
//
//   Index i = Index::var(v0), j = Index::var(v1);     // 0 <= v0 < 64, 0 <= v1 < 128
//   floordiv(i * 128 + j, 128)                         // is i
//   mod(i * 128 + j, 128)                              // is j
//
// An expression is constant + sum of coefficient * atom; an atom is a variable, floor(e / c) or e mod c with c > 0.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace bz {

// A loop variable: 0 <= value < extent. Identity is the number.
struct IndexVar {
  std::int32_t id = -1;
  std::int64_t extent = 1;
  friend bool operator==(const IndexVar& a, const IndexVar& b) { return a.id == b.id; }
};

class Index {
 public:
  struct Atom;
  struct Term {
    std::shared_ptr<const Atom> atom;
    std::int64_t coef;
  };

  Index(std::int64_t constant = 0) : constant_(constant), lo_(constant), hi_(constant) {}  // NOLINT
  static Index var(const IndexVar& v);

  const std::vector<Term>& terms() const { return terms_; }
  std::int64_t constant() const { return constant_; }
  bool is_constant() const { return terms_.empty(); }
  std::int64_t lo() const { return lo_; }  // inclusive bounds over all values of the variables
  std::int64_t hi() const { return hi_; }
  bool uses(std::int32_t var) const;
  // When the whole expression is one variable, its id; else -1.
  std::int32_t as_var() const;

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator-(const Index& a, const Index& b);
  friend Index operator*(const Index& a, std::int64_t c);
  friend Index floordiv(const Index& a, std::int64_t c);  // c > 0
  friend Index mod(const Index& a, std::int64_t c);       // c > 0, result in [0, c)
  // Equal to e, with terms c d floor(a / d) written as c a - c (a mod d) wherever that brings the bounds closer.
  friend Index with_remainders(Index e);
  friend std::strong_ordering operator<=>(const Index& a, const Index& b);
  friend bool operator==(const Index& a, const Index& b) { return (a <=> b) == 0; }

  // Replaces variables, simplifying again. `value(id)` returns nullptr to keep a variable.
  Index substitute(const std::function<const Index*(std::int32_t)>& value) const;
  std::int64_t evaluate(const std::function<std::int64_t(std::int32_t)>& value) const;
  void collect_vars(std::vector<IndexVar>& out) const;  // each once

  // "k*1024 + a + 3"; `name(id)` gives a variable's name.
  std::string str(const std::function<std::string(std::int32_t)>& name) const;

 private:
  friend struct IndexBuilder;
  void add_term(const std::shared_ptr<const Atom>& atom, std::int64_t coef);
  void normalize();
  std::vector<Term> terms_;
  std::int64_t constant_ = 0;
  std::int64_t lo_ = 0, hi_ = 0;
};

struct Index::Atom {
  enum class Kind : std::uint8_t { var, div, mod };
  Kind kind;
  IndexVar variable;         // var
  Index argument;            // div, mod
  std::int64_t divisor = 1;  // div, mod
  std::int64_t lo = 0, hi = 0;
};

// lo <= e < hi.
struct IndexBound {
  Index e;
  std::int64_t lo = 0, hi = 0;
  bool always() const { return e.lo() >= lo && e.hi() < hi; }
  friend auto operator<=>(const IndexBound&, const IndexBound&) = default;
  friend bool operator==(const IndexBound&, const IndexBound&) = default;
};

}  // namespace bz
