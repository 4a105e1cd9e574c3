#include "ir/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace bz {
namespace {

using Atom = Index::Atom;

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (auto c = a.kind <=> b.kind; c != 0) return c;
  if (a.kind == Atom::Kind::var) return a.variable.id <=> b.variable.id;
  if (auto c = a.divisor <=> b.divisor; c != 0) return c;
  return a.argument <=> b.argument;
}

std::int64_t floor_div(std::int64_t a, std::int64_t c) { return a >= 0 ? a / c : -((-a + c - 1) / c); }

// e = c * quotient + rest, with every coefficient of `rest` below c in magnitude and its constant in [0, c).
struct Split {
  Index quotient, rest;
};

Index term(const Index::Term& t);

Split split(const Index& e, std::int64_t c) {
  Split s;
  for (const Index::Term& t : e.terms()) {
    const std::int64_t whole = t.coef / c;
    if (whole != 0) s.quotient = s.quotient + term({t.atom, whole});
    if (whole * c != t.coef) s.rest = s.rest + term({t.atom, t.coef - whole * c});
  }
  const std::int64_t whole = floor_div(e.constant(), c);
  s.quotient = s.quotient + Index(whole);
  s.rest = s.rest + Index(e.constant() - whole * c);
  return s;
}

// floor((g * big + small) / c) is floor(big / (c / g)) when g divides c and 0 <= small < g; (.. mod c) is
// g * (big mod (c / g)) + small. Looks for such a g > 1 among the coefficients of `rest`.
struct Coarse {
  std::int64_t g = 1;
  Index big, small;
};

Coarse coarsen(const Index& rest, std::int64_t c) {
  for (const Index::Term& candidate : rest.terms()) {
    const std::int64_t g = std::gcd(candidate.coef, c);
    if (g == 1) continue;
    Coarse result{g, Index(floor_div(rest.constant(), g)),
                  Index(rest.constant() - floor_div(rest.constant(), g) * g)};
    for (const Index::Term& t : rest.terms()) {
      if (t.coef % g == 0) {
        result.big = result.big + term({t.atom, t.coef / g});
      } else {
        result.small = result.small + term(t);
      }
    }
    if (result.small.lo() >= 0 && result.small.hi() < g) return result;
  }
  return {};
}

}  // namespace

// Builds the one-term expression coef * atom.
struct IndexBuilder {
  static Index term(const Index::Term& t) {
    Index e;
    e.add_term(t.atom, t.coef);
    e.normalize();
    return e;
  }
};

namespace {
Index term(const Index::Term& t) { return IndexBuilder::term(t); }
}  // namespace

Index Index::var(const IndexVar& v) {
  if (v.extent == 1) return Index(0);
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::var;
  atom->variable = v;
  atom->lo = 0;
  atom->hi = std::max<std::int64_t>(v.extent - 1, 0);
  return IndexBuilder::term({std::move(atom), 1});
}

void Index::add_term(const std::shared_ptr<const Atom>& atom, std::int64_t coef) {
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), atom,
                                   [](const Term& t, const auto& a) { return compare(*t.atom, *a) < 0; });
  if (at != terms_.end() && compare(*at->atom, *atom) == 0) {
    at->coef += coef;
    if (at->coef == 0) terms_.erase(at);
  } else if (coef != 0) {
    terms_.insert(at, {atom, coef});
  }
}

// Joins c * k * floor(e / c) + k * (e mod c) into k * e, then computes the bounds.
void Index::normalize() {
  for (bool again = true; again;) {
    again = false;
    for (std::size_t m = 0; m < terms_.size() && !again; ++m) {
      if (terms_[m].atom->kind != Atom::Kind::mod) continue;
      for (std::size_t d = 0; d < terms_.size() && !again; ++d) {
        const Atom& div = *terms_[d].atom;
        const Atom& rem = *terms_[m].atom;
        if (div.kind != Atom::Kind::div || div.divisor != rem.divisor || div.argument != rem.argument)
          continue;
        if (terms_[d].coef != terms_[m].coef * rem.divisor) continue;
        const Index whole = rem.argument * terms_[m].coef;
        terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(std::max(m, d)));
        terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(std::min(m, d)));
        for (const Term& t : whole.terms_) add_term(t.atom, t.coef);
        constant_ += whole.constant_;
        again = true;
      }
    }
  }
  lo_ = hi_ = constant_;
  for (const Term& t : terms_) {
    lo_ += t.coef > 0 ? t.coef * t.atom->lo : t.coef * t.atom->hi;
    hi_ += t.coef > 0 ? t.coef * t.atom->hi : t.coef * t.atom->lo;
  }
}

