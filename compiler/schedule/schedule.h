// Schedules: how a region's index space is laid over the machine, as a small value with a text form.
//
//   lanes=reduced,vector=4,kept=8,reduced=32,unroll=2,keep=registers
//
// Neighbouring threads walk along the variable that is contiguous in memory: a reduced one (rows; `lanes=reduced`) or a
// kept one (columns; `lanes=kept`), `vector` elements a thread at once. A block has kept * reduced threads: `reduced`
// threads share a domain and combine what they reduce by shuffles and, beyond a warp, through shared memory. `unroll` is
// the number of vectors a thread handles between two combinations of its own partial results. `cluster` blocks together,
// each with `reduced` threads, share a domain and combine through cluster shared memory. `keep` says where the data of a
// domain lives between phases: registers, shared memory, or nowhere (each phase reads it again). `prefetch` makes blocks
// stay: each goes over domains in turns, and copies what it will need of the next ones to shared memory while it computes:
// so many groups of `unroll` vectors ahead, or, where the domain is kept in registers, the whole of the next. What all domains load
// alike, such as a scale, blocks that stay can keep in shared memory (`parameters=shared`), those of gangs in registers too.
// Where rows do not begin alike in memory, neighbouring threads begin at a multiple of at most `align` bytes.
// Where registers do not hold a domain, `spill` vectors of each thread stay in shared memory instead (spill.h). With both, the next
// domain's are copied to the places of this one's as these are stored; what goes to registers is not read ahead then.
// With a `tile` a block handles so many elements along each of two kept variables, and what is contiguous along the second one goes through
// shared memory (tile.h); `vector` is then the most elements that a thread moves at once.
//
// `queue` is for kernels of several stages in the form of a queue (queue.h), and the same for all of them.
//
//   one thread an output       lanes=kept,reduced=1
//   warp a row                 lanes=reduced,reduced=32
//   block a row, resident      lanes=reduced,kept=1,reduced=256,keep=registers
//   cluster a row, resident    lanes=reduced,kept=1,reduced=512,cluster=8,keep=registers
//   the same, persistent       lanes=reduced,kept=1,reduced=512,cluster=8,prefetch=1,keep=registers
//   and with its scales        lanes=reduced,kept=1,reduced=512,cluster=8,prefetch=1,parameters=shared,keep=registers
//   blocks anywhere a row      lanes=reduced,kept=1,reduced=512,gang=128,lag=3,prefetch=1,parameters=registers,keep=shared
//   half in shared memory      lanes=reduced,kept=1,reduced=512,cluster=16,spill=16,keep=registers
//   block a row, streaming     lanes=reduced,kept=1,reduced=1024,keep=nothing
//   columns                    lanes=kept,kept=32,reduced=16
//   transposed                 lanes=kept,vector=4,kept=256,unroll=4,tile=64
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/group/group.h"
#include "ir/target.h"

