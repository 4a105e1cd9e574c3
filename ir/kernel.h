// Kernel IR: a small structured loop language, one Kernel a GPU kernel. It is what lowering writes, what a person
// reads to understand a kernel, and all that the emitter knows.
//
//   kernel softmax(x: f32 in, y: f32 out)  grid 4096, block 256, shared 64 bytes
//     for b in 0..4096 grid
//       for t in 0..256 thread
//         for j in 0..4 serial
//           v0 = load x[b*1024 + t*4 + lane]            f32x4
//           ...
//
// Values are immutable and have a dtype and a width: a value of width w stands for w lanes side by side in one thread.
// Index expressions may use the variable `lane`, which is 0..w-1 in the lanes; a value of width 1 next to a wider one
// serves all lanes. Whatever must change during a loop lives in an array: in registers (private to a thread) or in
// shared memory (of the block; a thread can also write to that of another block of its cluster).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/index.h"
#include "ir/ops.h"
#include "ir/shape.h"

namespace bz::kernel {

using ValueId = std::int32_t;
using ArrayId = std::int32_t;
using BufferId = std::int32_t;
inline constexpr ValueId kNone = -1;

struct Value {
  DType dtype = DType::f32;
  int width = 1;
};

// When what a load brings leaves the L2 cache: so many eighths of it last, the others first. A hint, where the device takes any.
struct Evict {
  static constexpr int kAll = 8;
  int last;
};

// A global-memory argument. Loads convert to the compute dtype, stores round to the storage dtype.
struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  bool written = false;  // an output; inputs are only read
  int alignment = 16;    // bytes, of the address
  bool shared = false;   // what some blocks of the launch write others read, or all of them count in
};

enum class Space : std::uint8_t { registers, shared };
struct Array {
  std::string name;
  DType dtype = DType::f32;  // storage: f16 and bf16 hold values of exactly that type
  std::int64_t elements = 1;
  Space space = Space::registers;
  // Of a shared one that has no place of its own: the one in whose place it begins.
  ArrayId within = kNone;
};

struct Stmt;
using Block = std::vector<Stmt>;

// ---- values ----
struct Const {
  ValueId result;
  Scalar value;
};
struct Apply {  // a scalar op, lane by lane
  ValueId result;
  ScalarOp op;
  std::vector<ValueId> args;
  bool nonpositive = false;  // of exp: the argument is never above 0, or the result does not matter
};
struct Fold {  // a commutative op over all lanes of `value`, pairwise
  ValueId result;
  ScalarOp op;
  ValueId value;
};
// The sum of exp of all `args`, and where the result has width 1 of all their lanes. None is above ScalarBuilder::kHighestTerm, or the
// result does not matter, and what could not change a sum of at least 1 may be any other number as small.
struct SumOfTerms {
  ValueId result;
  std::vector<ValueId> args;
};
// exp(x - pivot) divided by the ExpFactor of the pivot, of each x, all of one width: for what is rounded to 16 bits before anybody sees it. No x is above the
// pivot, unless one is NaN or the result does not matter. `least` (NaN if one is) is not above any x that the thread has with this pivot.
struct ScaledExp {
  std::vector<ValueId> results;
  std::vector<ValueId> x;
  ValueId pivot;
  ValueId least;
};
struct ExpFactor {
  ValueId result;
  ValueId pivot;
};
struct Lane {  // one lane of a value
  ValueId result;
  ValueId value;
  int lane;
};
struct Widen {  // a value of width 1 in every lane
  ValueId result;
  ValueId value;
};
struct IndexValue {  // the value of an index expression
  ValueId result;
  Index index;
};
struct Inside {  // whether all bounds hold
  ValueId result;
  std::vector<IndexBound> bounds;
};
// ---- memory ---- (a lane with a false mask loads some element, unspecified which, and stores nothing)
struct Load {
  ValueId result;
  BufferId buffer;
  Index offset;  // in elements
  ValueId mask = kNone;
  std::optional<Evict> evict;
};
struct Store {
  BufferId buffer;
  Index offset;
  ValueId value;
  ValueId mask = kNone;
  int width = 1;  // lanes that are stored
};
struct Get {
  ValueId result;
  ArrayId array;
  Index at;
  ValueId mask = kNone;
};
struct Set {
  ArrayId array;
  Index at;
  ValueId value;
  ValueId mask = kNone;
  int width = 1;
  std::optional<Index> rank =
      {};  // of a shared array: the block of the cluster that has it, instead of the thread's own
};
// ---- asynchronous copies ---- (of a thread to shared memory that only it reads; they may land at any time until the thread
// has waited for them, and what was there before is gone when one starts)
struct Copy {  // lanes of a buffer; 0 for those outside of it, and for all under a false mask
  ArrayId array;
  Index at;
  BufferId buffer;
  Index offset;
  ValueId mask = kNone;  // width 1
  int width = 1;
};
struct Commit {};  // the copies since the last Commit are a batch
struct Await {     // until the thread's batches have landed, but for the last `pending`
  int pending = 0;
};
// ---- threads ----
enum class Scope : std::uint8_t { block, cluster };
struct Barrier {
  Scope scope = Scope::block;
};
// ---- messages ---- (values that a thread sends to the shared memory of a block of its cluster, where a mailbox counts them;
// a mailbox is an element of a shared array of i64)
struct Start {            // the block is there, its mailboxes open
  ArrayId boxes = kNone;  // all elements are mailboxes; kNone: there are none
};
struct Started {
};  // waits until all blocks of the cluster are there; before the first access to another one, once
struct
    Send {  // each lane of `value` to `array` of block `rank`. It arrives at any time until that has received it
  ArrayId array;
  Index at;
  ValueId value;
  Index rank;
  ArrayId boxes;
  Index box;
};
struct
    Receive {  // until `bytes` bytes have been sent to the mailbox since it was last received from, `round` times before
  ArrayId boxes;
  Index box;
  Index round;
  std::int64_t bytes;
};
struct Shuffle {  // the value of lane (own ^ mask) of the warp
  ValueId result;
  ValueId value;
  int mask;
};
// ---- blocks that work on one queue (of a buffer of i32, whose elements are 0 when the kernel starts) ----
struct Signal {  // what the threads of the block have written can be read by whoever waits for it: adds 1
  BufferId buffer;
  Index offset;
};
struct Wait {  // until the element has reached `count`
  BufferId buffer;
  Index offset;
  std::int32_t count = 1;
};
// ---- gangs: blocks of a team anywhere on the device, each with a slot of a buffer of i64, 0 when the kernel starts ----
struct
    Post {  // `value`, of 4 bytes, to whoever collects it of `round`; not before all have collected what was there
  BufferId buffer;
  Index offset;
  ValueId value;
  Index round;
};
struct Collect {  // what is posted of `round` at each of the offsets, once all of it is
  std::vector<ValueId> results;
  BufferId buffer;
  std::vector<Index> offsets;
  Index round;
};
// ---- structure ----
struct Let {  // `var` is `value` in the statements that follow; where it is used, that lies in its extent
  IndexVar var;
  Index value;
};
enum class Level : std::uint8_t { grid, cluster, thread, serial };
struct For {
  IndexVar var;
  Level level;
  std::vector<Stmt> body;
  int unroll = 1;  // turns of a serial loop side by side, so that they load together
};
struct Teams {  // `var` is how many teams were launched
  IndexVar var;
};
// What the blocks do that share a turn: `var` is `first`, then `next`, which is further by `teams`, while that is below `end`, and for
// `lag` turns after that; `round` counts the turns taken before. All threads of a block, and of a cluster, take the same turns.
struct Turns {
  IndexVar var;
  std::int32_t first;  // the variable of the grid loop
  IndexVar next, round;
  std::int32_t teams;  // the variable of Teams
  std::int64_t end;
  int lag = 0;
  std::vector<Stmt> body = {};
};
// `var` is the next number of element 0 of the buffer, which no other block has: there are as many blocks as numbers, the extent of `var`.
// Numbers are taken in order by blocks that run, so that what waits for work of lower numbers waits for work that has begun. `slot` is a
// shared i32 through which the threads of the block learn of it.
struct Ticket {
  IndexVar var;
  BufferId queue;
  ArrayId slot;
};
struct If {
  ValueId condition;  // width 1
  std::vector<Stmt> body;
};
struct Comment {
  std::string text;
};

