#include "compiler/schedule/tile.h"

#include <algorithm>
#include <bit>

#include "compiler/fuse/access.h"
#include "compiler/schedule/schedule.h"

namespace bz::compiler {
namespace {

bool goes_across(const Access& a, const IndexVar& along, const IndexVar& across) {
  return contiguous_along(a.offset, across) && !contiguous_along(a.offset, along) && a.offset.uses(along.id);
}

// The variable with the most bytes of those for which `counts(access, variable)`.
template <class F>
std::optional<IndexVar> busiest(const Region& region, const std::vector<Access>& all, F&& counts) {
  std::optional<IndexVar> best;
  std::int64_t most = 0;
  for (const IndexVar& v : region.kept) {
    std::int64_t bytes = 0;
    for (const Access& a : all) {
      if (counts(a, v)) bytes += a.bytes();
    }
    if (bytes > most) {
      most = bytes;
      best = v;
    }
  }
  return best;
}

// Vectors of 16 bytes where every row begins at an aligned address.
TileSide side(const IndexVar& v, const std::vector<Access>& moved, const Schedule& s) {
  int widest = 1;
  for (const Access& a : moved) widest = std::max(widest, size_of(a.dtype));
  TileSide side{v};
  side.size = std::min<std::int64_t>(
      s.tile, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(v.extent))));
  side.vector =
      static_cast<int>(std::min<std::int64_t>({s.vector, widest == 1 ? 4 : 16 / widest, side.size}));
  for (const Access& a : moved) {
    const Index start = a.offset - Index::var(v);
    const auto aligned = [&](const Index::Term& t) { return t.coef % side.vector == 0; };
    while (start.constant() % side.vector != 0 ||
           !std::all_of(start.terms().begin(), start.terms().end(), aligned))
      side.vector /= 2;
  }
  side.segment = std::min<std::int64_t>(side.size, kLineBytes / widest);
  return side;
}

}  // namespace

std::optional<Tile> tile_of(const Region& region, const Schedule& s) {
  const std::vector<Access> all = accesses(region);
  const auto along =
      busiest(region, all, [](const Access& a, const IndexVar& v) { return contiguous_along(a.offset, v); });
  if (!along) return std::nullopt;
  const auto across =
      busiest(region, all, [&](const Access& a, const IndexVar& v) { return goes_across(a, *along, v); });
  if (!across) return std::nullopt;
  Tile t;
  std::vector<Access> direct, crossing;
  for (const Access& a : all) {
    if (goes_across(a, *along, *across)) {
      crossing.push_back(a);
      if (a.load >= 0) t.loads.push_back(a.load);
      if (a.root >= 0) t.stores.push_back(a.root);
    } else if (contiguous_along(a.offset, *along)) {
      direct.push_back(a);
    }
  }
  t.along = side(*along, direct, s);
  t.across = side(*across, crossing, s);
  return t;
}

std::int64_t tile_blocks(const Region& region, const Tile& t) {
  return region.domains() / (t.along.var.extent * t.across.var.extent) * t.along.tiles() * t.across.tiles();
}

std::int64_t tile_bytes(const Region& region, const Tile& t) {
  std::int64_t bytes = 0;
  for (const ExprId id : t.loads) bytes += size_of(region.exprs[static_cast<std::size_t>(id)].stored);
  for (const int r : t.stores) bytes += size_of(region.roots[static_cast<std::size_t>(r)].stored);
  return bytes * t.along.size * t.across.size;
}

}  // namespace bz::compiler
