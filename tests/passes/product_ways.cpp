#include "passes/product_ways.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd {
namespace {

int64_t draw(std::mt19937& random, int64_t below) {
  return std::uniform_int_distribution<int64_t>(0, below - 1)(random);
}

// Mostly sizes that all axes divide.
int64_t draw_size(std::mt19937& random) {
  constexpr int64_t kEven[] = {16, 32, 48, 64, 96, 128};
  return draw(random, 12) == 0 ? 3 + draw(random, 30) : kEven[draw(random, 6)];
}

Digits axes_of(const std::vector<int64_t>& mesh) {
  Digits axes;
  int64_t stride = 1;
  for (size_t a = mesh.size(); a-- > 0; stride *= mesh[a])
    axes.insert(axes.begin(), {mesh[a], stride});
  return axes;
}

// Each axis, now and then each half of it, on some dim or on none.
Sharding draw_sharding(const Product& p, const Shape& shape, std::mt19937& random) {
  std::vector<Digits> dims(shape.dims.size());
  Digits parts;
  for (const Digit& axis : axes_of(p.mesh))
    if (axis.size == 8 && draw(random, 3) == 0) {
      parts.push_back({2, axis.stride * 4});
      parts.push_back({4, axis.stride});
    } else {
      parts.push_back(axis);
    }
  std::shuffle(parts.begin(), parts.end(), random);
  for (const Digit& part : parts) {
    const auto d = static_cast<size_t>(draw(random, shape.rank() + 1));
    if (d == dims.size()) continue;
    if (tile_count(dims[d]) * part.size <= shape.dims[d]) dims[d].push_back(part);
  }
  return Sharding::tiled(iota_order(p.num_devices()), std::move(dims));
}

std::string parameter(const Product& p, size_t i, const char* name) {
  return fmt::format("  {} = {} parameter({}), sharding={}\n", name, to_string(p.shapes[i]), i,
                     to_string(p.shardings[i]));
}

Shape floats(Dims dims) { return Shape(DType::f32, std::move(dims)); }

// The loops batch, rows, columns and the sum; operands and result in an order of dims at random.
std::string make_dot(Product& p, std::mt19937& random) {
  const bool batch = p.kind == ProductKind::batch_dot;
  const int64_t b = 8 << draw(random, 2), i = draw_size(random), j = draw_size(random),
                k = draw_size(random);
  const bool turned = draw(random, 2) == 0;  // the right operand has its sum last
  const int64_t first = batch ? 1 : 0;
  const int64_t sum_of_right = turned ? first + 1 : first, column = turned ? first : first + 1;
  if (batch) p.loops.push_back({b, {0, 0, 0}});
  p.loops.push_back({i, {first, -1, first}});
  p.loops.push_back({j, {-1, column, first + 1}});
  p.loops.push_back({k, {first + 1, sum_of_right, -1}});
  const Dims front = batch ? Dims{b} : Dims{};
  const auto with = [&](int64_t x, int64_t y) {
    Dims dims = front;
    dims.push_back(x);
    dims.push_back(y);
    return floats(dims);
  };
  p.shapes = {with(i, k), turned ? with(j, k) : with(k, j), with(i, j)};
  return fmt::format("dot(x, y), {}lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}",
                     batch ? "lhs_batch_dims={0}, rhs_batch_dims={0}, " : "", first + 1,
                     sum_of_right);
}

std::string make_convolution(Product& p, std::mt19937& random) {
  const int64_t n = 8 << draw(random, 3), in = draw_size(random), out = draw_size(random),
                width = 32 << draw(random, 2), reach = 1 + 2 * draw(random, 2);
  p.loops = {{n, {0, -1, 0}}, {in, {1, 1, -1}}, {out, {-1, 0, 1}}, {width, {2, -1, 2}, reach / 2}};
  p.shapes = {floats({n, in, width}), floats({out, in, reach}), floats({n, out, width})};
  return fmt::format("convolution(x, y), window={{size={} pad={}_{}}}, dim_labels=bf0_oi0->bf0",
                     reach, reach / 2, reach / 2);
}

std::string make_reduce(Product& p, std::mt19937& random) {
  const Dims dims = {draw_size(random), draw_size(random), draw_size(random)};
  const int64_t summed = draw(random, 3);
  Dims kept;
  for (int64_t d = 0; d < 3; ++d) {
    p.loops.push_back({dims[size_t(d)], {d, d == summed ? -1 : std::ssize(kept)}});
    if (d != summed) kept.push_back(dims[size_t(d)]);
  }
  p.shapes = {floats(dims), floats(kept)};
  return fmt::format("reduce(x, z), dimensions={{{}}}, to_apply=add", summed);
}

// The op whose nest it is: what has most iterations; and how many of them a device has.
int64_t work_of(const Product& p, const Module& local) {
  int64_t most = 0;
  for (const auto& computation : local.computations())
    for (const auto& node : computation->nodes()) {
      if (node->is(Opcode::dot)) {
        int64_t work = node->shape.elements_count();
        for (const int64_t d : node->attrs.dot->lhs_contracting) work *= node->operand(0)->dim(d);
        most = std::max(most, work);
      } else if (node->is(Opcode::convolution)) {
        const int64_t work = node->shape.elements_count() * node->operand(1)->dim(1);
        most = std::max(most, work);
      } else if (node->is(Opcode::reduce)) {
        most = std::max(most, node->operand(0)->shape.elements_count());
      }
    }
  if (most == 0) internal_error("the program has no product:\n{}\n{}", p.text, to_text(local));
  return most;
}

// All ways, one digit after the other.
class Ways {
 public:
  Ways(const Product& p, const Sharding& result, int64_t most_work)
      : p_(p),
        result_(result),
        most_work_(most_work),
        order_(iota_order(p.num_devices())),
        layout_(p.loops.size()),
        known_(p.shapes.size()) {
    for (const Digit& axis : axes_of(p.mesh)) {
      int64_t rest = axis.size;
      for (int64_t prime = 2; rest > 1; ++prime)
        while (rest % prime == 0) {
          rest /= prime;
          digits_.push_back({prime, axis.stride * rest});
        }
    }
    best_.bytes = INT64_MAX;
  }

