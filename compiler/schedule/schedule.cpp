#include "compiler/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <set>

#include "compiler/fuse/access.h"
#include "compiler/fuse/cost.h"
#include "compiler/schedule/gang.h"
#include "compiler/schedule/predict.h"
#include "compiler/schedule/spill.h"
#include "compiler/schedule/tile.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

constexpr std::string_view kKeepNames[] = {"nothing", "registers", "shared"};
constexpr std::string_view kParameterNames[] = {"memory", "shared", "registers"};

// `none`: 0 is a number too, and says that there is none.
int parse_number(std::string_view key, std::string_view text, int most, bool none = false,
                 bool power_of_two = true, int least = 1) {
  if (none && text == "0") return 0;
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < least || n > most ||
      (power_of_two && !std::has_single_bit(static_cast<unsigned>(n)))) {
    throw Error(fmt::format("schedule: {}={} is not {}a {} from {} to {}", key, text, none ? "0 or " : "",
                            power_of_two ? "power of two" : "number", least, most));
  }
  return n;
}

// The place of the value among the names.
std::ptrdiff_t parse_name(std::string_view key, std::string_view value,
                          std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end())
    throw Error(fmt::format("schedule: {}={} is none of {}", key, value, fmt::join(names, ", ")));
  return found - names.begin();
}

// Of a thread, beside the domain's elements: addresses, partial results and the arithmetic in flight. Measured with
// ptxas for sm_90 on softmax and layer_norm: fewer spill.
constexpr int kWorkingRegisters = 32;
// And where it copies what comes next: addresses, and how much of each vector is there. With fewer, kernels that read ahead
// were slower than those that do not (softmax of f32 rows of 393216 by 7 to 15 %).
constexpr int kCopyRegisters = 16;

int working_registers(const Schedule& s) { return kWorkingRegisters + (s.prefetch > 0 ? kCopyRegisters : 0); }
// The same where nothing is kept, beside the loads in flight: the tail of gn_tail takes 34 to 96 for vectors of 2 and 4 and
// an unroll of 2 to 8.
constexpr int kStreamingRegisters = 24;

// The compute capability that brought asynchronous copies.
constexpr int kCopies = 80;

// Elements of a domain that one thread keeps, counting the empty ones of its last vectors; in registers without those spilled.
std::int64_t elements_per_thread(const Schedule& s, const Extent& e) {
  return (s.keep == Keep::registers ? e.vectors - s.spill : e.groups * s.unroll) * s.vector;
}

// Shared memory through which the warps of a block and the blocks of a cluster combine what they reduced.
std::int64_t partial_bytes(const Region& region, const Schedule& s) {
  if (s.gang > 1) return 0;
  const std::int64_t each = static_cast<std::int64_t>(s.threads_kept) * (s.lanes_reduced ? 1 : s.vector);
  const int places = alternates(region, s) ? 2 : 1;
  std::int64_t bytes = ceil_div(mailboxes_of(region, s) * size_of(DType::i64), 16) * 16;
  const auto add = [&](int parts, bool sent) {
    for (const Reduction& r : region.reductions) {
      if (!r.exchanges()) continue;
      for (const DType t : r.component_dtypes())
        bytes += ceil_div(places * parts * each * size_of(sent ? message_dtype(t) : t), 16) * 16;
    }
  };
  if (warps_of(s).count > 1) add(warps_of(s).count, false);
  if (s.cluster > 1) add(s.cluster, true);
  if (shares_columns(s)) add(1, false);
  return bytes;
}

}  // namespace

Warps warps_of(const Schedule& s) {
  Warps w;
  w.stride = s.lanes_reduced ? 1 : s.threads_kept;
  w.in_warp = std::min(s.threads_reduced, std::max(1, 32 / w.stride));
  w.count = s.threads_reduced / w.in_warp;
  return w;
}

bool shares_columns(const Schedule& s) {
  const Warps w = warps_of(s);
  return w.count > 1 && std::max(w.count, s.cluster) > w.in_warp;
}

