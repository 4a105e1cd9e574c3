#include "compiler/lower/tile.h"

#include <algorithm>

#include "compiler/schedule/tile.h"

namespace bz::compiler {
namespace {

// A variable as the number of the tile, of the segment in it and of the element in that.
struct Digits {
  TileSide side;
  IndexVar tile, high, low;

  Index inner() const { return Index::var(high) * side.segment + Index::var(low); }  // of the tile
  Index whole() const { return Index::var(tile) * side.size + inner(); }
  // Of what lies inside of the variable, the same for all lanes of a vector where it can be.
  IndexBound bound() const {
    if (side.var.extent % side.vector != 0) return {whole(), 0, side.var.extent};
    return {floordiv(whole(), side.vector), 0, side.var.extent / side.vector};
  }
  bool within(const Index& e) const { return e.uses(high.id) || e.uses(low.id); }
};

class Tiling {
 public:
  Tiling(const Region& region, const Schedule& s) : region_(region), s_(s), tile_(*tile_of(region, s)) {
    names_ = region.var_names;
    along_ = digits(tile_.along);
    across_ = digits(tile_.across);
  }

  Tiled run() {
    out_.group.name = region_.name;
    Region in = stage("tile_in", across_, along_);
    Region compute = stage(region_.name, along_, across_);
    Region out = stage("tile_out", across_, along_);
    compute.exprs = region_.exprs;
    compute.roots = region_.roots;
    for (const ExprId id : tile_.loads) {
      Expr& e = compute.exprs[static_cast<std::size_t>(id)];
      const int table = add_table(e.source, e.stored);
      const Index offset = place(across_, along_, e.stored);
      Root to;
      to.node = e.source;
      to.offset = offset;
      to.stored = e.stored;
      to.table = table;
      copy(in, e, std::move(to));
      e.index = offset;
      e.where.clear();
      e.table = table;
    }
    for (const int i : tile_.stores) {
      Root& r = compute.roots[static_cast<std::size_t>(i)];
      Expr from;
      from.node = from.source = r.node;
      from.dtype = compute.exprs[static_cast<std::size_t>(r.expr)].dtype;
      from.stored = r.stored;
      from.table = add_table(r.node, r.stored);
      from.index = place(along_, across_, r.stored);
      copy(out, from, r);
      r.table = from.table;
      r.offset = from.index;
    }
    for (Region* r : {&in, &compute, &out}) {
      if (!r->roots.empty()) finish(std::move(*r), r == &compute ? tile_.along : tile_.across);
    }
    return std::move(out_);
  }

 private:
  Digits digits(const TileSide& side) {
    const auto fresh = [&](std::string_view part, std::int64_t extent) {
      names_.push_back(region_.var_names[static_cast<std::size_t>(side.var.id)] + std::string(part));
      return IndexVar{static_cast<std::int32_t>(names_.size()) - 1, extent};
    };
    return {side, fresh("_tile", side.tiles()), fresh("_high", side.size / side.segment),
            fresh("_low", side.segment)};
  }

  // Lanes run along a segment of `inner`, then along the other side, so that what a warp takes from a table lies in several
  // of its rows.
  Region stage(std::string name, const Digits& inner, const Digits& other) const {
    Region r;
    r.name = std::move(name);
    r.var_names = names_;
    r.fast_math = region_.fast_math;
    for (const IndexVar& v : region_.kept) {
      if (v != along_.side.var && v != across_.side.var) r.outer.push_back(v);
    }
    r.outer.insert(r.outer.end(), {across_.tile, along_.tile});
    r.reduced = {inner.high, other.high, other.low, inner.low};
    return r;
  }

  int add_table(NodeId node, DType t) {
    out_.group.tables.push_back({node, t, tile_.along.size * tile_.across.size});
    return static_cast<int>(out_.group.tables.size()) - 1;
  }

  static void copy(Region& stage, Expr from, Root to) {
    to.expr = static_cast<ExprId>(stage.exprs.size());
    stage.exprs.push_back(std::move(from));
    stage.roots.push_back(std::move(to));
  }

  // Element of a table. A row is what the writer has side by side, so that it writes whole vectors. The reader takes single
  // elements of as many rows as it has lanes along them: each row is turned by another multiple of `step`, which puts
  // those lanes, and the neighbours in a row that the other lanes of the warp take, into different banks.
  static Index place(const Digits& writer, const Digits& reader, DType t) {
    constexpr std::int64_t kBankBytes = 128, kWarp = 32;  // of all banks together
    const std::int64_t lanes = std::min(kWarp, reader.side.segment / reader.side.vector);
    const std::int64_t step =
        std::max<std::int64_t>({writer.side.vector, kBankBytes / (lanes * size_of(t)), 1});
    const std::int64_t turns = std::max<std::int64_t>(kBankBytes / (step * size_of(t)), 1);
    const Index turned = writer.inner() + mod(floordiv(reader.inner(), reader.side.vector), turns) * step;
    return reader.inner() * writer.side.size + mod(turned, writer.side.size);
  }

  // Puts the variables of the region in terms of those of the stage.
  void finish(Region r, const TileSide& lanes) {
    const Index along = along_.whole(), across = across_.whole();
    const auto placed = [&](const Index& e) {
      return e.substitute([&](std::int32_t id) -> const Index* {
        return id == along_.side.var.id ? &along : id == across_.side.var.id ? &across : nullptr;
      });
    };
    const auto varies = [&](const Index& e) { return along_.within(e) || across_.within(e); };
    const std::vector<IndexBound> inside = {along_.bound(), across_.bound()};
    for (Expr& e : r.exprs) {
      e.index = placed(e.index);
      e.varies = varies(e.index);
      for (IndexBound& b : e.where) {
        b.e = placed(b.e);
        e.varies = e.varies || varies(b.e);
      }
      for (const ExprId o : e.operands) e.varies = e.varies || r.exprs[static_cast<std::size_t>(o)].varies;
      if (e.kind == Expr::Kind::load && e.table < 0 && e.varies)
        e.where.insert(e.where.end(), inside.begin(), inside.end());
    }
    for (Root& root : r.roots) {
      root.offset = placed(root.offset);
      root.varies = varies(root.offset) || r.exprs[static_cast<std::size_t>(root.expr)].varies;
      if (root.table < 0 && root.varies) root.where = inside;
    }
    Schedule s;
    s.lanes_reduced = true;
    s.vector = lanes.vector;
    s.threads_reduced = threads_of(s_);
    const std::int64_t vectors = r.domain_size() / (s.vector * s.threads_reduced);
    s.unroll = static_cast<int>(std::clamp<std::int64_t>(vectors, 1, s_.unroll));
    out_.group.stages.push_back(std::move(r));
    out_.schedules.push_back(s);
  }

  const Region& region_;
  const Schedule& s_;
  Tile tile_;
  std::vector<std::string> names_;  // of variables
  Digits along_, across_;
  Tiled out_;
};

}  // namespace

Tiled tiled(const Region& region, const Schedule& s) { return Tiling(region, s).run(); }

}  // namespace bz::compiler