  ProductCost least() {
    place(0, [&] { consider(); });
    return best_;
  }

  // The layouts of the result where nothing is summed.
  void each_result(const std::function<void(const Sharding&)>& use) {
    place(0, [&] {
      const Sharding layout = seen_from(p_.shapes.size() - 1);
      if (layout.unreduced().empty()) use(layout);
    });
  }

 private:
  void place(size_t next, const std::function<void()>& use) {
    if (next == digits_.size()) {
      use();
      return;
    }
    place(next + 1, use);  // on no loop
    for (Digits& loop : layout_)
      for (size_t at = 0; at <= loop.size(); ++at) {
        loop.insert(loop.begin() + std::ptrdiff_t(at), digits_[next]);
        place(next + 1, use);
        loop.erase(loop.begin() + std::ptrdiff_t(at));
      }
  }

  int64_t work() const {
    int64_t work = 1;
    for (size_t l = 0; l < layout_.size(); ++l)
      work *= ceil_div(p_.loops[l].size, tile_count(layout_[l]));
    return work;
  }

  Sharding seen_from(size_t value) const {
    std::vector<Digits> dims(p_.shapes[value].dims.size());
    std::vector<Unreduced> sums;
    for (size_t l = 0; l < layout_.size(); ++l) {
      const int64_t d = p_.loops[l].dims[value];
      if (d >= 0) dims[static_cast<size_t>(d)] = layout_[l];
      if (value + 1 == p_.shapes.size() && p_.loops[l].summed() && !layout_[l].empty())
        sums.push_back({layout_[l], Combiner::sum});
    }
    return Sharding::tiled(order_, std::move(dims), {}, std::move(sums));
  }