std::string to_string(const Schedule& s) {
  return fmt::format("lanes={},vector={},kept={},reduced={},unroll={},{}{}{}{}{}{}{}{}keep={}",
                     s.lanes_reduced ? "reduced" : "kept", s.vector, s.threads_kept, s.threads_reduced,
                     s.unroll, s.cluster == 1 ? "" : fmt::format("cluster={},", s.cluster),
                     s.gang == 1 ? "" : fmt::format("gang={},lag={},", s.gang, s.lag),
                     s.prefetch == 0 ? "" : fmt::format("prefetch={},", s.prefetch),
                     s.parameters == Parameters::memory
                         ? ""
                         : fmt::format("parameters={},", kParameterNames[static_cast<int>(s.parameters)]),
                     s.align == kLineBytes ? "" : fmt::format("align={},", s.align),
                     s.tile == 1 ? "" : fmt::format("tile={},", s.tile),
                     s.spill == 0 ? "" : fmt::format("spill={},", s.spill),
                     s.queue == 0 ? "" : fmt::format("queue={},", s.queue),
                     kKeepNames[static_cast<int>(s.keep)]);
}

Schedule parse_schedule(std::string_view text) {
  Schedule s;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    if (!seen.insert(key).second) throw Error(fmt::format("schedule: {} is given twice", key));
    if (key == "lanes" && (value == "reduced" || value == "kept")) {
      s.lanes_reduced = value == "reduced";
    } else if (key == "lanes") {
      throw Error(fmt::format("schedule: lanes={} is neither reduced nor kept", value));
    } else if (key == "vector") {
      s.vector = parse_number(key, value, kMostVector);
    } else if (key == "kept") {
      s.threads_kept = parse_number(key, value, 1024);
    } else if (key == "reduced") {
      s.threads_reduced = parse_number(key, value, 1024);
    } else if (key == "unroll") {
      s.unroll = parse_number(key, value, kMostUnroll);
    } else if (key == "cluster") {
      s.cluster = parse_number(key, value, 16);
    } else if (key == "gang") {
      s.gang = parse_number(key, value, kMostGang);
    } else if (key == "lag") {
      s.lag = parse_number(key, value, kMostGangLag, /*none=*/false, /*power_of_two=*/false);
    } else if (key == "prefetch") {
      s.prefetch = parse_number(key, value, 16, /*none=*/true);
    } else if (key == "parameters") {
      s.parameters = static_cast<Parameters>(parse_name(key, value, kParameterNames));
    } else if (key == "align") {
      s.align = parse_number(key, value, kLineBytes, /*none=*/false, /*power_of_two=*/true, kVectorBytes);
    } else if (key == "tile") {
      s.tile = parse_number(key, value, 128);
    } else if (key == "spill") {
      s.spill = parse_number(key, value, kMostSpill, /*none=*/true, /*power_of_two=*/false);
    } else if (key == "queue") {
      s.queue = parse_number(key, value, kMostLag, /*none=*/true, /*power_of_two=*/false);
    } else if (key == "keep") {
      s.keep = static_cast<Keep>(parse_name(key, value, kKeepNames));
    } else {
      throw Error(fmt::format(
          "schedule: unknown key '{}'; known are lanes, vector, kept, reduced, unroll, cluster, gang, lag, "
          "prefetch, parameters, align, tile, spill, queue, keep",
          key));
    }
  }
  if (s.gang == 1 && seen.contains("lag"))
    throw Error(fmt::format("schedule: lag={} is of the blocks of a gang, and there is none", s.lag));
  return s;
}

// Start of a domain in the access that vectors are aligned to: the largest one that is contiguous along the innermost
// reduced variable. 0 when there is none.
static Index domain_start(const Region& region) {
  Index start;
  std::int64_t most = -1;
  const auto consider = [&](const Index& e) {
    const Index zero(0);
    if (!contiguous_along(e, region.reduced.back())) return;
    const std::int64_t reach = e.hi() - e.lo();
    if (reach > most) {
      most = reach;
      start = e.substitute([&](std::int32_t id) -> const Index* {
        const bool reduced = std::any_of(region.reduced.begin(), region.reduced.end(),
                                         [&](const IndexVar& v) { return v.id == id; });
        return reduced ? &zero : nullptr;
      });
    }
  };
  for (const Expr& e : region.exprs) {
    if (e.kind == Expr::Kind::load && e.varies) consider(e.index);
  }
  for (const Root& r : region.roots) {
    if (r.varies) consider(r.offset);
  }
  return start;
}

