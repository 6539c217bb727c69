#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

// HLO text of whole models at real sizes, weights as parameters.
namespace gspmd::bench {

// Writes instructions one after the other; a value is its name and dims.
class HloText {
 public:
  struct Value {
    std::string name;
    std::vector<int64_t> dims;
  };

  Value parameter(std::vector<int64_t> dims) {
    return add(std::move(dims), fmt::format("parameter({})", parameters_++));
  }
  Value add(std::vector<int64_t> dims, const std::string& op) {
    const std::string name = fmt::format("v{}", values_++);
    body_ += fmt::format("  {} = f32[{}] {}\n", name, fmt::join(dims, ","), op);
    return {name, std::move(dims)};
  }
  Value scalar(double value) { return add({}, fmt::format("constant({})", value)); }
  Value splat(double value, const std::vector<int64_t>& dims) {
    return add(dims, fmt::format("broadcast({}), dimensions={{}}", scalar(value).name));
  }
  Value binary(const char* op, const Value& a, const Value& b) {
    return add(a.dims, fmt::format("{}({}, {})", op, a.name, b.name));
  }
  Value unary(const char* op, const Value& a) {
    return add(a.dims, fmt::format("{}({})", op, a.name));
  }
  Value scaled(const Value& a, double by) { return binary("multiply", a, splat(by, a.dims)); }
  Value broadcast(const Value& a, const std::vector<int64_t>& dims,
                  const std::vector<int64_t>& to) {
    return add(dims, fmt::format("broadcast({}), dimensions={{{}}}", a.name, fmt::join(to, ",")));
  }
  Value reduce(const Value& a, const char* combiner, double init,
               const std::vector<int64_t>& over) {
    std::vector<int64_t> dims;
    for (size_t d = 0; d < a.dims.size(); ++d)
      if (std::find(over.begin(), over.end(), static_cast<int64_t>(d)) == over.end())
        dims.push_back(a.dims[d]);
    return add(dims, fmt::format("reduce({}, {}), dimensions={{{}}}, to_apply={}", a.name,
                                 scalar(init).name, fmt::join(over, ","), combiner));
  }

  std::string module(const Value& root) const {
    return fmt::format(
        "HloModule bench\n"
        "sum {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT c = f32[] add(a, b)\n}}\n"
        "most {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT c = f32[] maximum(a, b)\n}}\n"
        "ENTRY main {{\n{}  ROOT r = f32[{}] copy({})\n}}\n",
        body_, fmt::join(root.dims, ","), root.name);
  }

 private:
  std::string body_;
  int64_t parameters_ = 0, values_ = 0;
};

// x is b,h,w,c. Convolution, a scale that keeps values of size one, a shift per feature.
inline HloText::Value conv_layer(HloText& t, const HloText::Value& x, int64_t size, int64_t stride,
                                 int64_t features, bool relu) {
  const int64_t in = x.dims[3], pad = (size - 1) / 2;
  const auto w = t.parameter({size, size, in, features});
  const std::vector<int64_t> dims{x.dims[0], (x.dims[1] + 2 * pad - size) / stride + 1,
                                  (x.dims[2] + 2 * pad - size) / stride + 1, features};
  auto y = t.add(dims, fmt::format("convolution({0}, {1}), window={{size={2}x{2} stride={3}x{3} "
                                   "pad={4}_{4}x{4}_{4}}}, dim_labels=b01f_01io->b01f",
                                   x.name, w.name, size, stride, pad));
  y = t.scaled(y, std::sqrt(3.0 / static_cast<double>(size * size * in)));
  y = t.binary("add", y, t.broadcast(t.parameter({features}), dims, {3}));
  return relu ? t.binary("maximum", y, t.splat(0, dims)) : y;
}

// ResNet-50, forward, batch norms folded.
inline std::string resnet50(int64_t batch, int64_t image = 224) {
  HloText t;
  auto x = conv_layer(t, t.parameter({batch, image, image, 3}), 7, 2, 64, true);
  const std::vector<int64_t> pooled{batch, (x.dims[1] - 1) / 2 + 1, (x.dims[2] - 1) / 2 + 1, 64};
  x = t.add(pooled, fmt::format("reduce-window({}, {}), window={{size=1x3x3x1 stride=1x2x2x1 "
                                "pad=0_0x1_1x1_1x0_0}}, to_apply=most",
                                x.name, t.add({}, "constant(-inf)").name));
  const int64_t blocks[] = {3, 4, 6, 3};
  for (int64_t stage = 0; stage < 4; ++stage)
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t width = int64_t(64) << stage, stride = block == 0 && stage > 0 ? 2 : 1;
      auto y = conv_layer(t, x, 1, 1, width, true);
      y = conv_layer(t, y, 3, stride, width, true);
      y = conv_layer(t, y, 1, 1, 4 * width, false);
      if (block == 0) x = conv_layer(t, x, 1, stride, 4 * width, false);
      y = t.scaled(t.binary("add", x, y), std::sqrt(0.5));
      x = t.binary("maximum", y, t.splat(0, y.dims));
    }
  x = t.scaled(t.reduce(x, "sum", 0, {1, 2}), 1.0 / 49);
  const auto w = t.parameter({2048, 1000});
  return t.module(t.add({batch, 1000}, fmt::format("dot({}, {}), lhs_contracting_dims={{1}}, "
                                                   "rhs_contracting_dims={{0}}",
                                                   x.name, w.name)));
}

