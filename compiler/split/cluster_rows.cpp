#include "compiler/split/cluster_rows.h"

#include <algorithm>

#include "compiler/fuse/cost.h"

namespace bz::compiler {
namespace {

// Nodes that are looked at for what a row is computed from, and for where it is needed again.
constexpr std::size_t kNear = 64;
// Instructions for an element of a softmax, or of a norm: so this estimate is near to that of predict().
constexpr double kExponentials = 36, kOthers = 12;

}  // namespace

bool ClusterRows::take(NodeId id, std::int64_t size, std::int64_t resident) {
  const std::int64_t most = resident * target_.max_cluster;
  if (target_.max_cluster == 1 || size > most) return false;
  const std::vector<NodeId>& operands = graph_.node(id).operands;
  const std::set<NodeId> row = elements_of(operands);
  const auto taken = [&](NodeId n) { return taken_.contains(n); };
  if (std::any_of(row.begin(), row.end(), taken)) return true;
  const NodeId again = needed_again(id, row);
  const std::int64_t elements = graph_.type(operands[0]).elements();
  const Monoid monoid = graph_.node(id).as<ReduceAttrs>()->monoid;
  if (again == kNoNode || size * words_kept(row, again) > most) return false;
  if (!faster(monoid, row, elements, elements / size)) return false;
  taken_.insert(again);
  return true;
}

// Maps and inputs that have an element for each of the nodes', from which these are computed.
std::set<NodeId> ClusterRows::elements_of(const std::vector<NodeId>& nodes) const {
  const std::int64_t elements = graph_.type(nodes[0]).elements();
  std::vector<NodeId> work = nodes;
  std::set<NodeId> seen, found;
  while (!work.empty() && seen.size() < kNear) {
    const NodeId n = work.back();
    work.pop_back();
    const Node& node = graph_.node(n);
    const bool leaf = node.kind() == NodeKind::leaf;
    if (node.type.elements() != elements || node.kind() == NodeKind::reduce || !seen.insert(n).second)
      continue;
    if (leaf ? node.as<InputAttrs>() != nullptr : node.kind() == NodeKind::map) found.insert(n);
    work.insert(work.end(), node.operands.begin(), node.operands.end());
  }
  return found;
}

// Words of an element that a block would hold of the row: of the inputs that it is computed from, and of those that are used
// beside it where it is needed again.
std::int64_t ClusterRows::words_kept(const std::set<NodeId>& row, NodeId again) const {
  const std::int64_t elements = graph_.type(again).elements();
  std::set<NodeId> held = row, seen;
  std::vector<NodeId> work = {again};
  while (!work.empty() && seen.size() < kNear) {
    const NodeId n = work.back();
    work.pop_back();
    if (!seen.insert(n).second) continue;
    held.merge(elements_of({n}));
    for (const NodeId user : users_[static_cast<std::size_t>(n)]) {
      if (graph_.node(user).kind() == NodeKind::map && graph_.type(user).elements() == elements)
        work.push_back(user);
    }
  }
  std::int64_t words = 0;
  for (const NodeId n : held) {
    const Node& node = graph_.node(n);
    if (node.as<InputAttrs>() != nullptr) words += std::max(1, size_of(node.type.dtype) / 4);
  }
  return std::max<std::int64_t>(1, words);
}

// The first map of an element of the row and what the row, or another component of the same state, is reduced to.
NodeId ClusterRows::needed_again(NodeId id, const std::set<NodeId>& row) {
  if (users_.empty()) {
    users_.resize(static_cast<std::size_t>(graph_.size()));
    for (NodeId n = 0; n < graph_.size(); ++n) {
      for (const NodeId o : graph_.node(n).operands) users_[static_cast<std::size_t>(o)].push_back(n);
    }
  }
  const std::vector<NodeId>& operands = graph_.node(id).operands;
  const std::int64_t elements = graph_.type(operands[0]).elements();
  std::vector<NodeId> work;
  for (const NodeId n : users_[static_cast<std::size_t>(operands[0])]) {
    if (graph_.node(n).kind() == NodeKind::reduce && graph_.node(n).operands == operands) work.push_back(n);
  }
  std::set<NodeId> seen;
  for (std::size_t i = 0; i < work.size() && seen.size() < kNear; ++i) {
    for (const NodeId n : users_[static_cast<std::size_t>(work[i])]) {
      if (!seen.insert(n).second) continue;
      work.push_back(n);
      if (graph_.node(n).kind() != NodeKind::map || graph_.type(n).elements() != elements) continue;
      const std::set<NodeId> from = elements_of(graph_.node(n).operands);
      const auto of_row = [&](NodeId e) { return row.contains(e); };
      if (std::any_of(from.begin(), from.end(), of_row)) return n;
    }
  }
  return kNoNode;
}

// One kernel of clusters that read once, against kernels for parts, for their combination, and for what needs it.
bool ClusterRows::faster(Monoid monoid, const std::set<NodeId>& row, std::int64_t elements,
                         std::int64_t rows) const {
  // Of an element: of inputs, and as much as one of them for the result; of something stored as f32 where there are none.
  int read = 0, written = 0;
  for (const NodeId n : row) {
    if (graph_.node(n).as<InputAttrs>() == nullptr) continue;
    read += size_of(graph_.type(n).dtype);
    written = std::max(written, size_of(graph_.type(n).dtype));
  }
  if (read == 0) read = written = size_of(DType::f32);
  const double all = static_cast<double>(elements), sms = target_.multiprocessors;
  const double moving = all / target_.dram_bytes_per_second;
  const double computing = all * (monoid == Monoid::max_sumexp ? kExponentials : kOthers) / (kLanes * kHertz);
  const double apart =
      3 * kLaunchSeconds + std::max(moving * (read + (read + written) / kCacheSpeed), computing / sms);

  const double blocks = static_cast<double>(rows * target_.max_cluster);
  const double busy = std::min(blocks, sms * reach(target_.max_cluster));
  const double memory = moving * (read + written) / std::min(1.0, kBurst * busy / sms);
  // Rows that are all there at once are loaded, and then all computed from.
  const double arithmetic = computing / busy;
  const double both = blocks <= sms ? memory + arithmetic : std::max(memory, arithmetic);
  return kLaunchSeconds + both < apart;
}

}  // namespace bz::compiler
