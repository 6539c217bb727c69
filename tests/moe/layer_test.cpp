// The layer of experts: equal on every mesh, what moves, and what the two ways of dispatch cost.
#include <catch2/catch.hpp>
#include <map>

#include "gspmd/testing.h"
#include "models/moe.h"

namespace gspmd::models {
namespace {

MoeConfig config_of(Routing routing, Dispatch dispatch) {
  MoeConfig c;
  c.model = 8;
  c.hidden = 12;
  c.group = 6;
  c.routing = routing;
  c.dispatch = dispatch;
  c.gating.experts = 8;
  c.gating.capacity_factor = 1.5;
  return c;
}

MoeLayout on_all(const Mesh& mesh) {
  MoeLayout layout;
  for (const MeshAxis& axis : mesh.axes()) layout.groups.push_back(axis.name);
  layout.experts = layout.groups;
  return layout;
}

// Experts on the first axis, each split over the second.
MoeLayout hybrid(const Mesh& mesh) {
  MoeLayout layout;
  layout.groups = layout.experts = {mesh.axes().at(0).name};
  layout.expert_hidden = {mesh.axes().at(1).name};
  return layout;
}

// Groups on all axes, experts on the second only.
MoeLayout on_second(const Mesh& mesh) {
  MoeLayout layout = on_all(mesh);
  layout.experts = {mesh.axes().at(1).name};
  return layout;
}

struct Arguments {
  MoeParams<Array> params;
  Array x, weight;
};

Arguments arguments_of(const MoeConfig& c, int64_t rows = 8) {
  uint32_t stream = 0;
  const auto normal = [&](const Shape& shape, double scale) {
    Array a = random_normal_array(shape, 11, stream++);
    for (int64_t i = 0; i < a.size(); ++i) a.set(i, a.at(i) * scale);
    return a;
  };
  const MoeParams<Shape> shapes = parameter_shapes(c);
  const Shape tokens(c.dtype, {rows, 6, c.model});
  return {{normal(shapes.router, 1), normal(shapes.w_in, 0.4), normal(shapes.w_out, 0.4)},
          normal(tokens, 1),
          normal(tokens, 1)};
}

// A scalar of all that the layer gives, and its gradients.
auto loss_of(const MoeConfig& c, const Mesh& mesh, const MoeLayout& layout) {
  const MoeLayer layer(c, mesh, layout);
  const auto loss = [layer](const MoeParams<Tensor>& p, const Tensor& x, const Tensor& weight) {
    const auto [y, report] = layer(p, x, full(Shape(DType::s32, {}), 5));
    return std::tuple{sum(y * weight) + report.aux_loss + report.z_loss * 0.1, y, report};
  };
  return value_and_grad<0, 1>(loss);
}

std::map<std::string, int64_t> collectives(const ExecutableBase& step) {
  std::map<std::string, int64_t> counts;
  for (const CollectiveStats& c : step.stats().uncombined)
    counts[fmt::format("{} {} {}", c.backward ? "backward" : "forward", c.kind, c.axes)] += c.count;
  return counts;
}

std::string causes(const ExecutableBase& step) {
  std::string text;
  for (const CollectiveStats& c : step.stats().uncombined)
    text += fmt::format("{} {} {} x{} of {} for {} {}\n", c.backward ? "backward" : "forward",
                        c.kind, c.axes, c.count, c.tensor, c.op, c.source);
  return text;
}

auto compiled(const MoeConfig& c, const Mesh& mesh, const MoeLayout& layout) {
  const Arguments a = arguments_of(c);
  return compile(loss_of(c, mesh, layout), {.mesh = mesh, .prepare = false}, a.params, a.x,
                 a.weight);
}

const Mesh kMesh{{"X", 2}, {"Y", 4}};

}  // namespace

TEST_CASE("moe: values and gradients are those of one device, split in every way", "[moe]") {
  for (const Routing routing : {Routing::top2, Routing::dropless, Routing::expert_choice})
    for (const Dispatch dispatch : {Dispatch::einsum, Dispatch::gather}) {
      if (routing == Routing::dropless && dispatch == Dispatch::gather) continue;
      const MoeConfig c = config_of(routing, dispatch);
      const Arguments a = arguments_of(c);
      for (const auto& layout_of : {on_all, hybrid, on_second}) {
        const auto make = [&](const Mesh& mesh) {
          return loss_of(c, mesh, mesh.num_devices() == 1 ? MoeLayout() : layout_of(mesh));
        };
        INFO("routing " << int(routing) << " dispatch " << int(dispatch));
        const Expectation equal =
            expect_equal_on_meshes(make, {Mesh(), kMesh}, {1e-4, 1e-5}, a.params, a.x, a.weight);
        INFO(equal.message);
        CHECK(equal);
      }
    }
}

TEST_CASE("moe: dispatch by gathers gives the same numbers with fewer operations", "[moe]") {
  for (const Routing routing : {Routing::top2, Routing::expert_choice}) {
    const MoeConfig by_einsum = config_of(routing, Dispatch::einsum);
    const MoeConfig by_gather = config_of(routing, Dispatch::gather);
    const Arguments a = arguments_of(by_einsum);
    for (const Mesh& mesh : {Mesh(), kMesh}) {
      const MoeLayout layout = mesh.num_devices() == 1 ? MoeLayout() : on_all(mesh);
      const auto both = [&](const MoeConfig& c) {
        return compile(loss_of(c, mesh, layout), {.mesh = mesh}, a.params, a.x, a.weight);
      };
      const auto first = both(by_einsum), second = both(by_gather);
      const auto left = first(a.params, a.x, a.weight), right = second(a.params, a.x, a.weight);
      const Expectation equal =
          expect_close(detail::argument_leaves(right), detail::argument_leaves(left), {1e-5, 1e-5});
      INFO(equal.message);
      CHECK(equal);
      CHECK(second.stats().flops < first.stats().flops);
    }
  }
}

TEST_CASE("moe: tokens that no expert took come out as zeros, and are counted", "[moe]") {
  MoeConfig c = config_of(Routing::top2, Dispatch::einsum);
  c.gating.capacity_factor = 0.5;
  const Arguments a = arguments_of(c);
  for (const Dispatch dispatch : {Dispatch::einsum, Dispatch::gather}) {
    c.dispatch = dispatch;
    const auto step =
        compile(loss_of(c, kMesh, on_all(kMesh)), {.mesh = kMesh}, a.params, a.x, a.weight);
    const auto [said, gradients] = step(a.params, a.x, a.weight);
    const auto& [loss, y, report] = said;
    int64_t zeros = 0;
    for (int64_t token = 0; token < y.size() / c.model; ++token) {
      bool zero = true;
      for (int64_t m = 0; m < c.model; ++m) zero = zero && y.at(token * c.model + m) == 0;
      zeros += zero ? 1 : 0;
    }
    CHECK(zeros > 0);
    CHECK(report.unserved.item() == double(zeros));
    // Experts have one place in each of the 8 groups.
    for (int64_t e = 0; e < 8; ++e) CHECK(report.kept.at(e) <= 8);
  }
}

TEST_CASE("moe: without capacity a layer is the sum of two experts weighted by their gates",
          "[moe]") {
  const MoeConfig c = config_of(Routing::dropless, Dispatch::einsum);
  const Arguments a = arguments_of(c);
  const auto plain = [c](const MoeParams<Tensor>& p, const Tensor& x) {
    const Tensor gates = softmax(einsum("bsm,me->bse", x, p.router));
    const auto [best, expert] = top_k(gates, 2);
    const Tensor weights =
        sum(one_hot(expert, c.gating.experts) * expand_dims(best, 3), {.axes = 2}) /
        sum(best, {.axes = 2, .keep_dims = true});
    const Tensor all = einsum("bseh,ehm->bsem", relu(einsum("bsm,emh->bseh", x, p.w_in)), p.w_out);
    return einsum("bsem,bse->bsm", all, weights);
  };
  const MoeLayer layer(c, Mesh(), MoeLayout());
  const auto own = [layer](const MoeParams<Tensor>& p, const Tensor& x) {
    return layer(p, x, {}).y;
  };
  const Expectation equal =
      expect_close({compile(own, {}, a.params, a.x)(a.params, a.x)},
                   {compile(plain, {}, a.params, a.x)(a.params, a.x)}, {1e-5, 1e-5});
  INFO(equal.message);
  CHECK(equal);
}

TEST_CASE("moe: a device's load is that of its experts", "[moe]") {
  const Array counts = Array::of<float>({2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
  const Mesh mesh{{"X", 2}, {"Y", 2}};
  MoeLayout layout;
  layout.experts = {"X", "Y"};
  CHECK(device_loads(counts, mesh, layout) == std::vector<double>{11, 22, 33, 44});
  layout.experts = {"Y"};
  CHECK(device_loads(counts, mesh, layout) == std::vector<double>{33, 77, 33, 77});
  layout.experts = {};
  CHECK(device_loads(counts, mesh, layout) == std::vector<double>{110, 110, 110, 110});
}

TEST_CASE("moe: wrong input is named", "[moe]") {
  const auto message = [](const MoeConfig& c, const Dims& dims, const Mesh& mesh) {
    try {
      const MoeLayer layer(c, mesh, mesh.num_devices() == 1 ? MoeLayout() : on_all(mesh));
      const auto fn = [&](const MoeParams<Tensor>& p, const Tensor& x) {
        return layer(p, x, {}).y;
      };
      compile(fn, {.mesh = mesh, .prepare = false}, parameter_shapes(c), Shape(DType::f32, dims));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Catch::Contains;
  MoeConfig c = config_of(Routing::top2, Dispatch::gather);
  CHECK_THAT(message(c, {8, 6, 8}, Mesh()), Contains("give a seed"));
  c.gating.second = SecondExpert::all;
  CHECK(message(c, {8, 6, 8}, Mesh()).empty());
  CHECK_THAT(message(c, {8, 6, 9}, Mesh()), Contains("the tokens are f32[8,6,9]"));
  CHECK_THAT(message(c, {8, 5, 8}, Mesh()),
             Contains("groups of 6 tokens do not divide the 40 tokens"));
  CHECK_THAT(message(c, {7, 6, 8}, kMesh), Contains("8 devices do not divide 7 groups"));
  c.hidden = 0;
  CHECK_THAT(message(c, {8, 6, 8}, Mesh()), Contains("hidden is 0"));
}

TEST_CASE("moe: two all-to-alls forward, two backward, and what data parallelism needs", "[moe]") {
  for (const Dispatch dispatch : {Dispatch::einsum, Dispatch::gather})
    for (const Mesh& mesh : {kMesh, Mesh{{"X", 8}}}) {
      const auto step = compiled(config_of(Routing::top2, dispatch), mesh, on_all(mesh));
      INFO(causes(step));
      const std::string axes = mesh.axes().size() == 2 ? "X,Y" : "X";
      auto counts = collectives(step);
      CHECK(counts["forward all-to-all " + axes] == 2);
      CHECK(counts["backward all-to-all " + axes] == 2);
      // The rest are sums of the loss and the report, and the router's gradient.
      for (const CollectiveStats& s : step.stats().uncombined)
        CHECK((s.kind == "all-to-all" || s.bytes <= 2 * int64_t(sizeof(float)) * 8 * 8));
    }
}

}  // namespace gspmd::models