// Neighbouring threads begin together where a line of memory does (of full vectors, of which it has eight), so that none is written in
// halves: softmax of 30522 bf16 took 0.56 ms with vectors aligned alone, 0.51 so (H200, 2026-11). Not where short rows would need more
// vectors for it, nor where rows have to begin alike that follow each other by few gangs: then it is a part of a line.
static std::int64_t aligned_elements(const Region& region, const Schedule& s) {
  const std::int64_t together =
      std::int64_t{s.vector} * s.threads_reduced * sharing(s) * (s.keep == Keep::registers ? 1 : s.unroll);
  const auto count = [&](std::int64_t aligned) {
    return ceil_div(region.domain_size() + aligned - 1, together);
  };
  std::int64_t aligned = std::int64_t{s.vector} * std::min(s.threads_reduced, s.align / kVectorBytes);
  while (aligned > s.vector && count(aligned) > count(s.vector)) aligned /= 2;
  return aligned;
}

Index aligned_start(const Region& region, const Schedule& s) {
  if (!s.lanes_reduced || s.vector == 1 || region.reduced.size() != 1) return Index(0);
  const Index start = domain_start(region);
  if (start - floordiv(start, s.vector) * s.vector == Index(0)) return Index(0);
  // start = aligned * floor(start / aligned) + shift
  const std::int64_t aligned = aligned_elements(region, s);
  return start - floordiv(start, aligned) * aligned;
}

// Points of the outermost kept variable that blocks go over first.
static std::int64_t interleaved(const Region& region, std::int64_t rows_per_block) {
  constexpr std::int64_t kLarge = 8 << 20;  // bytes, of what all those points read
  if (!region.outer.empty() || region.kept.size() < 2) return 1;
  const IndexVar& first = region.kept.front();
  if (region.domains() / first.extent % rows_per_block != 0) return 1;
  for (const Expr& e : region.exprs) {
    if (e.kind != Expr::Kind::load || e.table >= 0 || e.index.uses(first.id)) continue;
    std::vector<IndexVar> vars;
    e.index.collect_vars(vars);
    if (product(vars) * size_of(e.stored) >= kLarge) return first.extent;
  }
  return 1;
}

Extent extent_of(const Region& region, const Schedule& s) {
  Extent e;
  if (s.tile > 1) {
    const Tile tile = *tile_of(region, s);
    e.rows_per_block = tile.along.size * tile.across.size;
    e.blocks = tile_blocks(region, tile);
    return e;
  }
  const std::int64_t size = region.domain_size();
  e.rows_per_block = static_cast<std::int64_t>(s.threads_kept) * (s.lanes_reduced ? 1 : s.vector);
  e.blocks = ceil_div(region.domains(), e.rows_per_block);
  e.interleaved = interleaved(region, e.rows_per_block);
  e.shifted = !(aligned_start(region, s) == Index(0));
  const std::int64_t vector = s.lanes_reduced ? s.vector : 1;
  e.per_group = vector * s.threads_reduced * sharing(s) * s.unroll;
  std::int64_t reach = size + (e.shifted ? aligned_elements(region, s) - 1 : 0);
  e.vectors = ceil_div(reach, e.per_group / s.unroll);
  // Another warp of a gang's first block has the last vectors where it can take all of them: otherwise all would wait for the one that has them.
  const std::int64_t few = reach - (e.vectors - 1) * (e.per_group / s.unroll);
  if (s.gang > 1 && e.shifted && e.vectors > 1 && few <= vector * kGangWarp) {
    e.few = true;
    --e.vectors;
    reach -= few;
  }
  e.groups = ceil_div(reach, e.per_group);
  e.together = e.groups == 1 ? e.vectors : s.unroll;
  // Three of four vectors are handled as four: another form of the loop's body for them took ptxas 48 registers where it took 40, and
  // logsumexp of 5000 bf16 0.284 ms instead of 0.277 (H200, 2026-11). A gang has room for what there is.
  e.rest = e.vectors - (e.groups - 1) * e.together;
  if (s.gang == 1 && 2 * e.rest > e.together) e.rest = e.together;
  // Each group has its place among those read ahead.
  if (s.prefetch > 1 && s.gang == 1) e.groups = ceil_div(e.groups, s.prefetch) * s.prefetch;
  e.first_full = e.shifted ? 1 : 0;
  e.end_full = std::max(e.first_full, size / e.per_group);
  return e;
}

int threads_of_block(const Region& region, const Schedule& s) {
  if (s.gang == 1) return threads_of(s);
  return threads_of(s) + (extent_of(region, s).few ? 3 : 2) * kGangWarp;
}