struct Stmt {
  std::variant<Const, Apply, Fold, SumOfTerms, ScaledExp, ExpFactor, Lane, Widen, IndexValue, Inside, Load,
               Store, Get, Set, Copy, Commit, Await, Barrier, Start, Started, Send, Receive, Shuffle, Signal,
               Wait, Ticket, Post, Collect, Let, For, Teams, Turns, If, Comment>
      op;
  NodeId node = kNoNode;  // the graph node that it helps to compute
};

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Array> arrays;
  std::vector<Value> values;
  std::vector<std::string> vars;  // names of index variables by id; vars[0] is "lane"
  std::int64_t grid = 1;
  int block = 1;
  int cluster = 1;          // blocks that run side by side, consecutive ones but in a gang
  bool gang = false;        // anywhere on the device, not as a cluster of its hardware
  int blocks_together = 1;  // on a multiprocessor, wanted: bounds the registers of a thread
  bool synchronizes = false;
  bool persistent = false;  // has Turns: the grid is the most that is launched
  int apart = 1;            // and fewer than that are a multiple of so many teams
  Block body;

  int shared_bytes() const;
  // Byte offset of a shared array in the block's shared memory; arrays are 16-byte aligned.
  int shared_offset(ArrayId id) const;
};

inline constexpr std::int32_t kLaneVar = 0;

std::string print(const Kernel& k);

// The lines of print(), the first being number 1: the kernel, its arrays, then one line a statement, bodies after their
// loop or condition.
struct Line {
  std::string text;  // without indentation
  int depth = 0;
  NodeId node = kNoNode;
};
std::vector<Line> lines(const Kernel& k);
// The number of the line of the first statement.
int first_line(const Kernel& k);

// Every violation of: values are defined before use, once; dtypes fit the op table; widths are equal or 1; parallel
// loops nest outermost, grid, cluster, thread, with extents that multiply to the launch; barriers, shuffles, signals,
// waits and receives stand in no loop or condition that threads of a block could take differently; arrays are accessed inside
// their bounds; copies go to shared memory of the buffer's type; messages go to shared arrays, in elements of 4 or 8 bytes,
// and to mailboxes; queues are of i32 and shared by the blocks.
std::vector<std::string> verify(const Kernel& k);

}  // namespace bz::kernel