namespace bz::compiler {

enum class Keep : std::uint8_t { nothing, registers, shared };
// Where what all domains load alike is, once a block has loaded it.
enum class Parameters : std::uint8_t { memory, shared, registers };

// Of an unroll, of a vector, of what is spilled, of the blocks of a gang and of its lag.
inline constexpr int kMostUnroll = 16, kMostVector = 16, kMostSpill = 64, kMostGang = 128, kMostGangLag = 8;

// Of the cache, and of what is moved at once.
inline constexpr int kLineBytes = 128, kVectorBytes = 16;

struct Schedule {
  bool lanes_reduced = false;
  int vector = 1;        // power of two, at most 16
  int threads_kept = 1;  // powers of two; kept * reduced at most 1024
  int threads_reduced = 1;
  int unroll = 1;
  int cluster = 1;  // power of two, at most 16
  int gang = 1;     // power of two, at most kMostGang
  int lag = 2;  // of a gang: turns that what its blocks have found may take to the others, 1 to kMostGangLag
  int prefetch = 0;  // 0 or a power of two, at most 16
  Parameters parameters = Parameters::memory;
  int align = kLineBytes;  // bytes: power of two, 16 to a line
  int tile = 1;            // power of two, at most 128
  int spill = 0;           // at most 64
  int queue = 0;  // of a stage of a queue: teams that it stays behind what it needs, at most kMostLag
  Keep keep = Keep::nothing;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

inline int threads_of(const Schedule& s) { return s.threads_kept * s.threads_reduced; }
inline constexpr int kGangWarp = 32;
// Blocks that share a domain.
inline int sharing(const Schedule& s) { return s.cluster * s.gang; }
std::string to_string(const Schedule& s);
// Throws Error naming the key that is wrong, with what it may be.
Schedule parse_schedule(std::string_view text);

// As what a value is sent to another block: messages have 4 or 8 bytes.
inline DType message_dtype(DType t) { return t == DType::boolean ? DType::i32 : t; }

// How the threads that share a domain lie in warps.
struct Warps {
  int stride = 1;   // between neighbouring threads of a domain
  int in_warp = 1;  // threads of a domain in a warp
  int count = 1;    // warps (or parts of warps) that share a domain
};
Warps warps_of(const Schedule& s);
// Whether a domain has more partial results, of threads or of blocks, than a warp has threads of it: they are put together by others.
bool shares_columns(const Schedule& s);

// What a schedule does to a region; derived, never stored apart.
struct Extent {
  std::int64_t rows_per_block = 1;  // kept points of a block, or of a cluster that shares them
  std::int64_t blocks = 1;          // so many are needed for the kept points
  // Blocks that follow each other are at so many points of the outermost kept variable, and at one of the others: what does not
  // depend on it, and is more than L2 would keep, is read by all of them together.
  std::int64_t interleaved = 1;
  bool shifted = false;  // vectors are aligned to memory, not to the domain: its first and last are partial
  std::int64_t vectors = 1;   // of a thread, counting those that are partly or wholly outside of the domain
  bool few = false;           // of a gang: there are more, at most as many as a warp has threads
  std::int64_t groups = 1;    // iterations of a thread over its domain, `together` vectors each
  std::int64_t together = 1;  // `unroll`, or all vectors of a thread if these are fewer
  std::int64_t rest = 1;      // vectors of the last group, where nothing is read ahead of it
  // Elements of the domain that all threads of a block, or of its cluster, handle in a group.
  std::int64_t per_group = 1;
  // Groups [first_full, end_full) lie inside the domain in every thread: they need no mask.
  std::int64_t first_full = 0, end_full = 1;
};
Extent extent_of(const Region& region, const Schedule& s);
// Of a gang's block, beside those of the schedule: a warp that posts what the block has found, one that collects, and one for `few` vectors.
int threads_of_block(const Region& region, const Schedule& s);

// A gang's block has the same elements of all domains where so many gangs, or a multiple of that, take turns. 0: wherever domains begin,
// that is not so.
std::int64_t gangs_apart(const Region& region, const Schedule& s);

// What is kept in shared memory between phases: the values loaded, or what is computed from them where that is less.
std::vector<ExprId> kept_values(const Region& region);
DType kept_dtype(const Region& region, ExprId e);
// Loads of the first phase that every domain has of its own, contiguous along the lanes: what can be copied ahead.
std::vector<ExprId> loads_ahead(const Region& region, const Schedule& s);
// Whether domains load different elements.
bool moves_with_domain(const Region& region, const Expr& load);
// Loads for the first phase that every domain has of its own, and has once.
std::vector<ExprId> loads_once(const Region& region);
// Loads that are the same for every domain, contiguous along the lanes: what can stay in shared memory.
std::vector<ExprId> parameter_loads(const Region& region, const Schedule& s);
// Vectors of a thread for which there is room in shared memory.
std::int64_t vectors_ahead(const Region& region, const Schedule& s);
// Phases with a reduction after which the threads of a domain exchange.
int exchanges_of(const Region& region);
// Whether the threads of a domain put their states together all at once, not pair by pair. Moments of what is not kept are exchanged once in
// many elements, and beside a stage that computes registers are few: gn_tail took 0.306 ms with pairs, 0.319 all at once (H200, 2026-11).
inline bool puts_together(const Reduction& r, const Schedule& s) {
  return info(r.monoid).together != nullptr && (r.monoid != Monoid::moments || s.keep != Keep::nothing);
}
// Whether what they exchange lies in two places in turn: where a block goes over domains one after the other with one exchange
// each, some threads still read what was exchanged when others write what is to be next.
bool alternates(const Region& region, const Schedule& s);
// In the shared memory of each block of a cluster that shares domains: one for each exchange, and each of its places.
std::int64_t mailboxes_of(const Region& region, const Schedule& s);
// Registers that an element of the domain takes between two phases when a thread keeps all that it has computed and
// needs again: the most over all phases. Of one phase alone: what it loads, which is taken in at once.
int live_registers(const Region& region);
// What a phase computes first: what it reduces and stores.
std::vector<ExprId> targets_of(const Region& region, int phase);
// By phase: the varying expressions that it computes. What is not kept is computed, or loaded, again by each.
std::vector<std::vector<ExprId>> computed_by_phase(const Region& region, const Schedule& s);
// Registers of a thread, estimated: what it keeps of a domain, or else the loads that it has in flight.
std::int64_t registers_of(const Region& region, const Schedule& s);
// Blocks whose registers a multiprocessor has.
std::int64_t blocks_by_registers(const Region& region, const Schedule& s, const Target& target);
// How many blocks a multiprocessor should hold: as many as the registers for that allow.
int blocks_together(const Region& region, const Schedule& s, const Target& target);

// The region with each max_sumexp whose exponentials are needed again taken back to a maximum and sums, exchanged once where what is
// stored has 16 bits, and each moments to three sums (resident.h). Where a domain stays in registers another phase costs an exchange
// between threads, while the one-pass forms compute every exponential twice, and merge states. nullopt when there is none.
std::optional<Region> resident_form(const Region& region, bool exponentials, bool moments);

// A region in the form that each schedule wants.
class Forms {
 public:
  explicit Forms(const Region& region)
      : region_(region),
        resident_(resident_form(region, true, true)),
        exponentials_(resident_form(region, true, false)),
        moments_(resident_form(region, false, true)) {}
  const Region& region() const { return region_; }
  const Region* resident() const { return resident_ ? &*resident_ : nullptr; }
  const Region& of(const Schedule& s) const;