inline HloText::Value linear(HloText& t, const HloText::Value& x, int64_t features) {
  const int64_t in = x.dims.back();
  const auto w = t.parameter({in, features});
  std::vector<int64_t> dims = x.dims;
  dims.back() = features;
  const auto y =
      t.add(dims, fmt::format("dot({}, {}), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}",
                              x.name, w.name));
  const auto scaled = t.scaled(y, std::sqrt(3.0 / static_cast<double>(in)));
  return t.binary("add", scaled, t.broadcast(t.parameter({features}), dims, {2}));
}

// Over the last dim of b,s,m.
inline HloText::Value layer_norm(HloText& t, const HloText::Value& x) {
  const double n = 1.0 / static_cast<double>(x.dims.back());
  const auto mean = t.scaled(t.reduce(x, "sum", 0, {2}), n);
  const auto centred = t.binary("subtract", x, t.broadcast(mean, x.dims, {0, 1}));
  const auto variance =
      t.scaled(t.reduce(t.binary("multiply", centred, centred), "sum", 0, {2}), n);
  const auto inverse = t.unary("rsqrt", t.binary("add", variance, t.splat(1e-6, variance.dims)));
  const auto y = t.binary("multiply", centred, t.broadcast(inverse, x.dims, {0, 1}));
  return t.binary("multiply", y, t.broadcast(t.parameter({x.dims.back()}), x.dims, {2}));
}

// One encoder layer of BERT base: attention and a feed-forward block, each with residual and norm.
inline std::string bert_layer(int64_t batch, int64_t seq, int64_t model = 768, int64_t heads = 12,
                              int64_t hidden = 3072) {
  HloText t;
  const auto x = t.parameter({batch, seq, model});
  const int64_t head = model / heads;
  const std::vector<int64_t> split{batch, seq, heads, head};
  HloText::Value qkv[3];
  for (auto& part : qkv) part = t.add(split, fmt::format("reshape({})", linear(t, x, model).name));
  auto scores = t.add({batch, heads, seq, seq},
                      fmt::format("dot({}, {}), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}}, "
                                  "lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}",
                                  qkv[0].name, qkv[1].name));
  scores = t.scaled(scores, 1 / std::sqrt(static_cast<double>(head)));
  const auto most = t.reduce(scores, "most", -1e30, {3});
  const auto e = t.unary("exponential",
                         t.binary("subtract", scores, t.broadcast(most, scores.dims, {0, 1, 2})));
  const auto total = t.reduce(e, "sum", 0, {3});
  const auto weights = t.binary("divide", e, t.broadcast(total, scores.dims, {0, 1, 2}));
  auto mixed = t.add({batch, heads, seq, head},
                     fmt::format("dot({}, {}), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,2}}, "
                                 "lhs_contracting_dims={{3}}, rhs_contracting_dims={{1}}",
                                 weights.name, qkv[2].name));
  mixed = t.add(split, fmt::format("transpose({}), dimensions={{0,2,1,3}}", mixed.name));
  mixed = t.add({batch, seq, model}, fmt::format("reshape({})", mixed.name));
  const auto a = layer_norm(t, t.binary("add", x, linear(t, mixed, model)));
  auto h = linear(t, a, hidden);
  const auto inner = t.scaled(t.binary("multiply", t.binary("multiply", h, h), h), 0.044715);
  const auto gate = t.unary("tanh", t.scaled(t.binary("add", h, inner), 0.7978845608028654));
  h = t.scaled(t.binary("multiply", h, t.binary("add", gate, t.splat(1, h.dims))), 0.5);
  return t.module(layer_norm(t, t.binary("add", a, linear(t, h, model))));
}