Index operator+(const Index& a, const Index& b) {
  Index sum = a;
  for (const Index::Term& t : b.terms_) sum.add_term(t.atom, t.coef);
  sum.constant_ += b.constant_;
  sum.normalize();
  return sum;
}

Index operator-(const Index& a, const Index& b) { return a + b * -1; }

Index operator*(const Index& a, std::int64_t c) {
  if (c == 0) return Index(0);
  Index product = a;
  for (Index::Term& t : product.terms_) t.coef *= c;
  product.constant_ *= c;
  product.normalize();
  return product;
}

Index floordiv(const Index& a, std::int64_t c) {
  check(c > 0, "floordiv by a number that is not positive");
  if (c == 1) return a;
  auto [quotient, rest] = split(a, c);
  if (rest.lo() >= 0 && rest.hi() < c) return quotient;
  if (const Coarse coarse = coarsen(rest, c); coarse.g > 1)
    return quotient + floordiv(coarse.big, c / coarse.g);
  if (rest.terms().size() == 1 && rest.constant() == 0 && rest.terms()[0].coef == 1 &&
      rest.terms()[0].atom->kind == Index::Atom::Kind::div) {
    const Index::Atom& inner = *rest.terms()[0].atom;
    return quotient + floordiv(inner.argument, inner.divisor * c);
  }
  auto atom = std::make_shared<Index::Atom>();
  atom->kind = Index::Atom::Kind::div;
  atom->argument = rest;
  atom->divisor = c;
  atom->lo = floor_div(rest.lo(), c);
  atom->hi = floor_div(rest.hi(), c);
  if (atom->lo == atom->hi) return quotient + Index(atom->lo);
  return quotient + term({std::move(atom), 1});
}

Index mod(const Index& a, std::int64_t c) {
  check(c > 0, "mod by a number that is not positive");
  if (c == 1) return Index(0);
  Index rest = split(a, c).rest;
  if (rest.lo() >= 0 && rest.hi() < c) return rest;
  if (const Coarse coarse = coarsen(rest, c); coarse.g > 1) {
    return mod(coarse.big, c / coarse.g) * coarse.g + coarse.small;
  }
  if (rest.terms().size() == 1 && rest.constant() == 0 && rest.terms()[0].coef == 1 &&
      rest.terms()[0].atom->kind == Index::Atom::Kind::mod && rest.terms()[0].atom->divisor % c == 0) {
    return mod(rest.terms()[0].atom->argument, c);
  }
  auto atom = std::make_shared<Index::Atom>();
  atom->kind = Index::Atom::Kind::mod;
  atom->argument = rest;
  atom->divisor = c;
  atom->lo = 0;
  atom->hi = c - 1;
  return term({std::move(atom), 1});
}

Index with_remainders(Index e) {
  const std::vector<Index::Term> terms = e.terms();
  for (const Index::Term& t : terms) {
    if (t.atom->kind != Index::Atom::Kind::div || t.coef % t.atom->divisor != 0) continue;
    const Index &a = t.atom->argument, quotient = floordiv(a, t.atom->divisor);
    const Index other = e - quotient * t.coef + (a - mod(a, t.atom->divisor)) * (t.coef / t.atom->divisor);
    if (other.hi() - other.lo() < e.hi() - e.lo()) e = other;
  }
  return e;
}

