#include "passes/collectives/merge_reduce_scatters.h"

#include <algorithm>

#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxCompared = 1024;  // places in groups are compared for each of them

using Lists = std::vector<std::vector<int64_t>>;

// Where a device stands: in which list, at which place of it.
struct Seat {
  const std::vector<int64_t>* list = nullptr;
  size_t place = 0;
};

// All devices, in groups of one size.
bool is_regular(const Lists& lists, int64_t num_devices) {
  const size_t size = lists.front().size();
  return static_cast<int64_t>(size * lists.size()) == num_devices &&
         std::all_of(lists.begin(), lists.end(),
                     [&](const auto& list) { return list.size() == size; });
}

// By device; empty where not every device has exactly one seat.
std::vector<Seat> seats(const Lists& lists, int64_t num_devices) {
  std::vector<Seat> result(static_cast<size_t>(num_devices));
  for (const auto& list : lists)
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] < 0 || list[i] >= num_devices) return {};
      Seat& seat = result[static_cast<size_t>(list[i])];
      if (seat.list) return {};
      seat = {&list, i};
    }
  return result;
}

// Groups whose member (i, j), in row-major order, is the one that has place i among `first` and j
// among `second`. nullopt: the groups do not make such a grid.
std::optional<Lists> grid(const Lists& first, const Lists& second, int64_t num_devices) {
  if (!is_regular(first, num_devices) || !is_regular(second, num_devices)) return std::nullopt;
  const std::vector<Seat> row = seats(first, num_devices), column = seats(second, num_devices);
  if (row.empty() || column.empty()) return std::nullopt;
  Lists result;
  for (const auto& start : second) {
    if (row[static_cast<size_t>(start[0])].place != 0) continue;  // that of i = 0 stands for all
    const size_t is = first.front().size(), js = start.size();
    std::vector<int64_t> members;
    for (size_t i = 0; i < is; ++i)
      for (size_t j = 0; j < js; ++j) {
        const Seat& seat = row[static_cast<size_t>(start[j])];
        const int64_t device = (*seat.list)[i];
        const Seat& across = column[static_cast<size_t>(device)];
        const auto leader = static_cast<size_t>(j == 0 ? device : members[i * js]);
        if (seat.place != 0 || across.place != j || across.list != column[leader].list)
          return std::nullopt;
        members.push_back(device);
      }
    result.push_back(std::move(members));
  }
  if (result.empty() || !is_regular(result, num_devices) || seats(result, num_devices).empty())
    return std::nullopt;
  return result;
}

// One reduce-scatter after the other: what the devices' places in `lists` cut, by dim.
struct Chain {
  std::vector<Node*> scatters;  // in the order of the program
  Lists lists;
  Dims dims, parts;  // what each of them cuts, and into how many
};

// The longest chain that ends in `last`, where its groups make grids.
std::optional<Chain> chain_to(Node& last, int64_t num_devices) {
  const auto combiner = recognize_combiner(*last.called.at(0));
  if (!combiner) return std::nullopt;
  Chain chain{
      {&last}, {}, last.attrs.dimensions, {group_size(last.attrs.replica_groups, num_devices)}};
  while (true) {
    Node& before = *chain.scatters.front()->operand(0);
    if (!before.is(Opcode::reduce_scatter) || before.operands().size() != 1 || before.is_root() ||
        before.users().size() != 1 || before.backward != last.backward ||
        recognize_combiner(*before.called.at(0)) != combiner)
      break;
    if (chain.lists.empty()) chain.lists = materialize(last.attrs.replica_groups, num_devices);
    std::optional<Lists> lists =
        grid(materialize(before.attrs.replica_groups, num_devices), chain.lists, num_devices);
    if (!lists) break;
    chain.lists = std::move(*lists);
    chain.parts.insert(chain.parts.begin(), group_size(before.attrs.replica_groups, num_devices));
    chain.scatters.insert(chain.scatters.begin(), &before);
    chain.dims.insert(chain.dims.begin(), before.attrs.dimensions.at(0));
  }
  if (chain.scatters.size() < 2) return std::nullopt;
  return chain;
}

// The tiles of all scatters to the front, where they are one dim, the first one's major:
// [a * x, b * y] -> [a * b, x, y].
Node* tiles_first(Node* value, const Chain& chain) {
  Dims split, tiles(chain.scatters.size()), rest, merged{1};
  for (size_t d = 0; d < value->dims().size(); ++d) {
    int64_t size = value->dims()[d];
    for (size_t k = 0; k < chain.dims.size(); ++k) {
      if (chain.dims[k] != static_cast<int64_t>(d)) continue;
      tiles[k] = std::ssize(split);
      split.push_back(chain.parts[k]);
      merged[0] *= chain.parts[k];
      size /= chain.parts[k];
    }
    rest.push_back(std::ssize(split));
    split.push_back(size);
    merged.push_back(size);
  }
  tiles.insert(tiles.end(), rest.begin(), rest.end());
  return hlo::reshape(hlo::transpose(hlo::reshape(value, split), tiles), merged);
}

bool merge(Node& last, int64_t num_devices) {
  if (!last.is(Opcode::reduce_scatter) || last.operands().size() != 1) return false;
  const auto& users = last.users();
  if (users.size() == 1 && users[0]->is(Opcode::reduce_scatter) && !last.is_root()) return false;
  std::optional<Chain> chain = chain_to(last, num_devices);
  if (!chain) return false;
  Computation& computation = last.parent();
  const EmissionScope scope(last.metadata, last.backward);
  Node* value = chain->scatters.front()->operand(0);
  Shape shape = last.shape;
  Attributes attrs = last.attrs;
  ReplicaGroups together;
  together.lists = std::move(chain->lists);
  attrs.replica_groups = std::move(together);
  const bool one_dim = std::all_of(chain->dims.begin(), chain->dims.end(),
                                   [&](int64_t d) { return d == chain->dims[0]; });
  if (!one_dim) {
    value = tiles_first(value, *chain);
    attrs.dimensions = {0};
    shape.dims = value->dims();
    shape.dims[0] = 1;
  }
  Node* scatter =
      computation.append(Opcode::reduce_scatter, shape, {value}, std::move(attrs), last.name());
  copy_annotations(last, *scatter);
  scatter->sharding.reset();
  scatter->called = last.called;
  computation.replace_uses(&last, one_dim ? scatter : hlo::reshape(scatter, last.dims()));
  return true;
}

}  // namespace

bool merge_reduce_scatters(Module& module) {
  const int64_t num_devices = module.num_partitions;
  if (num_devices < 2 || num_devices > kMaxCompared) return false;
  return rewrite_each(module, [&](Computation& computation) {
    bool changed = false;
    for (size_t i = 0; i < computation.nodes().size(); ++i)
      changed |= merge(*computation.nodes()[i], num_devices);
    return changed;
  });
}

}  // namespace gspmd
