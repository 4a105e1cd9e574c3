#include "ir/interpret/reduce.h"

#include <algorithm>
#include <bit>

namespace bz::interpret_detail {
namespace {

// Reductions of at most this many elements have one lane for each result.
constexpr std::int64_t kShort = 32;

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
        identity_(monoid_.identity(operand)) {
    for (const Scalar& s : identity_) state_.push_back(state_arena_.take(s.dtype));
  }

  void run(const Array& out, std::int64_t outputs) {
    if (reduced_ == 0) {
      fill(out, outputs, identity_[static_cast<std::size_t>(attrs_.component)]);
    } else if (reduced_ <= kShort) {
      run_short(out, outputs);
    } else {
      for (std::int64_t o = 0; o < outputs; ++o) run_long(out.at(o), o * reduced_);
    }
  }

 private:
  const Array& component() const { return state_[static_cast<std::size_t>(attrs_.component)]; }

  void start(std::int64_t lanes) {
    for (std::size_t c = 0; c < state_.size(); ++c) fill(state_[c], lanes, identity_[c]);
  }

  // state[0 .. count) = combine(state[0 .. count), elements). The builder holds `elements` and, in `valid`,
  // whether they are there (-1: all are).
  void accumulate(std::int64_t count, const Handles& elements, ScalarBuilder::Handle valid) {
    Handles lifted = elements;
    if (!attrs_.merge) {
      lifted = monoid_.lift(builder_, operand_, std::span(&elements, 1), {valid});
    } else if (valid >= 0) {
      for (std::size_t c = 0; c < lifted.size(); ++c) {
        const Handles choice = {valid, lifted[c], builder_.constant(identity_[c])};
        lifted[c] = builder_.apply(ScalarOp::select, choice, identity_[c].dtype);
      }
    }
    combine_into_state(count, lifted);
  }

  void combine_into_state(std::int64_t count, const Handles& right) {
    Handles left;
    for (const Array& a : state_) left.push_back(builder_.wrap(a));
    const Handles combined = monoid_.combine(builder_, operand_, left, right);
    for (std::size_t c = 0; c < state_.size(); ++c) copy(builder_.array(combined[c]), state_[c], count);
  }

  // The index operand that a user's argmax leaves out: `first`, `first` + `step`, ...
  ScalarBuilder::Handle implicit_index(std::int64_t count, std::int64_t first, std::int64_t step) {
    const Array index = builder_.fresh(DType::i64);
    for (std::int64_t k = 0; k < count; ++k) index.i()[k] = first + k * step;
    return builder_.wrap(index);
  }
  bool has_implicit_index() const { return !attrs_.merge && operands_ < monoid_.inputs; }

  // One result whose elements begin at `begin`: element r goes to lane r mod kTile.
  void run_long(const Array& out, std::int64_t begin) {
    const std::int64_t lanes =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(reduced_, kTile))));
    start(lanes);
    for (std::int64_t r = 0; r < reduced_; r += kTile) {
      const std::int64_t count = std::min(kTile, reduced_ - r);
      tape_.run(begin + r, count);
      builder_.reset(count);
      Handles elements;
      for (int k = 0; k < operands_; ++k)
        elements.push_back(builder_.wrap(tape_.result(static_cast<std::size_t>(k))));
      if (has_implicit_index()) elements.push_back(implicit_index(count, r, 1));
      const bool masked = tape_.present().data != nullptr;
      accumulate(count, elements, masked ? builder_.wrap(tape_.present()) : -1);
    }
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
      builder_.reset(half);
      Handles upper;
      for (const Array& a : state_) upper.push_back(builder_.wrap(a.at(half)));
      combine_into_state(half, upper);
    }
    copy(component(), out, 1);
  }

  // Tiles of whole results: lane o takes the elements of result o one after the other.
  void run_short(const Array& out, std::int64_t outputs) {
    const std::int64_t most = kTile / reduced_;
    for (std::int64_t o = 0; o < outputs; o += most) {
      const std::int64_t lanes = std::min(most, outputs - o);
      tape_.run(o * reduced_, lanes * reduced_);
      start(lanes);
      for (std::int64_t r = 0; r < reduced_; ++r) {
        builder_.reset(lanes);
        Handles elements;
        for (int k = 0; k < operands_; ++k)
          elements.push_back(gather(tape_.result(static_cast<std::size_t>(k)), r, lanes));
        if (has_implicit_index()) elements.push_back(implicit_index(lanes, r, 0));
        const bool masked = tape_.present().data != nullptr;
        accumulate(lanes, elements, masked ? gather(tape_.present(), r, lanes) : -1);
      }
      copy(component(), out.at(o), lanes);
    }
  }

  ScalarBuilder::Handle gather(const Array& from, std::int64_t first, std::int64_t lanes) {
    const Array to = builder_.fresh(from.dtype);
    if (is_float(from.dtype)) {
      for (std::int64_t k = 0; k < lanes; ++k) to.f()[k] = from.f()[first + k * reduced_];
    } else {
      for (std::int64_t k = 0; k < lanes; ++k) to.i()[k] = from.i()[first + k * reduced_];
    }
    return builder_.wrap(to);
  }

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