std::strong_ordering operator<=>(const Index& a, const Index& b) {
  if (auto c = a.terms_.size() <=> b.terms_.size(); c != 0) return c;
  for (std::size_t i = 0; i < a.terms_.size(); ++i) {
    if (auto c = a.terms_[i].coef <=> b.terms_[i].coef; c != 0) return c;
    if (auto c = compare(*a.terms_[i].atom, *b.terms_[i].atom); c != 0) return c;
  }
  return a.constant_ <=> b.constant_;
}

bool Index::uses(std::int32_t var) const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const Term& t) {
    return t.atom->kind == Atom::Kind::var ? t.atom->variable.id == var : t.atom->argument.uses(var);
  });
}

std::int32_t Index::as_var() const {
  const bool single = terms_.size() == 1 && constant_ == 0 && terms_[0].coef == 1;
  return single && terms_[0].atom->kind == Atom::Kind::var ? terms_[0].atom->variable.id : -1;
}

Index Index::substitute(const std::function<const Index*(std::int32_t)>& value) const {
  Index result(constant_);
  for (const Term& t : terms_) {
    switch (t.atom->kind) {
      case Atom::Kind::var: {
        const Index* replacement = value(t.atom->variable.id);
        result = result + (replacement != nullptr ? *replacement * t.coef : IndexBuilder::term(t));
        break;
      }
      case Atom::Kind::div:
        result = result + floordiv(t.atom->argument.substitute(value), t.atom->divisor) * t.coef;
        break;
      case Atom::Kind::mod:
        result = result + mod(t.atom->argument.substitute(value), t.atom->divisor) * t.coef;
        break;
    }
  }
  return result;
}

std::int64_t Index::evaluate(const std::function<std::int64_t(std::int32_t)>& value) const {
  std::int64_t sum = constant_;
  for (const Term& t : terms_) {
    switch (t.atom->kind) {
      case Atom::Kind::var: sum += t.coef * value(t.atom->variable.id); break;
      case Atom::Kind::div:
        sum += t.coef * floor_div(t.atom->argument.evaluate(value), t.atom->divisor);
        break;
      case Atom::Kind::mod: {
        const std::int64_t a = t.atom->argument.evaluate(value);
        sum += t.coef * (a - floor_div(a, t.atom->divisor) * t.atom->divisor);
        break;
      }
    }
  }
  return sum;
}

void Index::collect_vars(std::vector<IndexVar>& out) const {
  for (const Term& t : terms_) {
    if (t.atom->kind != Atom::Kind::var) {
      t.atom->argument.collect_vars(out);
    } else if (std::find(out.begin(), out.end(), t.atom->variable) == out.end()) {
      out.push_back(t.atom->variable);
    }
  }
}

std::string Index::str(const std::function<std::string(std::int32_t)>& name) const {
  std::string text;
  // Largest coefficient first: the order in which people write an address.
  std::vector<Term> ordered = terms_;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Term& a, const Term& b) { return a.coef > b.coef; });
  for (const Term& t : ordered) {
    std::string factor;
    switch (t.atom->kind) {
      case Atom::Kind::var: factor = name(t.atom->variable.id); break;
      case Atom::Kind::div:
      case Atom::Kind::mod: {
        const std::string argument = t.atom->argument.str(name);
        const bool simple = t.atom->argument.as_var() >= 0;
        factor = fmt::format("{}{}{}", simple ? argument : "(" + argument + ")",
                             t.atom->kind == Atom::Kind::div ? "/" : "%", t.atom->divisor);
        if (t.coef != 1) factor = "(" + factor + ")";
        break;
      }
    }
    const std::int64_t magnitude = t.coef < 0 ? -t.coef : t.coef;
    if (magnitude != 1) factor += fmt::format("*{}", magnitude);
    if (text.empty()) {
      text = (t.coef < 0 ? "-" : "") + factor;
    } else {
      text += (t.coef < 0 ? " - " : " + ") + factor;
    }
  }
  if (text.empty()) return fmt::format("{}", constant_);
  if (constant_ != 0)
    text += fmt::format(" {} {}", constant_ < 0 ? '-' : '+', constant_ < 0 ? -constant_ : constant_);
  return text;
}

}  // namespace bz