  int64_t moved(size_t value) {
    const Sharding layout = seen_from(value);
    std::vector<Digits> key;
    for (int64_t d = 0; d < p_.shapes[value].rank(); ++d) key.push_back(layout.dim(d));
    for (const Unreduced& u : layout.unreduced()) {
      Digits sums = u.digits;  // in which order they are added is no matter
      std::sort(sums.begin(), sums.end());
      key.push_back(sums);
    }
    const auto [found, fresh] = known_[value].try_emplace(std::move(key));
    if (fresh) {
      const bool result = value + 1 == p_.shapes.size();
      found->second = plan_reshard(p_.shapes[value], result ? layout : p_.shardings[value],
                                   result ? result_ : layout, p_.num_devices())
                          .cost.bytes;
    }
    return found->second;
  }

  // What the parts of the first operand read of their neighbours; nullopt: more than one of each.
  std::optional<int64_t> halos() const {
    int64_t bytes = 0;
    for (size_t l = 0; l < layout_.size(); ++l) {
      const ProductLoop& loop = p_.loops[l];
      if (loop.halo == 0 || layout_[l].empty()) continue;
      const int64_t tiles = tile_count(layout_[l]);
      if (loop.size % tiles != 0 || loop.size / tiles < loop.halo) return std::nullopt;
      const Shape part = local_shape(p_.shapes[0], seen_from(0));
      bytes += 2 * loop.halo * part.bytes() / part.dims[static_cast<size_t>(loop.dims[0])];
    }
    return bytes;
  }

  void consider() {
    if (work() > most_work_) return;
    const std::optional<int64_t> halo = halos();
    if (!halo) return;
    int64_t bytes = *halo;
    for (size_t value = 0; value < p_.shapes.size(); ++value) {
      bytes += moved(value);
      if (bytes >= best_.bytes) return;
    }
    best_ = {bytes, work(), {}};
    for (size_t l = 0; l < layout_.size(); ++l) {
      best_.layout += fmt::format("{}loop {} of {}:", l > 0 ? ", " : "", l, p_.loops[l].size);
      for (const Digit& digit : layout_[l])
        best_.layout += fmt::format(" {} by {}", digit.size, digit.stride);
    }
  }

  const Product& p_;
  const Sharding result_;
  int64_t most_work_;
  DeviceOrder order_;
  Digits digits_;
  std::vector<Digits> layout_;
  std::vector<std::map<std::vector<Digits>, int64_t>> known_;
  ProductCost best_;
};

}  // namespace

int64_t Product::num_devices() const {
  return std::accumulate(mesh.begin(), mesh.end(), int64_t{1}, std::multiplies<>());
}

Product random_product(ProductKind kind, const std::vector<int64_t>& mesh, bool result_annotated,
                       std::mt19937& random) {
  Product p;
  p.kind = kind;
  p.mesh = mesh;
  std::string op;
  if (kind == ProductKind::convolution)
    op = make_convolution(p, random);
  else if (kind == ProductKind::reduce)
    op = make_reduce(p, random);
  else
    op = make_dot(p, random);
  for (size_t i = 0; i + 1 < p.shapes.size(); ++i)
    p.shardings.push_back(draw_sharding(p, p.shapes[i], random));
  if (result_annotated) p.annotated = draw_sharding(p, p.shapes.back(), random);
  p.text = fmt::format("HloModule m, num_partitions={}\n", p.num_devices());
  if (kind == ProductKind::reduce)
    p.text +=
        "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, "
        "b)\n}\n";
  p.text += "ENTRY e {\n" + parameter(p, 0, "x");
  if (p.shardings.size() > 1) p.text += parameter(p, 1, "y");
  if (kind == ProductKind::reduce) p.text += "  z = f32[] constant(0)\n";
  p.text += fmt::format("  ROOT o = {} {}{}\n}}\n", to_string(p.shapes.back()), op,
                        p.annotated ? ", sharding=" + to_string(*p.annotated) : "");
  return p;
}

