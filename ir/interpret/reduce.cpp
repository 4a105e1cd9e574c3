#include "ir/interpret/reduce.h"

#include <algorithm>

namespace bz::interpret_detail {
namespace {

// Scalar arithmetic on the first `count` lanes of arrays: a handle is an array.
class ArrayBuilder : public ScalarBuilder {
 public:
  void reset(std::int64_t count) {
    count_ = count;
    arrays_.clear();
    arena_.reset();
  }
  Handle wrap(const Array& array) {
    arrays_.push_back(array);
    return static_cast<Handle>(arrays_.size()) - 1;
  }
  Array fresh(DType dtype) { return arena_.take(dtype); }
  const Array& array(Handle h) const { return arrays_[static_cast<std::size_t>(h)]; }

  Handle apply(ScalarOp op, std::span<const Handle> args, DType result) override {
    std::vector<Array> arrays;
    for (Handle h : args) arrays.push_back(array(h));
    const Array out = fresh(result);
    interpret_detail::apply(op, arrays, out, count_);
    return wrap(out);
  }
  Handle constant(const Scalar& value) override {
    const Array out = fresh(value.dtype);
    fill(out, count_, value);
    return wrap(out);
  }

 private:
  std::int64_t count_ = 0;
  std::vector<Array> arrays_;
  Arena arena_;
};

class Reducer {
 public:
  Reducer(const ReduceAttrs& attrs, Tape& tape, int operands, DType operand, std::int64_t reduced)
      : attrs_(attrs),
        monoid_(info(attrs.monoid)),
        tape_(tape),
        operands_(operands),
        operand_(operand),
        reduced_(reduced),
        identity_(monoid_.identity(operand, inputs_of(monoid_, operands, attrs.merge))) {
    for (const Scalar& s : identity_) state_.push_back(state_arena_.take(s.dtype));
  }

  void run(const Array& out, std::int64_t outputs) {
    if (reduced_ == 0) {
      fill(out, outputs, identity_[static_cast<std::size_t>(attrs_.component)]);
    } else if (reduced_ <= kTile) {
      run_short(out, outputs);
    } else {
      for (std::int64_t o = 0; o < outputs; ++o) run_long(out.at(o), o * reduced_);
    }
  }

 private:
  // Tiles of whole results.
  void run_short(const Array& out, std::int64_t outputs) {
    const std::int64_t most = kTile / reduced_;
    for (std::int64_t o = 0; o < outputs; o += most) {
      const std::int64_t rows = std::min(most, outputs - o);
      store(lift(o * reduced_, rows * reduced_, 0), rows * reduced_);
      fold(rows, reduced_);
      copy(component(), out.at(o), rows);
    }
  }

  // One result, its elements from `begin` on dealt to kTile lanes.
  void run_long(const Array& out, std::int64_t begin) {
    store(lift(begin, kTile, 0), kTile);
    for (std::int64_t r = kTile; r < reduced_; r += kTile) {
      const std::int64_t count = std::min(kTile, reduced_ - r);
      const Handles lifted = lift(begin + r, count, r);
      store(combine(state_, lifted), count);
    }
    fold(1, kTile);
    copy(component(), out, 1);
  }

  // The states of the elements begin .. begin + count, of which the first is element `first` of its result.
  Handles lift(std::int64_t begin, std::int64_t count, std::int64_t first) {
    tape_.run(begin, count);
    builder_.reset(count);
    Handles elements;
    for (int k = 0; k < operands_; ++k) {
      elements.push_back(builder_.wrap(tape_.result(static_cast<std::size_t>(k))));
    }
    const ScalarBuilder::Handle valid =
        tape_.present().data != nullptr ? builder_.wrap(tape_.present()) : ScalarBuilder::Handle{-1};
    if (!attrs_.merge) {
      if (operands_ < monoid_.inputs) elements.push_back(implicit_index(count, first));
      return monoid_.lift(builder_, operand_, std::span(&elements, 1), {valid});
    }
    if (valid < 0) return elements;
    for (std::size_t c = 0; c < elements.size(); ++c) {
      const Handles choice = {valid, elements[c], builder_.constant(identity_[c])};
      elements[c] = builder_.apply(ScalarOp::select, choice, identity_[c].dtype);
    }
    return elements;
  }

  // The index operand that a user's argmax leaves out.
  ScalarBuilder::Handle implicit_index(std::int64_t count, std::int64_t first) {
    const Array index = builder_.fresh(DType::i64);
    for (std::int64_t k = 0; k < count; ++k) index.i()[k] = (first + k) % reduced_;
    return builder_.wrap(index);
  }

  Handles combine(const std::vector<Array>& left, const Handles& right) {
    Handles wrapped;
    for (const Array& a : left) wrapped.push_back(builder_.wrap(a));
    return monoid_.combine(builder_, operand_, wrapped, right);
  }

  void store(const Handles& from, std::int64_t count) {
    for (std::size_t c = 0; c < state_.size(); ++c) copy(builder_.array(from[c]), state_[c], count);
  }

  // From `rows` rows of `width` states to one state a row: the last half of each row is combined with the
  // first, all rows at once, until one column is left.
  void fold(std::int64_t rows, std::int64_t width) {
    while (width > 1) {
      const std::int64_t half = width / 2, rest = width - half;
      builder_.reset(rows * half);
      std::vector<Array> left;
      Handles right;
      for (const Array& a : state_) {
        left.push_back(builder_.fresh(a.dtype));
        const Array upper = builder_.fresh(a.dtype);
        for (std::int64_t row = 0; row < rows; ++row) {
          copy(a.at(row * width), left.back().at(row * half), half);
          copy(a.at(row * width + rest), upper.at(row * half), half);
        }
        right.push_back(builder_.wrap(upper));
      }
      const Handles combined = combine(left, right);
      for (std::size_t c = 0; c < state_.size(); ++c) {
        for (std::int64_t row = 0; row < rows; ++row) {
          copy(builder_.array(combined[c]).at(row * half), state_[c].at(row * rest), half);
          copy(state_[c].at(row * width + half), state_[c].at(row * rest + half), rest - half);
        }
      }
      width = rest;
    }
  }

  const Array& component() const { return state_[static_cast<std::size_t>(attrs_.component)]; }

  const ReduceAttrs& attrs_;
  const MonoidInfo& monoid_;
  Tape& tape_;
  const int operands_;
  const DType operand_;
  const std::int64_t reduced_;
  const std::vector<Scalar> identity_;
  Arena state_arena_;
  std::vector<Array> state_;
  ArrayBuilder builder_;
};

}  // namespace

BufferRef reduce(const ReduceAttrs& attrs, Tape& tape, int operands, DType operand, DType result,
                 std::int64_t outputs, std::int64_t reduced) {
  auto buffer = std::make_shared<Buffer>(result, outputs);
  Reducer(attrs, tape, operands, operand, reduced).run(buffer->array(), outputs);
  return buffer;
}

}  // namespace bz::interpret_detail
