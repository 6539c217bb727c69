#include "programs/program.h"

#include <fmt/format.h>

#include <numeric>

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

// Shardings over one mesh, and some others: other orders of devices, some of the devices, one.
class Annotator {
 public:
  Annotator(Draws& draws) : draws_(draws) {
    static const std::vector<Dims> meshes{{2, 4}, {8},    {2, 2, 2}, {3}, {2, 3}, {5},
                                          {4},    {2, 2}, {2},       {6}, {7},    {4, 2}};
    mesh_ = draws.one_of(meshes);
    devices_ = std::accumulate(mesh_.begin(), mesh_.end(), int64_t(1), std::multiplies<>());
  }

  int64_t devices() const { return devices_; }
  const Dims& mesh() const { return mesh_; }

  Sharding sharding(const Shape& shape) {
    if (!shape.is_tuple) return parse_sharding(text(shape.rank()), shape.rank());
    std::vector<Sharding> leaves;
    for (const Shape& leaf : leaf_shapes(shape)) leaves.push_back(sharding(leaf));
    return Sharding::tuple(std::move(leaves));
  }

  void annotate(Node& node) {
    const bool is_sharding =
        node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
    if (node.shape.is_tuple) {
      const bool is_loop = node.is(Opcode::while_) || node.is(Opcode::conditional);
      if (is_loop && draws_.chance(40)) node.sharding = sharding(node.shape);
      return;
    }
    if (is_sharding || draws_.chance(35)) node.sharding = sharding(node.shape);
  }

 private:
  std::string text(int64_t rank) {
    const int64_t kind = draws_.below(100);
    if (kind < 6) return "{replicated}";
    if (kind < 8 || (rank == 0 && kind < 40))
      return fmt::format("{{maximal device={}}}", draws_.below(devices_));
    Dims axes = mesh_;
    int64_t count = devices_;
    const bool subset = kind < 12 && devices_ > 2;
    if (subset) axes = {count = draws_.between(1, devices_ - 1)};
    // Each axis to a dim or to none; minor to major in the order drawn.
    std::vector<std::vector<int64_t>> of_dim(static_cast<size_t>(rank) + 1);
    for (int64_t a = 0; a < int64_t(axes.size()); ++a) {
      auto& list =
          of_dim[static_cast<size_t>(draws_.chance(85) && rank > 0 ? draws_.below(rank) : rank)];
      list.insert(list.begin() + draws_.below(int64_t(list.size()) + 1), a);
    }
    Dims tiles, order;
    for (const auto& list : of_dim) {
      tiles.push_back(1);
      for (const int64_t a : list) {
        tiles.back() *= axes[static_cast<size_t>(a)];
        order.push_back(a);
      }
    }
    const bool partial = tiles.back() > 1;
    if (!partial) tiles.pop_back();
    if (tiles.empty()) return "{replicated}";
    std::string devices;
    if (subset || kind < 20) {
      Dims ids;
      for (int64_t d = 0; d < devices_; ++d) ids.insert(ids.begin() + draws_.below(d + 1), d);
      ids.resize(static_cast<size_t>(count));
      devices = fmt::format("{}", fmt::join(ids, ","));
    } else {
      devices = fmt::format("<=[{}]T({})", fmt::join(axes, ","), fmt::join(order, ","));
    }
    return fmt::format("{{devices=[{}]{}{}}}", fmt::join(tiles, ","), devices,
                       partial ? " last_tile_dim_replicate" : "");
  }

  Draws& draws_;
  Dims mesh_;
  int64_t devices_ = 1;
};

// Annotations on what was added since the marks were set.
class NewNodes {
 public:
  explicit NewNodes(Module& module) : module_(module) {}
  void annotate(Annotator& annotator, const Regions& regions) {
    for (const auto& computation : module_.computations()) {
      size_t& done = done_[computation.get()];
      const bool annotated = computation.get() == module_.entry() || is_program(*computation);
      for (; done < computation->nodes().size(); ++done)
        if (annotated && !regions.inside.contains(computation->nodes()[done].get()))
          annotator.annotate(*computation->nodes()[done]);
    }
  }

 private:
  Module& module_;
  std::map<const Computation*, size_t> done_;
};

}  // namespace

std::unique_ptr<Module> random_program(std::span<const uint32_t> numbers) {
  auto module = std::make_unique<Module>("random");
  Computation* entry = module->add_computation("main");
  module->set_entry(entry);
  Draws first(numbers.empty() ? 0 : numbers[0]);
  Annotator annotator(first);
  module->num_partitions = annotator.devices();
  Builder start(*entry, first, 0);
  NewNodes fresh(*module);
  std::vector<Node*> parameters;
  static const std::vector<DType> types{DType::f32, DType::f32,  DType::s32, DType::s32,
                                        DType::u8,  DType::bf16, DType::pred};
  const int64_t count = first.between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    const Shape shape(first.one_of(types), start.sizes(first.between(i == 0 ? 1 : 0, 3)));
    start.add(hlo::parameter(*entry, i, shape), 4);
  }
  Regions regions;
  if (annotator.devices() > 1) regions.mesh = annotator.mesh();
  fresh.annotate(annotator, regions);
  Draws draws(0);
  Builder builder(*entry, draws, 0);
  builder.regions = &regions;
  for (Node* parameter : start.values()) builder.add(parameter, 4);
  // One mesh for all; each number draws its own annotations.
  for (size_t i = 1; i < numbers.size(); ++i) {
    draws = Draws(numbers[i]);
    first = Draws(uint64_t(numbers[i]) + 0x100000000);
    builder.step();
    fresh.annotate(annotator, regions);
  }
  std::vector<Node*> unread;
  for (Node* v : builder.values())
    if (v->users().empty() && !v->is(Opcode::parameter)) unread.push_back(v);
  while (unread.size() > 8) unread.erase(unread.begin());
  if (unread.empty()) unread.push_back(builder.values().back());
  entry->set_root(unread.size() == 1 ? unread[0] : hlo::tuple(*entry, unread));
  for (const auto& c : module->computations()) c->remove_dead();
  module->remove_unreachable();
  module->sort_computations();
  return module;
}

}  // namespace gspmd::testing