std::int64_t gangs_apart(const Region& region, const Schedule& s) {
  const Extent e = extent_of(region, s);
  if (!e.shifted) return 1;
  if (region.kept.size() != 1 || e.interleaved > 1) return 0;
  const IndexVar& domain = region.kept[0];
  const auto start_of = [&, start = domain_start(region)](std::int64_t number) {
    const Index at(number);
    return start.substitute([&](std::int32_t v) -> const Index* { return v == domain.id ? &at : nullptr; });
  };
  const Index apart = start_of(1) - start_of(0);
  if (!apart.is_constant() || !(domain_start(region) - start_of(0) == Index::var(domain) * apart.constant()))
    return 0;
  const std::int64_t aligned = aligned_elements(region, s);
  return aligned / std::gcd(aligned, apart.constant());
}

std::int64_t shared_bytes(const Region& region, const Schedule& s) {
  if (s.gang > 1) return gang_bytes(region, s);
  std::int64_t bytes = partial_bytes(region, s);
  if (s.tile > 1) bytes += tile_bytes(region, *tile_of(region, s));
  if (s.prefetch > 0 && s.spill == 0) {
    const std::int64_t elements = vectors_ahead(region, s) * s.vector * threads_of(s);
    for (const ExprId id : loads_ahead(region, s)) bytes += elements * size_of(kept_dtype(region, id));
    if (s.parameters == Parameters::shared) {
      for (const ExprId id : parameter_loads(region, s)) bytes += elements * size_of(kept_dtype(region, id));
    }
  }
  if (s.spill > 0) bytes += spill_bytes(region, s);
  if (s.keep != Keep::shared) return bytes;
  const std::int64_t elements = elements_per_thread(s, extent_of(region, s)) * threads_of(s);
  for (const ExprId id : kept_values(region)) bytes += elements * size_of(kept_dtype(region, id));
  return bytes;
}

// Why there can be no copies ahead.
static std::optional<std::string> refuse_prefetch(const Region& region, const Schedule& s,
                                                  const Target& target) {
  if (target.sm < kCopies) return fmt::format("{} has no asynchronous copies", target.name);
  if (s.tile > 1) return "a tile is not read ahead";
  if (s.keep == Keep::shared && s.gang == 1)
    return "nothing is read ahead of a domain that is kept in shared memory";
  if (loads_ahead(region, s).empty()) return "no domain has a load of its own to read ahead";
  if (s.keep == Keep::registers) {
    if (s.prefetch > 1) return "where a domain is kept, no more than one is read ahead";
    return std::nullopt;
  }
  if (region.phases() > 1 && s.gang == 1) return "a domain that is read by each phase is not read ahead";
  return std::nullopt;
}

static std::optional<std::string> refuse_parameters(const Region& region, const Schedule& s, const Extent& e,
                                                    const Target& target) {
  if (s.prefetch == 0 || (s.keep != Keep::registers && s.gang == 1))
    return "parameters stay in shared memory where blocks stay that keep a domain in registers, with "
           "prefetch=1, or of gangs";
  if (s.parameters == Parameters::registers && s.gang == 1)
    return "parameters stay in registers where a gang's blocks go over domains";
  if (s.parameters == Parameters::registers && e.groups > 1)
    return fmt::format(
        "a thread has {} vectors and an unroll of {}, parameters stay in registers where they "
        "are handled together",
        e.vectors, s.unroll);
  if (!s.lanes_reduced || parameter_loads(region, s).empty())
    return "domains load nothing alike along their lanes";
  if (s.spill > 0) return "parameters do not stay in shared memory beside what is spilled";
  const std::int64_t apart = s.gang > 1 ? gangs_apart(region, s) : 0;
  if (e.shifted && apart == 0) return "rows are not aligned, so that a thread is elsewhere in each of them";
  if (s.gang == 1) return std::nullopt;
  const std::int64_t room = room_for_gangs(region, s, target);
  if (apart > room)
    return fmt::format(
        "rows of every {}th gang begin alike where {} elements do, and there is room for {} gangs", apart,
        aligned_elements(region, s), room);
  return std::nullopt;
}

static std::optional<std::string> refuse_spill(const Region& region, const Schedule& s, const Extent& e,
                                               const Target& target) {
  if (target.sm < kCopies) return fmt::format("{} has no asynchronous copies", target.name);
  if (s.keep != Keep::registers) return "nothing is spilled where registers keep nothing";
  if (s.spill >= e.vectors)
    return fmt::format("{} vectors of a thread are spilled, it has {}", s.spill, e.vectors);
  if (loads_ahead(region, s).empty()) return "no domain has a load of its own to spill";
  const std::int64_t bytes = shared_bytes(region, s);
  if (bytes <= target.max_shared_bytes) return std::nullopt;
  return fmt::format("{} bytes of shared memory to spill to, a block may have {}", bytes,
                     target.max_shared_bytes);
}

