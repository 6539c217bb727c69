#include "derivatives/cases.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"

namespace gspmd::test {
namespace {

const Array kControlAt = f64({3, 5}, 51);

Tensor wave(Tensor t) { return sin(t) * t; }

Tensor loop(Tensor t) {
  return fori_loop(
      1, 4, [](Tensor i, Tensor c) { return sin(c) + convert(i, DType::f64) * c; }, t);
}

Tensor steps(Tensor t, const ScanOptions& options) {
  const auto body = [](Tensor c, Tensor row) {
    const Tensor next = tanh(c * row + 0.1);
    return std::pair{next, next * row};
  };
  const auto [last, ys] = scan(body, t(0), t, options);
  return ys * last;
}

Tensor choice(Tensor t) {
  std::vector<TensorFunction> branches = {wave, [](Tensor s) { return exp(s); },
                                          [](Tensor s) { return s * s; }};
  return switch_case(convert(sum(t) * 0. + 1.5, DType::s32), branches, t) * t;
}

Tensor own_vjp(Tensor t) {
  return custom_vjp([](Tensor a, Tensor b) { return a * sin(b); },
                    [](Tensor a, Tensor b) {
                      return std::pair{a * sin(b), std::pair{a, b}};
                    },
                    [](const std::pair<Tensor, Tensor>& kept, Tensor c) {
                      return std::tuple{c * sin(kept.second), c * kept.first * cos(kept.second)};
                    })(t, t * t);
}

Tensor own_jvp(Tensor t) {
  return custom_jvp([](Tensor a) { return exp(a) * a; },
                    [](const std::tuple<Tensor>& p, const std::tuple<Tensor>& v) {
                      const Tensor a = std::get<0>(p), e = exp(a);
                      return std::pair{e * a, e * (a + 1.) * std::get<0>(v)};
                    })(t);
}

// x * scale[j] + bias[j], with a sum over rows in its gradient.
void register_affine() {
  static const bool once = [] {
    register_op(
        {.name = "derivatives.affine",
         .infer = [](const auto& operands, const auto&) { return std::vector{operands[0]}; },
         .loops = [](const auto&, const auto&) { return CustomLoops{"ij,j->ij"}; },
         .reference =
             [](const std::vector<Array>& given, const std::string&) {
               Array y(given[0].shape());
               const int64_t n = given[1].size();
               for (int64_t i = 0; i < y.size(); ++i) y.set(i, given[0].at(i) * given[1].at(i % n));
               return std::vector{y};
             },
         .gradient =
             [](const CustomCotangents& given) {
               const Tensor& c = given.cotangents[0];
               return std::vector{custom_call("derivatives.affine", {c, given.operands[1]})[0],
                                  sum(c * given.operands[0], {.axes = 0})};
             }});
    return true;
  }();
  static_cast<void>(once);
}

Tensor affine(Tensor t) {
  register_affine();
  return custom_call("derivatives.affine", {t, sin(t(0))})[0];
}

Tensor module_of_hlo(Tensor t) {
  static const std::shared_ptr<const Module> module = parse_module(R"(HloModule m
inner { a = f64[3,5] parameter(0)
  s = f64[3,5] sine(a)
  ROOT r = (f64[3,5], f64[3,5]) tuple(s, a) }
ENTRY e { x = f64[3,5] parameter(0)
  c = (f64[3,5], f64[3,5]) call(x), to_apply=inner
  a = f64[3,5] get-tuple-element(c), index=0
  b = f64[3,5] get-tuple-element(c), index=1
  ROOT r = f64[3,5] multiply(a, b) })");
  return call_hlo(*module, {t})[0];
}

}  // namespace

std::vector<Case> control_cases() {
  return {
      GSPMD_CASE("scan", kControlAt, steps(t, {.reverse = true})),
      GSPMD_CASE("scan: unrolled", kControlAt, steps(t, {.unroll = 2})),
      GSPMD_CASE("fori_loop", kControlAt, loop(t)),
      GSPMD_CASE("map", kControlAt, gspmd::map([](Tensor row) { return softmax(row * 3.); }, t)),
      GSPMD_CASE("cond", kControlAt,
                 cond(
                     t(0, 0) > 5., wave, [](Tensor s) { return exp(s); }, t) *
                     t),
      GSPMD_CASE("switch_case", kControlAt, choice(t)),
      GSPMD_CASE("checkpoint", kControlAt, checkpoint(wave)(exp(t)) * t),
      GSPMD_CASE("checkpoint: of products", kControlAt,
                 checkpoint([](Tensor s) { return sin(matmul(s, transpose(sin(s)))); },
                            CheckpointPolicy::dots())(t)),
      GSPMD_CASE("checkpoint: of names", kControlAt,
                 checkpoint([](Tensor s) { return sin(named(exp(s), "grown")) * s; },
                            CheckpointPolicy::save_only({"grown"}))(t)),
      GSPMD_CASE("custom_vjp", kControlAt, own_vjp(t)),
      GSPMD_CASE("custom_jvp", kControlAt, own_jvp(t)),
      GSPMD_CASE("vmap", kControlAt,
                 vmap([](Tensor row) { return softmax(row * 3.) * sum(row); })(t)),
      GSPMD_CASE("vmap: of columns", kControlAt,
                 vmap([](Tensor column) { return cumsum(column * column); },
                      {.in_axes = 1, .out_axes = -1})(t)),
      GSPMD_CASE("grad", kControlAt, grad([](Tensor s) { return sum(exp(s) * sin(s)); })(t)),
      GSPMD_CASE("value_and_grad", kControlAt,
                 [&] {
                   const auto [value, gradient] =
                       value_and_grad([](Tensor s) { return mean(square(sin(s))); })(t);
                   return value * gradient;
                 }()),
      GSPMD_CASE("vjp", kControlAt, vjp(wave, std::tuple{t}).second(t * t)),
      GSPMD_CASE("jvp", kControlAt, jvp(wave, std::tuple{t}, std::tuple{exp(t)}).second),
      GSPMD_CASE("optimization_barrier", kControlAt, optimization_barrier(t * t) * t),
      GSPMD_CASE("custom_call", kControlAt, affine(t)),
      GSPMD_CASE("call_hlo", kControlAt, module_of_hlo(t)),
  };
}

}  // namespace gspmd::test
