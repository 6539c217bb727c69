#include "passes/spmd_check.h"

#include <cmath>

#include "gspmd/ir/text.h"

namespace gspmd::testing {
namespace {

struct Random {
  uint64_t state;
  uint64_t next() {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
};

Array integers(const Shape& shape, Random& random) {
  Array array(shape);
  const bool has_negatives = is_floating(shape.dtype) || is_signed_integer(shape.dtype);
  for (int64_t i = 0; i < array.size(); ++i) {
    const auto r = static_cast<int64_t>(random.next() >> 33);
    array.set(i, shape.dtype == DType::pred ? double(r % 2)
                                            : double(r % 9 - 4 + (has_negatives ? 0 : 4)));
  }
  return array;
}

Sharding leaf(const std::optional<Sharding>& s, size_t i) {
  if (!s) return Sharding::replicated();
  return s->is_tuple() ? s->elements().at(i) : *s;
}

Array poisoned(const Shape& shape) {
  Array array(shape);
  for (std::byte& b : array.bytes()) b = std::byte{0x80};
  if (is_floating(shape.dtype))
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, std::nan(""));
  if (shape.dtype == DType::pred)
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, 1);
  return array;
}

// Copies the box between a whole array and a shard.
void copy_box(const Array& whole, const Array& shard, const Box& box, bool to_shard) {
  if (box.is_empty()) return;
  const Dims ws = row_major_strides(whole.dims()), ss = row_major_strides(shard.dims());
  const auto size = static_cast<size_t>(dtype_size(whole.dtype()));
  int64_t count = 1;
  for (const int64_t d : box.size) count *= d;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n, w = 0, s = 0;
    for (size_t d = box.size.size(); d-- > 0;) {
      const int64_t i = rest % box.size[d];
      rest /= box.size[d];
      w += (box.start[d] + i) * ws[d];
      s += i * ss[d];
    }
    std::byte* a = whole.bytes().data() + static_cast<size_t>(w) * size;
    std::byte* b = shard.bytes().data() + static_cast<size_t>(s) * size;
    std::memcpy(to_shard ? b : a, to_shard ? a : b, size);
  }
}

}  // namespace

std::vector<Value> integer_arguments(const Module& module, uint64_t seed) {
  Random random{seed};
  std::vector<Value> arguments;
  for (const Node* parameter : module.entry()->parameters()) {
    std::vector<Array> leaf_arrays;
    for (const Shape& shape : leaf_shapes(parameter->shape))
      leaf_arrays.push_back(integers(shape, random));
    arguments.push_back(pack(parameter->shape, leaf_arrays));
  }
  return arguments;
}

Value run_partitioned(const CompiledModule& compiled, int64_t num_devices,
                      const std::vector<Value>& arguments) {
  const Computation& entry = *compiled.completed->entry();
  std::vector<std::vector<Value>> local(static_cast<size_t>(num_devices));
  for (int64_t device = 0; device < num_devices; ++device)
    for (size_t p = 0; p < arguments.size(); ++p) {
      const Node& parameter = *entry.parameters()[p];
      const std::vector<Array> whole = leaves(arguments[p]);
      std::vector<Array> shards;
      for (size_t i = 0; i < whole.size(); ++i) {
        const Sharding s = leaf(parameter.sharding, i);
        Array shard = poisoned(local_shape(whole[i].shape(), s));
        copy_box(whole[i], shard, shard_box(whole[i].shape(), s, device), true);
        shards.push_back(std::move(shard));
      }
      const Node& lp = *compiled.local->entry()->parameters().at(p);
      local[static_cast<size_t>(device)].push_back(pack(lp.shape, shards));
    }
  const std::vector<Value> results = evaluate_devices(*compiled.local, num_devices, local);
  const std::vector<Shape> shapes = leaf_shapes(entry.root()->shape);
  std::vector<Array> whole;
  for (const Shape& shape : shapes) whole.emplace_back(shape);
  for (int64_t device = 0; device < num_devices; ++device) {
    const std::vector<Array> shards = leaves(results[static_cast<size_t>(device)]);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Sharding s = leaf(entry.root()->sharding, i);
      copy_box(whole[i], shards[i], shard_box(shapes[i], s, device), false);
    }
  }
  return pack(entry.root()->shape, whole);
}

std::string difference_when_partitioned(const Module& module, int64_t num_devices, uint64_t seed) {
  return difference_when_partitioned(module, num_devices, integer_arguments(module, seed));
}

std::string difference_when_partitioned(const Module& module, int64_t num_devices,
                                        const std::vector<Value>& arguments) {
  PipelineOptions options;
  options.num_devices = num_devices;
  options.verify_between = true;
  options.disabled.emplace_back("expand-ops");  // rounds elsewhere than the op itself
  const std::vector<Array> expected = leaves(evaluate(module, arguments));
  const CompiledModule compiled = run_pipeline(module, options);
  const std::vector<Array> got = leaves(run_partitioned(compiled, num_devices, arguments));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (bitwise_equal(expected[i], got[i])) continue;
    int64_t at = 0;
    while (at < expected[i].size() && expected[i].at(at) == got[i].at(at)) ++at;
    const double e = at < expected[i].size() ? expected[i].at(at) : 0;
    const double g = at < expected[i].size() ? got[i].at(at) : 0;
    return fmt::format("result {} differs at {}: expected {}, got {}\n{}\n{}", i, at, e, g,
                       to_text(*compiled.completed), to_text(*compiled.local));
  }
  return {};
}

std::vector<std::string> collectives(const CompiledModule& compiled) {
  std::vector<std::string> result;
  for (const auto& node : compiled.uncombined->entry()->nodes())
    if (node->op().has(kCollective))
      result.push_back(fmt::format(
          "{} {}", opcode_name(node->opcode()),
          node->is(Opcode::collective_permute) ? "" : to_string(node->attrs.replica_groups)));
  return result;
}

}  // namespace gspmd::testing