static std::optional<std::string> refuse_tile(const Region& region, const Schedule& s, const Target& target) {
  if (!region.reductions.empty()) return "a tile, and something is reduced";
  if (threads_of(s) % 32 != 0)
    return fmt::format("{} threads that share a tile do not fill warps of 32", threads_of(s));
  const std::optional<Tile> tile = tile_of(region, s);
  if (!tile) return "a tile, and nothing is contiguous along a second kept variable";
  const std::int64_t bytes = tile_bytes(region, *tile);
  if (bytes > target.max_shared_bytes) {
    return fmt::format("{} bytes of shared memory for a tile, a block may have {}", bytes,
                       target.max_shared_bytes);
  }
  return std::nullopt;
}

std::optional<std::string> refuse(const Region& region, const Schedule& s, const Target& target) {
  if (s.tile > 1 && s.gang > 1) return "a tile has all of its elements in one block, not in those of a gang";
  const int threads = threads_of_block(region, s);
  if (threads > target.max_threads_per_block) {
    return fmt::format("{} threads, a block may have {}", threads, target.max_threads_per_block);
  }
  if ((s.threads_reduced > 1 || s.gang > 1) && threads_of(s) % 32 != 0)
    return fmt::format("{} threads that share a domain do not fill warps of 32", threads_of(s));
  if (region.reduced.empty() && (s.lanes_reduced || s.threads_reduced > 1 || s.cluster > 1))
    return "nothing is reduced";
  if (s.cluster > target.max_cluster && target.ptx != 0 && target.ptx < kClusterPtx && target.sm >= 90) {
    return fmt::format("clusters of {} blocks, which need PTX {}.{} or newer, and it is {}.{}", s.cluster,
                       kClusterPtx / 10, kClusterPtx % 10, target.ptx / 10, target.ptx % 10);
  }
  if (s.cluster > target.max_cluster)
    return fmt::format("clusters of {} blocks, the device has them up to {}", s.cluster, target.max_cluster);
  if (s.cluster > s.threads_reduced && !shares_columns(s)) {
    return fmt::format("{} blocks that share a domain, each needs as many threads that do and has {}",
                       s.cluster, s.threads_reduced);
  }
  if (s.tile > 1) {
    if (auto why = refuse_tile(region, s, target)) return why;
  }
  if (!s.lanes_reduced && s.vector > 1 && s.tile == 1) {
    if (region.kept.empty()) return "no kept variable to run lanes along";
    const std::int64_t inner = region.kept.back().extent;
    if (region.kept.size() > 1 && inner % s.vector != 0) {
      return fmt::format("vectors of {} do not divide the innermost kept extent {}", s.vector, inner);
    }
  }
  if (s.lanes_reduced && s.vector > 1 && region.reduced.size() > 1 &&
      region.reduced.back().extent % s.vector != 0) {
    return fmt::format("vectors of {} do not divide the innermost reduced extent {}", s.vector,
                       region.reduced.back().extent);
  }
  if (s.gang > 1) {
    if (auto why = refuse_gang(region, s, target)) return why;
  }
  const Extent e = extent_of(region, s);
  if (e.blocks * sharing(s) > 0x7fffffff)
    return fmt::format("{} blocks, a grid may have 2^31 - 1", e.blocks * sharing(s));
  std::int64_t bytes = partial_bytes(region, s);
  if (bytes > target.max_shared_bytes) {
    return fmt::format("{} bytes of shared memory for partial results, a block may have {}", bytes,
                       target.max_shared_bytes);
  }
  if (s.prefetch > 0) {
    if (std::optional<std::string> why = refuse_prefetch(region, s, target)) return why;
    if (const std::int64_t all = shared_bytes(region, s); s.spill == 0 && all > target.max_shared_bytes) {
      return fmt::format("{} bytes of shared memory to read ahead, a block may have {}", all,
                         target.max_shared_bytes);
    }
  }
  if (s.parameters != Parameters::memory) {
    if (std::optional<std::string> why = refuse_parameters(region, s, e, target)) return why;
  }
  if (s.spill > 0) {
    if (std::optional<std::string> why = refuse_spill(region, s, e, target)) return why;
  }
  if (s.keep == Keep::nothing) return std::nullopt;
  if (region.phases() == 1 && (s.keep != Keep::registers || region.reductions.empty()))
    return "there is one phase, nothing to keep";
  if (s.keep == Keep::registers) {
    const std::int64_t budget = std::min(255, target.registers_per_block / threads) - working_registers(s);
    const int live = live_registers(region);
    if (live == 0) return "no phase needs the domain of an earlier one";
    const std::int64_t registers = elements_per_thread(s, e) * live;
    if (registers > budget)
      return fmt::format("{} registers a thread to keep the domain, {} are free", registers, budget);
    return std::nullopt;
  }
  if (s.gang == 1 && kept_values(region).empty()) return "no phase needs the domain of an earlier one";
  bytes = shared_bytes(region, s);
  if (bytes > target.max_shared_bytes) {
    return fmt::format("{} bytes of shared memory to keep the domain, a block may have {}", bytes,
                       target.max_shared_bytes);
  }
  return std::nullopt;
}

