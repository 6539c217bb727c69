// Random programs over s32 (sums wrap around, so any order is exact) x random annotations x random
// meshes: the partitioned program equals the whole one bit for bit. A failure is shrunk and printed
// as HLO.

#include <cstdlib>

#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "load.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace random_graph_test {
namespace {

struct Random {
  uint64_t state;
  int64_t below(int64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  }
  bool chance(int64_t percent) { return below(100) < percent; }
};

class ProgramBuilder {
 public:
  ProgramBuilder(Computation& c, Random& random) : c_(c), random_(random) {}

  Node* build(int64_t operations) {
    const int64_t parameters = 1 + random_.below(3);
    for (int64_t i = 0; i < parameters; ++i) {
      Dims dims;
      for (int64_t d = 1 + random_.below(3); d > 0; --d) dims.push_back(size());
      values_.push_back(hlo::parameter(c_, i, Shape(DType::s32, dims)));
    }
    for (int64_t i = 0; i < operations; ++i) values_.push_back(step(pick()));
    return values_.back();
  }

 private:
  int64_t size() {
    static const int64_t sizes[] = {1, 2, 3, 4, 6, 7, 8, 9};
    return sizes[random_.below(8)];
  }
  Node* pick() { return values_[static_cast<size_t>(random_.below(int64_t(values_.size())))]; }

  Node* partner(Node* x) {  // a value of the same dims, x itself if there is no other
    std::vector<Node*> fits;
    for (Node* v : values_)
      if (v->dims() == x->dims()) fits.push_back(v);
    return fits[static_cast<size_t>(random_.below(int64_t(fits.size())))];
  }

  Dims shuffled(int64_t n) {
    Dims order;
    for (int64_t i = 0; i < n; ++i) order.insert(order.begin() + random_.below(i + 1), i);
    return order;
  }

  Node* contract(Node* x) {
    if (x->rank() == 0 || x->rank() > 3) return hlo::unary(Opcode::negate, x);
    const int64_t k = random_.below(x->rank());
    Dims dims{x->dim(k), size()};
    Node* other = nullptr;
    for (Node* v : values_)
      for (int64_t d = 0; d < v->rank() && !other; ++d)
        if (v != x && v->rank() <= 2 && v->dim(d) == x->dim(k))
          return hlo::dot(x, v, {{}, {}, {k}, {d}});
    other = hlo::iota(c_, Shape(DType::s32, dims), random_.below(2));
    return hlo::dot(x, other, {{}, {}, {k}, {0}});
  }

  Node* look_up(Node* x) {
    if (x->rank() == 0) return x;
    Node* index = pick();
    if (index->rank() > 2 || x->rank() > 2) return hlo::binary(Opcode::add, x, x);
    GatherDims g;
    g.collapsed_slice_dims = {0};
    g.start_index_map = {0};
    g.index_vector_dim = index->rank();
    Dims sizes = x->dims();
    sizes[0] = 1;
    for (int64_t d = 1; d < x->rank(); ++d) g.offset_dims.push_back(index->rank() + d - 1);
    Node* rows = hlo::gather(x, index, g, sizes);
    if (random_.chance(50)) return rows;
    ScatterDims s;
    s.inserted_window_dims = {0};
    s.scatter_dims_to_operand_dims = {0};
    s.index_vector_dim = index->rank();
    s.update_window_dims = g.offset_dims;
    return hlo::scatter(x, index, rows, s,
                        binary_computation(c_.module(), Opcode::add, DType::s32));
  }

  Node* regroup(Node* x) {
    if (x->rank() < 2) return hlo::reshape(x, {x->shape.elements_count(), 1});
    Dims dims = x->dims();
    const auto at = static_cast<size_t>(random_.below(x->rank() - 1));
    dims[at] *= dims[at + 1];
    dims.erase(dims.begin() + int64_t(at) + 1);
    if (random_.chance(40) && dims[at] % 2 == 0) {
      dims[at] /= 2;
      dims.insert(dims.begin() + int64_t(at), 2);
    }
    return hlo::reshape(x, dims);
  }

  Node* cut_or_pad(Node* x) {
    if (x->rank() == 0) return x;
    const auto d = static_cast<size_t>(random_.below(x->rank()));
    if (random_.chance(50)) {
      Dims starts(x->dims().size(), 0), limits = x->dims();
      starts[d] = random_.below(limits[d]);
      limits[d] -= random_.below(limits[d] - starts[d]);
      Dims strides(starts.size(), 1);
      strides[d] = 1 + random_.below(2);
      return hlo::slice(x, starts, limits, strides);
    }
    std::vector<PaddingDim> padding(x->dims().size());
    padding[d] = {random_.below(3), random_.below(3), random_.below(2)};
    return hlo::pad(x, hlo::scalar(c_, DType::s32, 5), padding);
  }

  Node* grow(Node* x) {
    if (x->rank() > 2) return hlo::binary(Opcode::subtract, x, partner(x));
    Dims dims = x->dims(), positions;
    const int64_t at = random_.below(x->rank() + 1);
    for (int64_t d = 0; d < x->rank(); ++d) positions.push_back(d + (d >= at));
    dims.insert(dims.begin() + at, size());
    return hlo::broadcast(x, dims, positions);
  }

  Node* shrink(Node* x) {
    if (x->rank() == 0) return x;
    const Dims dims{random_.below(x->rank())};
    return random_.chance(60) ? hlo::reduce_sum(x, dims) : hlo::reduce_max(x, dims);
  }