 private:
  const Region& region_;
  std::optional<Region> resident_, exponentials_, moments_;
};

// Vectors of the domain that a thread keeps in registers.
std::int64_t vectors_in_registers(const Region& region, const Schedule& s);
// Shared memory of a block: for the exchange of partial results, for a tile, for what is kept and what is copied ahead.
std::int64_t shared_bytes(const Region& region, const Schedule& s);
inline constexpr std::int64_t kSystemShared = 1024;  // of a block, beside it, that the system has

// Why the schedule cannot serve the region on the target; nullopt when it can.
std::optional<std::string> refuse(const Region& region, const Schedule& s, const Target& target);

struct Refusal {
  Schedule schedule;
  std::string reason;
};
struct Candidate {
  Schedule schedule;
  double seconds = 0;  // predicted, without the launch
  // Differs from the preferred one in a key or two, and only a measurement can prefer it.
  bool neighbour = false;
  std::optional<double> measured = {};  // seconds of the kernel
};
// Seconds of kernels with these schedules on the device; infinity for one that could not be run.
using Measurements = std::vector<std::pair<Schedule, double>>;
struct Choice {
  Schedule schedule;
  std::vector<Candidate> candidates;  // that can serve, in order of preference; the choice is one of them
  std::vector<Refusal> refused;       // that cannot
  // Of the schedule.
  double seconds() const;
};

// What a kernel is bound to: a stage of several has the blocks of its team and the threads of the kernel.
struct Bounds {
  int team = 1;             // blocks
  int threads = 0;          // of a block; 0: any number
  bool staged = false;      // one of several stages
  int queue = 0;            // of a queue: its blocks are taken by any block of the kernel
  std::set<NodeId> cached;  // sources that earlier stages have left in L2
};
// The schedule for a region: of those measured the fastest. Else the candidate that is predicted to take the
// least time; the first of those that take about the same.
Choice choose(const Forms& forms, const Target& target, const Bounds& bounds = {},
              const Measurements& measured = {});
// Schedules for all stages of a group, and the form of each region that its schedule wants. `forced(name)` is the schedule
// that the region of that name must have; throws Error when it cannot. `measured` is by region too.
std::vector<Choice> choose_stages(Group& group, const Target& target,
                                  const std::function<std::optional<Schedule>(const std::string&)>& forced,
                                  const std::map<std::string, Measurements>& measured);

struct Estimate {
  std::int64_t bytes_read = 0, bytes_written = 0;  // of DRAM
  double microseconds = 0;
};
Estimate estimate(const Group& group, std::span<const Choice> choices, const ir::Graph& graph);

// Vectors along the reduced variable start at an aligned address: how many elements before the domain. Fewer than the vectors of the
// first step have, so that masks are for that step alone.
Index aligned_start(const Region& region, const Schedule& s);

// Orders the variables of each group by their distance in memory and merges those that are one in every access.
Region canonical(Region region);

}  // namespace bz::compiler
