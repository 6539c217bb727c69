#include <cmath>
#include <cstring>

#include "models/input.h"
#include "models/transformer.h"

namespace gspmd::models {
namespace {

struct Size {
  const char* name;
  int64_t value;
};

// How the values of a weight are drawn.
enum class Draw : uint8_t { normal, ones, zeros };

struct Rule {
  Draw draw = Draw::normal;
  double deviation = 1;
};

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Normal weights keep the variance of their input; those that end a residual branch are smaller by
// the square root of the number of branches, so that the sum of all of them keeps it too.
Rule rule_of(const std::string& path, const TransformerConfig& config) {
  const double fan_model = 1 / std::sqrt(double(config.model));
  const double fan_hidden = 1 / std::sqrt(double(config.hidden));
  const double branches = 1 / std::sqrt(2.0 * double(config.layers));
  const std::string name = last_name(path);
  if (name == "positions") return {Draw::normal, 0.02};
  if (name == "wo") return {Draw::normal, fan_model * branches};
  if (name == "w_out") return {Draw::normal, fan_hidden * branches};
  if (name.find("norm") != std::string::npos && name.find("bias") == std::string::npos) {
    return {Draw::ones, 0};
  }
  if (name.find("bias") != std::string::npos || name == "b_in" || name == "b_out") {
    return {Draw::zeros, 0};
  }
  return {Draw::normal, fan_model};
}

Array ternary_array(const Shape& shape, uint32_t seed, int64_t stream) {
  Array values = random_uniform_array(shape, seed, stream);
  for (int64_t i = 0; i < values.size(); ++i) {
    values.set(i, std::floor(values.at(i) * 3) - 1);
  }
  return values;
}

Array initial_value(const std::string& path, const Shape& shape, const TransformerConfig& config,
                    uint32_t seed, int64_t stream) {
  if (config.form == Form::exact) return ternary_array(shape, seed, stream);
  const Rule rule = rule_of(path, config);
  if (rule.draw == Draw::ones) return Array::full(shape, 1);
  if (rule.draw == Draw::zeros) return Array(shape);
  return scaled(random_normal_array(shape, seed, stream), rule.deviation);
}

BlockParams<Shape> block_shapes(const TransformerConfig& c) {
  auto shape = [&](Dims dims) { return Shape(c.dtype, std::move(dims)); };
  auto optional = [&](bool present, Dims dims) {
    return present ? std::optional<Shape>(shape(std::move(dims))) : std::nullopt;
  };
  const bool norms = c.form == Form::standard;
  BlockParams<Shape> block;
  block.attention_norm = optional(norms, {c.model});
  block.attention_norm_bias = optional(norms && c.bias, {c.model});
  block.wq = block.wk = block.wv = shape({c.model, c.heads, c.head_dim()});
  block.wo = shape({c.heads, c.head_dim(), c.model});
  block.ffn_norm = optional(norms, {c.model});
  block.ffn_norm_bias = optional(norms && c.bias, {c.model});
  block.w_in = shape({c.model, c.hidden});
  block.b_in = optional(c.bias, {c.hidden});
  block.w_out = shape({c.hidden, c.model});
  block.b_out = optional(c.bias, {c.model});
  return block;
}

TransformerConfig unrolled(TransformerConfig config) {
  config.scan = false;
  return config;
}

// The blocks' arrays one behind the other, as one block of them.
TransformerParams<Array> stacked(TransformerParams<Array> params, const TransformerConfig& config) {
  std::vector<std::vector<std::pair<std::string, Array>>> leaves;
  for (const BlockParams<Array>& block : params.blocks) leaves.push_back(flatten(block));
  size_t leaf = 0;
  const auto joined = [&](const std::string&, const Array& first) {
    Dims dims = first.dims();
    dims.insert(dims.begin(), config.layers);
    Array all(Shape(first.dtype(), dims));
    const size_t bytes = first.bytes().size();
    for (size_t i = 0; i < leaves.size(); ++i)
      std::memcpy(all.bytes().data() + i * bytes, leaves[i][leaf].second.bytes().data(), bytes);
    ++leaf;
    return all;
  };
  BlockParams<Array> block = map_tree(params.blocks.at(0), joined);
  params.blocks.assign(1, std::move(block));
  return params;
}

}  // namespace

void check(const TransformerConfig& config) {
  const Size sizes[] = {{"layers", config.layers}, {"model", config.model},
                        {"hidden", config.hidden}, {"heads", config.heads},
                        {"seq", config.seq},       {"vocab", config.vocab}};
  for (const Size& size : sizes) {
    if (size.value < 1) {
      user_error("transformer: {} is {}; it must be at least 1", size.name, size.value);
    }
  }
  if (config.model % config.heads != 0) {
    user_error("transformer: {} heads do not divide the model dim {}; choose a multiple",
               config.heads, config.model);
  }
  if (config.dtype != DType::f32 && config.dtype != DType::f64) {
    user_error("transformer: the dtype is {}; f32 and f64 are supported", dtype_name(config.dtype));
  }
  if (config.form == Form::exact && config.bias) {
    user_error("transformer: the exact form has no biases; leave bias off");
  }
}

TransformerParams<Shape> parameter_shapes(const TransformerConfig& c) {
  check(c);
  auto shape = [&](Dims dims) { return Shape(c.dtype, std::move(dims)); };
  TransformerParams<Shape> params;
  params.embedding = shape({c.vocab, c.model});
  if (c.positions == Positions::learned) params.positions = shape({c.seq, c.model});
  params.blocks.assign(c.scan ? 1 : static_cast<size_t>(c.layers), block_shapes(c));
  if (c.scan)
    for_each_leaf(params.blocks[0], [&](const std::string&, Shape& leaf) {
      leaf.dims.insert(leaf.dims.begin(), c.layers);
    });
  if (c.form == Form::standard) {
    params.final_norm = shape({c.model});
    if (c.bias) params.final_norm_bias = shape({c.model});
  }
  if (c.head == Head::untied) params.head = shape({c.vocab, c.model});
  return params;
}

KeyValueCache<Shape> cache_shapes(const TransformerConfig& c, int64_t rows) {
  check(c);
  Shape shape(c.dtype, {rows, c.seq, c.heads, c.head_dim()});
  if (c.scan) shape.dims.insert(shape.dims.begin(), c.layers);
  return KeyValueCache<Shape>(c.scan ? 1 : static_cast<size_t>(c.layers), {shape, shape});
}

TransformerParams<Array> initial_parameters(const TransformerConfig& config, uint32_t seed) {
  if (config.scan) return stacked(initial_parameters(unrolled(config), seed), config);
  int64_t stream = 0;
  return map_tree(parameter_shapes(config), [&](const std::string& path, const Shape& shape) {
    return initial_value(path, shape, config, seed, stream++);
  });
}

double training_flops(const TransformerConfig& c, int64_t batch) {
  const double m = double(c.model);
  const double weights =
      double(c.layers) * (4 * m * m + 2 * m * double(c.hidden)) + m * double(c.vocab);
  const double tokens = double(batch) * double(c.seq);
  return 6 * weights * tokens + 12 * double(c.layers) * double(c.seq) * m * tokens;
}

double kept_activations(const TransformerConfig& c, int64_t batch) {
  const double m = double(c.model), tokens = double(batch) * double(c.seq);
  const double block = 8 * m + 2 * double(c.hidden) + 2 * double(c.heads);
  return tokens * (double(c.layers) * block + 2 * m + double(c.vocab));
}

int64_t parameter_count(const TransformerConfig& config) {
  int64_t count = 0;
  const TransformerParams<Shape> shapes = parameter_shapes(config);
  for_each_leaf(shapes,
                [&](const std::string&, const Shape& shape) { count += shape.elements_count(); });
  return count;
}

}  // namespace gspmd::models