ProductProgram program_of(const Product& product) {
  PipelineOptions options;
  options.num_devices = product.num_devices();
  const CompiledModule compiled = run_pipeline(*parse_module(product.text), options);
  ProductProgram program;
  for (const CollectiveStats& stats : collective_stats(*compiled.local))
    program.cost.bytes += stats.bytes;
  program.cost.work = work_of(product, *compiled.local);
  program.result = compiled.completed->entry()->root()->sharding.value_or(Sharding::replicated());
  program.text = to_text(*compiled.local);
  return program;
}

ProductCost least_way(const Product& product, const Sharding& result, int64_t most_work) {
  return Ways(product, result, most_work).least();
}

ProductChain random_chain(const std::vector<int64_t>& mesh, bool result_annotated,
                          std::mt19937& random) {
  ProductChain chain;
  Product &a = chain.first, &b = chain.second;
  a.mesh = b.mesh = mesh;
  const int64_t i = draw_size(random), k = draw_size(random), h = draw_size(random),
                j = draw_size(random);
  a.loops = {{i, {0, -1, 0}}, {h, {-1, 1, 1}}, {k, {1, 0, -1}}};
  b.loops = {{i, {0, -1, 0}}, {j, {-1, 1, 1}}, {h, {1, 0, -1}}};
  a.shapes = {floats({i, k}), floats({k, h}), floats({i, h})};
  b.shapes = {floats({i, h}), floats({h, j}), floats({i, j})};
  for (const Shape& shape : {a.shapes[0], a.shapes[1]})
    a.shardings.push_back(draw_sharding(a, shape, random));
  b.shardings = {Sharding::replicated(), draw_sharding(b, b.shapes[1], random)};
  if (result_annotated) b.annotated = draw_sharding(b, b.shapes.back(), random);
  const std::string dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  chain.text = fmt::format(
      "HloModule m, num_partitions={}\nENTRY e {{\n{}{}  v = {} parameter(2), sharding={}\n"
      "  d = {} dot(x, w), {}\n  t = {} abs(d)\n  ROOT o = {} dot(t, v), {}{}\n}}\n",
      a.num_devices(), parameter(a, 0, "x"), parameter(a, 1, "w"), to_string(b.shapes[1]),
      to_string(b.shardings[1]), to_string(a.shapes[2]), dims, to_string(a.shapes[2]),
      to_string(b.shapes[2]), dims, b.annotated ? ", sharding=" + to_string(*b.annotated) : "");
  return chain;
}

ChainProgram program_of(const ProductChain& chain) {
  PipelineOptions options;
  options.num_devices = chain.first.num_devices();
  const CompiledModule compiled = run_pipeline(*parse_module(chain.text), options);
  ChainProgram program;
  for (const CollectiveStats& stats : collective_stats(*compiled.local))
    program.bytes += stats.bytes;
  size_t next = 0;
  for (const auto& node : compiled.local->entry()->nodes())
    if (node->is(Opcode::dot)) {
      const int64_t summed = node->operand(0)->dim(node->attrs.dot->lhs_contracting.at(0));
      program.works[next++ % 2] = node->shape.elements_count() * summed;
    }
  if (next != 2) internal_error("{} products in\n{}", next, to_text(*compiled.local));
  program.result = compiled.completed->entry()->root()->sharding.value_or(Sharding::replicated());
  program.text = to_text(*compiled.local);
  return program;
}

ProductCost least_way(const ProductChain& chain, const ChainProgram& program) {
  // Every layout of the value between them: that of the result of a product which sums nothing.
  ProductCost best{INT64_MAX, 0, {}};
  Product second = chain.second;
  Ways(chain.first, {}, INT64_MAX).each_result([&](const Sharding& between) {
    const ProductCost a = least_way(chain.first, between, program.works[0]);
    if (a.bytes >= best.bytes) return;
    second.shardings[0] = between;
    const ProductCost b = least_way(second, program.result, program.works[1]);
    if (a.bytes + b.bytes >= best.bytes) return;
    best = {a.bytes + b.bytes, 0,
            fmt::format("{}; between them {}; {}", a.layout, to_string(between), b.layout)};
  });
  return best;
}

}  // namespace gspmd
