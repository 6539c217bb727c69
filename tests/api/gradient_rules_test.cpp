// Gradients through ops that layers do not make, inside control flow, on devices, and what they
// cost.

#include "api/support.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/memory/plan_memory.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

// A module whose entry has these lines, and what they call.
std::unique_ptr<Module> hlo_of(const std::string& lines) {
  return parse_module(
      "HloModule m\n"
      "sum { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT s = f64[] add(a, b) }\n"
      "most { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT s = f64[] maximum(a, b) }\n"
      "product { a = f64[] parameter(0)\n b = f64[] parameter(1)\n"
      " ROOT s = f64[] multiply(a, b) }\n"
      "less { a = f64[] parameter(0)\n b = f64[] parameter(1)\n c = f64[] parameter(2)\n"
      " d = f64[] parameter(3)\n ROOT s = pred[] compare(a, b), direction=LT }\n"
      "inner { a = f64[6] parameter(0)\n s = f64[6] sine(a)\n"
      " ROOT t = (f64[6], f64[6]) tuple(s, a) }\n"
      "ENTRY e {\n x = f64[6] parameter(0)\n" +
      lines + "\n}\n");
}

// Functions of f64[6] that give f64[6], by ops with rules of several kinds.
const std::map<std::string, std::string> kFunctions = {
    {"call of a tuple",
     "c = (f64[6], f64[6]) call(x), to_apply=inner\n a = f64[6] get-tuple-element(c), index=0\n"
     " b = f64[6] get-tuple-element(c), index=1\n ROOT r = f64[6] multiply(a, b)"},
    {"sort of two",
     "y = f64[6] cosine(x)\n s = (f64[6], f64[6]) sort(x, y), dimensions={0}, to_apply=less\n"
     " a = f64[6] get-tuple-element(s), index=0\n b = f64[6] get-tuple-element(s), index=1\n"
     " ROOT r = f64[6] multiply(a, b)"},
    {"topk",
     "t = (f64[2], s32[2]) topk(x), k=2, largest=true\n a = f64[2] get-tuple-element(t), index=0\n"
     " z = f64[] constant(0.5)\n ROOT r = f64[6] pad(a, z), padding=1_3"},
    {"running product",
     "o = f64[] constant(1)\n ROOT r = f64[6] reduce-window(x, o), window={size=6 pad=5_0}, "
     "to_apply=product"},
    {"pooling",
     "o = f64[] constant(-inf)\n p = f64[3] reduce-window(x, o), window={size=2 stride=2}, "
     "to_apply=most\n z = f64[] constant(0)\n ROOT r = f64[6] pad(p, z), padding=2_1"},
    {"convolution",
     "i = f64[1,1,6] reshape(x)\n k = f64[1,1,3] slice(i), slice={[0:1], [0:1], [1:4]}\n"
     " c = f64[1,1,6] convolution(i, k), window={size=3 pad=1_1}, dim_labels=bf0_io0->bf0\n"
     " ROOT r = f64[6] reshape(c)"},
    {"transform and back",
     "f = c128[4] fft(x), fft_type=RFFT, fft_length={6}\n g = c128[4] multiply(f, f)\n"
     " ROOT r = f64[6] fft(g), fft_type=IRFFT, fft_length={6}"},
    {"scatter",
     "i = s32[3,1] constant({{4},{0},{4}})\n u = f64[3] slice(x), slice={[1:4]}\n"
     " ROOT r = f64[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=product"},
    {"barrier", "b = f64[6] opt-barrier(x)\n ROOT r = f64[6] multiply(b, x)"},
};

}  // namespace

TEST_CASE("gradients through modules of HLO, also in scans, branches and checkpoints", "[api]") {
  const Array x = random_array({DType::f64, {6}}, 11, 0.3, 1.7);
  for (const auto& [name, lines] : kFunctions) {
    INFO(name);
    const std::shared_ptr<const Module> module = hlo_of(lines);
    const auto fn = [module](Tensor t) { return call_hlo(*module, {t})[0]; };
    CHECK(derivatives_are_right([fn](Tensor t) { return sum(square(fn(t))); }, x));
    CHECK(gradient_is_right(
        [fn](Tensor t) {
          const auto step = [fn](Tensor carry, Tensor s) {
            const Tensor next = tanh(fn(carry)) + carry * s;
            return std::pair{next, next};
          };
          return sum(square(scan(step, t, t).second));
        },
        x));
    CHECK(gradient_is_right(
        [fn](Tensor t) {
          return sum(square(cond(
              sum(t) > 0., fn, [](Tensor s) { return s * 2.; }, t)));
        },
        x));
    CHECK(gradient_is_right([fn](Tensor t) { return sum(square(checkpoint(fn)(sin(t)))); }, x));
  }
}

