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

TEST_CASE("moe: two all-to-alls forward, two backward, and what data parallelism needs", "[moe]") {
  for (const Dispatch dispatch : {Dispatch::einsum, Dispatch::gather})
    for (const Mesh& mesh : {kMesh, Mesh{{"X", 8}}}) {
      const auto step = compiled(config_of(Routing::top2, dispatch), mesh, on_all(mesh));
      INFO(causes(step));
      const std::string axes = mesh.axes().size() == 2 ? "X,Y" : "X";
      auto counts = collectives(step);
      CHECK(counts["forward all-to-all " + axes] == 2);
      CHECK(counts["backward all-to-all " + axes] == 2);
      // The loss, sums of the report, and the router's gradient.
      for (const CollectiveStats& s : step.stats().uncombined)
        if (s.kind != "all-to-all") CHECK(s.kind == "all-reduce");
    }
}

}  // namespace gspmd::models