// Whether an f32 domain that stays needs no more than a few instructions beside itself after the first phase:
// no exponential, no division, nothing that is loaded. log_softmax with 48 elements a thread takes 64
// registers, softmax more.
static bool is_light_afterwards(const Region& region) {
  constexpr int kFew = 4;
  const std::vector<std::vector<ExprId>> computed = computed_by_phase(region, {.keep = Keep::registers});
  int instructions = 0;
  bool loads = false;
  for (std::size_t phase = 0; phase < computed.size(); ++phase) {
    for (const ExprId id : computed[phase]) {
      const Expr& e = region.exprs[static_cast<std::size_t>(id)];
      if (phase > 0) instructions += element_instructions(region, e);
      if (e.kind == Expr::Kind::load) loads = loads || phase > 0 || size_of(e.stored) != 4;
    }
  }
  return exchanges_of(region) == 1 && !loads && instructions <= kFew;
}

std::int64_t registers_of(const Region& region, const Schedule& s) {
  if (s.keep == Keep::registers) {
    const int working = working_registers(s) / (is_light_afterwards(region) ? 2 : 1);
    return elements_per_thread(s, extent_of(region, s)) * live_registers(region) + working;
  }
  const std::vector<IndexVar>& along = s.lanes_reduced ? region.reduced : region.kept;
  const std::int64_t lanes = s.lanes_reduced ? 1 : s.vector;
  std::int64_t registers = kStreamingRegisters;
  for (const Expr& e : region.exprs) {
    if (e.kind != Expr::Kind::load || !e.varies) continue;
    std::vector<IndexVar> vars;
    e.index.collect_vars(vars);
    const bool vector = !along.empty() && std::find(vars.begin(), vars.end(), along.back()) != vars.end();
    registers += std::max(1, size_of(e.dtype) / 4) * s.unroll * (vector ? s.vector : 1);
  }
  for (const Reduction& r : region.reductions) {
    for (const DType t : r.component_dtypes()) registers += std::max(1, size_of(t) / 4) * lanes;
  }
  return std::min<std::int64_t>(255, registers);
}

// Each of the four schedulers of a multiprocessor has registers of its own, which a warp gets in units of 8 a thread: a 41st warp may
// not fit where 42 warps' worth of registers are there in all.
std::int64_t blocks_by_registers(const Region& region, const Schedule& s, const Target& target) {
  constexpr std::int64_t kSchedulers = 4, kUnit = 8, kWarp = 32;
  const std::int64_t of_warp = ceil_div(registers_of(region, s), kUnit) * kUnit * kWarp;
  const std::int64_t warps = kSchedulers * (target.registers_per_multiprocessor / kSchedulers / of_warp);
  return warps / ceil_div(threads_of_block(region, s), kWarp);
}

int blocks_together(const Region& region, const Schedule& s, const Target& target) {
  if (s.keep != Keep::registers) return 1;
  const int threads = threads_of(s);
  std::int64_t blocks = blocks_by_registers(region, s, target);
  if (s.prefetch > 0 || s.spill > 0) {
    const std::int64_t shared = shared_bytes(region, s) + kSystemShared;
    blocks = std::min(blocks, target.shared_per_multiprocessor / shared);
  }
  const int most = std::min(target.blocks_per_multiprocessor, target.threads_per_multiprocessor / threads);
  return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, std::max(1, most)));
}

}  // namespace bz::compiler
