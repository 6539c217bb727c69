#include "gspmd/base/error.h"
#include "tools/execute.h"

namespace gspmd::tools {
namespace {

// splitmix64's finaliser: a counter-based generator, element i of leaf l without the ones before
// it.
uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Random bits as -4..4, 0..4 or 0/1 by type; floats too unless they are uniform.
double small_integer(uint64_t bits, DType dtype) {
  if (dtype == DType::pred) return static_cast<double>(bits >> 63);
  if (is_unsigned_integer(dtype)) return static_cast<double>(bits % 5);
  return static_cast<double>(bits % 9) - 4;
}

double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-52 - 1; }

Array random_array(const Shape& shape, uint64_t key, Values values) {
  Array array(Shape(shape.dtype, shape.dims));
  visit_dtype(shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> data = array.data<T>();
    const bool spread = values == Values::uniform && is_floating(shape.dtype);
    for (size_t i = 0; i < data.size(); ++i) {
      const uint64_t bits = scramble(key + i);
      const double value = spread ? uniform(bits) : small_integer(bits, shape.dtype);
      if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
        data[i] = static_cast<T>(value);
      else
        data[i] = T(static_cast<float>(value));
    }
  });
  return array;
}

}  // namespace

std::vector<Array> random_inputs(const Module& module, const Command& command) {
  std::vector<Array> inputs;
  for (const Node* parameter : module.entry()->parameters())
    for (const Shape& leaf : leaf_shapes(parameter->shape)) {
      if (!is_computable(leaf.dtype))
        user_error("parameter {} \"{}\": {} values cannot be computed with here",
                   parameter->attrs.index, parameter->name(), dtype_name(leaf.dtype));
      const uint64_t key = scramble(scramble(command.seed) + inputs.size());
      inputs.push_back(random_array(leaf, key, command.values));
    }
  return inputs;
}

std::vector<Value> pack_arguments(const Module& module, std::span<const Array> leaves) {
  std::vector<Value> arguments;
  size_t at = 0;
  for (const Node* parameter : module.entry()->parameters()) {
    const auto count = static_cast<size_t>(leaf_count(parameter->shape));
    arguments.push_back(pack(parameter->shape, leaves.subspan(at, count)));
    at += count;
  }
  return arguments;
}

}  // namespace gspmd::tools