TEST_CASE("gradients of such ops agree on meshes that cut sizes unevenly", "[api]") {
  const Array x = random_array({DType::f64, {6}}, 12, 0.3, 1.7);
  const std::vector<Mesh> meshes{Mesh{{"x", 1}}, Mesh{{"x", 2}}, Mesh{{"x", 4}}};
  for (const auto& [name, lines] : kFunctions) {
    INFO(name);
    const std::shared_ptr<const Module> module = hlo_of(lines);
    const auto on = [module](const Mesh& mesh) {
      return [module, mesh](Tensor t) {
        return grad([module, mesh](Tensor s) {
          return sum(square(call_hlo(*module, {mesh_split(s, mesh, {"x"})})[0]));
        })(t);
      };
    };
    CHECK(expect_equal_on_meshes(on, meshes, {1e-9, 1e-9}, x));
  }
}

TEST_CASE("what is said of a loop and of a branch is said of what stands for it in a derivative",
          "[api]") {
  const std::shared_ptr<const Module> shared = parse_module(R"(HloModule said
 body { s = (s32[], f64[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  x = f64[8] get-tuple-element(s), index=1
  y = f64[8] sine(x)
  next = s32[] add(i, one)
  ROOT r = (s32[], f64[8]) tuple(next, y) }
 test { s = (s32[], f64[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT }
 double { x = f64[8] parameter(0)
  ROOT r = f64[8] add(x, x) }
 cosine { x = f64[8] parameter(0)
  ROOT r = f64[8] cosine(x) }
 ENTRY main { x = f64[8] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f64[8]) tuple(zero, x)
  loop = (s32[], f64[8]) while(s), condition=test, body=body, sharding={{replicated}, {devices=[2]<=[2]}}, frontend_attributes={said="loop"}
  y = f64[8] get-tuple-element(loop), index=1
  ROOT r = f64[8] conditional(zero, y, y), branch_computations={double, cosine}, sharding={devices=[2]<=[2]}, frontend_attributes={said="branch"} })");
  const auto fn = [shared](Tensor x) { return sum(square(call_hlo(*shared, {x})[0])); };
  const auto said = [](const Traced& traced) {
    std::map<std::string, std::string> found;
    for (const auto& computation : traced.module().computations())
      for (const auto& node : computation->nodes()) {
        const auto at = node->frontend_attributes.find("said");
        if (at == node->frontend_attributes.end()) continue;
        REQUIRE(node->sharding);
        CHECK(found.emplace(at->second, to_string(*node->sharding)).second);
      }
    return found;
  };
  const Shape x(DType::f64, {8});
  const std::map<std::string, std::string> backward{
      {"loop", "{{unknown}, {replicated}, {devices=[2]<=[2]}, {unknown}}"},
      {"branch", "{{devices=[2]<=[2]}}"}};
  CHECK(said(trace([&](Tensor t) { return grad(fn)(t); }, x)) == backward);
  CHECK(
      said(trace([&](Tensor t) { return jvp(fn, std::tuple{t}, std::tuple{t}).second; }, x)) ==
      std::map<std::string, std::string>{{"loop", "{{replicated}, {devices=[2]<=[2]}, {unknown}}"},
                                         {"branch", "{{devices=[2]<=[2]}, {unknown}}"}});
}

TEST_CASE("the gradient of many slices of one value holds one array of its size", "[api]") {
  constexpr int64_t kParts = 64, kRows = 1024;
  const auto peak = [](auto loss) {
    const auto executable = compile(grad(loss), {}, Shape(DType::f32, {kParts * kRows}));
    return executable.module().plan.arena_bytes;
  };
  const auto joined = [](Tensor x) {
    Tensor total = sum(x);
    for (int64_t i = 0; i < kParts; ++i) {
      const Tensor part = slice_dim(x, 0, i * kRows, (i + 1) * kRows);
      total = total + sum(sin(part) * double(i + 1));
    }
    return total;
  };
  const auto in_place = [](Tensor x) {
    Tensor total = sum(square(x));
    for (int64_t i = 0; i < kParts; ++i)
      total = total + sum(sin(slice_dim(x, 0, i * 7, i * 7 + kRows) * double(i + 1)));
    return total;
  };
  constexpr int64_t kWhole = kParts * kRows * 4;
  CHECK(peak(joined) <= 3 * kWhole);
  CHECK(peak(in_place) <= 3 * kWhole);
  const Array x = random_array({DType::f64, {12}}, 4);
  CHECK(derivatives_are_right(
      [](Tensor t) {
        const Tensor a = slice_dim(t, 0, 0, 4), b = slice_dim(t, 0, 4, 8),
                     c = slice_dim(t, 0, 6, 9);
        return sum(sin(a * b)) + sum(square(c)) * sum(a);
      },
      x));
}

TEST_CASE("a long sum of f32 is as good as a pairwise one", "[api]") {
  constexpr int64_t kRows = 1 << 20;
  const Array x = Array::full(Shape(DType::f32, {kRows, 4}), 0.1);
  for (const int64_t axis : {0, 1}) {
    const auto total = [axis](Tensor t) {
      return sum(axis == 0 ? t : reshape(t, {kRows * 4}), {.axes = {0}});
    };
    const Array found = compile(total, {}, x)(x);
    const double expected = double(0.1F) * kRows * (axis == 0 ? 1 : 4);
    CHECK(std::abs(found.at(0) / expected - 1) < 2e-5);
  }
}