// Prefix sums of rows as jax.lax.associative_scan writes them: sums of neighbours, their scan, and
// both interleaved by pads.
inline HloText::Value associative_scan_of(HloText& text, const HloText::Value& x) {
  const int64_t rows = x.dims[0], n = x.dims[1];
  if (n < 2) return x;
  const auto slice = [&](const HloText::Value& from, int64_t first, int64_t last, int64_t step) {
    return text.add(
        {rows, (last - first + step - 1) / step},
        fmt::format("slice({}), slice={{[0:{}], [{}:{}:{}]}}", from.name, rows, first, last, step));
  };
  const HloText::Value odd =
      associative_scan_of(text, text.binary("add", slice(x, 0, n - 1, 2), slice(x, 1, n, 2)));
  const int64_t odds = odd.dims[1], evens = n - odds;
  HloText::Value even = slice(x, 0, 1, 1);
  if (evens > 1) {
    const HloText::Value later = text.binary("add", slice(odd, 0, evens - 1, 1), slice(x, 2, n, 2));
    even = text.add({rows, evens},
                    fmt::format("concatenate({}, {}), dimensions={{1}}", even.name, later.name));
  }
  const auto spread = [&](const HloText::Value& v, int64_t low) {
    return text.add({rows, n}, fmt::format("pad({}, {}), padding=0_0x{}_{}_1", v.name,
                                           text.scalar(0).name, low, n - low - 2 * v.dims[1] + 1));
  };
  return text.binary("add", spread(even, 0), spread(odd, 1));
}
// x * cos + (-its second half, its first half) * sin along the innermost dim of [b,s,h,d].
inline std::string rotary_embedding(int64_t b, int64_t s, int64_t h, int64_t d,
                                    const std::string& dtype) {
  const auto shape = [&](int64_t n) { return fmt::format("{}[{},{},{},{}]", dtype, b, s, h, n); };
  const auto slice = [&](int64_t first, int64_t last) {
    return fmt::format("{} slice(x), slice={{[0:{}], [0:{}], [0:{}], [{}:{}]}}", shape(d / 2), b, s,
                       h, first, last);
  };
  return fmt::format(R"(HloModule m
ENTRY main {{
  x = {0} parameter(0)
  c = {1}[{2},{3}] parameter(1)
  s = {1}[{2},{3}] parameter(2)
  cs = {0} broadcast(c), dimensions={{1,3}}
  ss = {0} broadcast(s), dimensions={{1,3}}
  first = {4}
  second = {5}
  minus = {6} negate(second)
  turned = {0} concatenate(minus, first), dimensions={{3}}
  y = {0} multiply(x, cs)
  z = {0} multiply(turned, ss)
  ROOT r = {0} add(y, z)
}}
)",
                     shape(d), dtype, s, d, slice(0, d / 2), slice(d / 2, d), shape(d / 2));
}

inline std::string associative_scan(int64_t rows, int64_t n) {
  HloText text;
  return text.module(associative_scan_of(text, text.parameter({rows, n})));
}

}  // namespace gspmd::bench