  // Parts at a place that only the run knows, inside of x and outside.
  Node* read_or_write(Node* x) {
    if (x->rank() == 0) return x;
    std::vector<Node*> starts;
    Dims sizes = x->dims();
    for (int64_t& size : sizes) {
      starts.push_back(hlo::scalar(c_, DType::s32, double(random_.below(12) - 2)));
      if (random_.chance(60)) size = 1 + random_.below(size);
    }
    Node* part = hlo::dynamic_slice(x, starts, sizes);
    if (random_.chance(50)) return part;
    std::vector<Node*> operands{x, hlo::unary(Opcode::negate, part)};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return emit(c_, Opcode::dynamic_update_slice, operands);
  }

  Node* slide(Node* x) {
    if (x->rank() == 0) return x;
    Attributes attrs;
    const auto d = static_cast<size_t>(random_.below(x->rank()));
    if (random_.chance(40)) {
      attrs.dimensions = {static_cast<int64_t>(d)};
      return emit(c_, Opcode::reverse, {x}, attrs);
    }
    attrs.window.resize(x->dims().size());
    attrs.window.edit()[d] = {
        2,    1 + random_.below(2), 1 + random_.below(2), random_.below(3), 1 + random_.below(3), 1,
        false};
    const bool sums = random_.chance(50);
    Computation* apply =
        binary_computation(c_.module(), sums ? Opcode::add : Opcode::maximum, DType::s32);
    Node* start = hlo::scalar(c_, DType::s32, sums ? 3 : -7);
    return emit(c_, Opcode::reduce_window, {x, start}, attrs, {}, {apply});
  }

  Node* step(Node* x) {
    switch (random_.below(13)) {
      case 0:
        return hlo::binary(Opcode::add, x, partner(x));
      case 1:
        return hlo::binary(Opcode::multiply, x, partner(x));
      case 2:
        return hlo::select(hlo::compare(x, partner(x), Direction::lt), x, partner(x));
      case 3:
        return hlo::transpose(x, shuffled(x->rank()));
      case 4:
        return regroup(x);
      case 5:
        return shrink(x);
      case 6:
        return grow(x);
      case 7:
        return cut_or_pad(x);
      case 8:
        return look_up(x);
      case 9:
        return x->rank() == 0 ? x : hlo::concatenate({x, partner(x)}, random_.below(x->rank()));
      case 10:
        return read_or_write(x);
      case 11:
        return slide(x);
      default:
        return contract(x);
    }
  }

  Computation& c_;
  Random& random_;
  std::vector<Node*> values_;
};

Sharding random_sharding(const Mesh& mesh, int64_t rank, Random& random) {
  std::vector<std::vector<int64_t>> dims(static_cast<size_t>(rank));
  for (int64_t a = 0; a < mesh.rank(); ++a)
    if (const int64_t d = random.below(rank + 1); d < rank) {
      auto& list = dims[static_cast<size_t>(d)];
      list.insert(list.begin() + random.below(int64_t(list.size()) + 1), a);
    }
  return mesh_sharding(mesh, dims).with_mesh(nullptr);
}

std::string failure(const Module& module, int64_t devices) {
  try {
    return difference_when_partitioned(module, devices, 99);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Drops annotations and trailing nodes while the program still fails.
std::unique_ptr<Module> shrunk(std::unique_ptr<Module> module, int64_t devices) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = 0; i < module->entry()->nodes().size() && !smaller; ++i) {
      auto without = module->clone();
      Node* node = without->entry()->nodes()[i].get();
      if (!node->sharding) continue;
      node->sharding.reset();
      if (!failure(*without, devices).empty()) {
        module = std::move(without);
        smaller = true;
      }
    }
    for (size_t i = 0; i + 1 < module->entry()->nodes().size() && !smaller; ++i) {
      auto prefix = module->clone();
      Node* node = prefix->entry()->nodes()[i].get();
      if (node->is_root()) continue;
      prefix->entry()->set_root(node);
      prefix->entry()->remove_dead();
      if (prefix->entry()->nodes().size() < module->entry()->nodes().size() &&
          !failure(*prefix, devices).empty()) {
        module = std::move(prefix);
        smaller = true;
      }
    }
  }
  return module;
}

}  // namespace

TEST_CASE("random programs under random annotations equal themselves", "[random]") {
  const Mesh meshes[] = {Mesh{{"x", 2}, {"y", 4}}, Mesh{{"x", 3}}, Mesh{{"x", 2}, {"y", 3}},
                         Mesh{{"x", 2}, {"y", 2}, {"z", 2}}, Mesh{{"x", 8}}};
  const int64_t cases = std::getenv("GSPMD_LONG") ? 200'000 : random_load(4'000);
  int64_t failures = 0;
  for (int64_t n = 0; n < cases && failures < 3; ++n) {
    Random random{static_cast<uint64_t>(n) * 7919 + 17};
    const Mesh& mesh = meshes[random.below(5)];
    auto module = std::make_unique<Module>("random");
    Computation* entry = module->add_computation("main");
    module->set_entry(entry);
    entry->set_root(ProgramBuilder(*entry, random).build(2 + random.below(14)));
    entry->remove_dead();
    module->sort_computations();
    for (const auto& node : entry->nodes())
      if (!node->shape.is_tuple && random.chance(35))
        node->sharding = random_sharding(mesh, node->rank(), random);
    if (failure(*module, mesh.num_devices()).empty()) continue;
    ++failures;
    module = shrunk(std::move(module), mesh.num_devices());
    FAIL_CHECK("case " << n << " on " << to_string(mesh) << "\n"
                       << to_text(*module) << failure(*module, mesh.num_devices()));
  }
  CHECK(failures == 0);
}

}  // namespace random_graph_test
