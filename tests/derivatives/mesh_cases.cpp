#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Mesh kMesh{{"x", 2}, {"y", 2}};
const Array kMeshAt = f64({4, 6}, 61);
const Array kUneven = f64({3, 5}, 62);

// What each device does with its part, of rows over "x" and columns over "y".
template <class Fn>
Case on_parts(const std::string& name, Fn fn) {
  return {name,
          [fn](Tensor t) {
            return shard_map(fn, kMesh, {{"x", "y"}}, {{"x", "y"}})(t);
          },
          kMeshAt, kMesh};
}

std::vector<Case> annotations() {
  std::vector<Case> cases = {
      GSPMD_CASE("mesh_split", kUneven, mesh_split(t * t, kMesh, {"y", "x"}) * t),
      GSPMD_CASE("mesh_split: with a priority", kUneven,
                 mesh_split(t * t, kMesh, {_, "x"}, {.priority = 1}) * t),
      GSPMD_CASE("annotate", kUneven, annotate(t * t, sharding_of(kMesh, {{"x", "y"}, _})) * t),
      GSPMD_CASE("shard_as", kUneven,
                 [&] {
                   const auto [a, b] = shard_as(mesh_split(t * t, kMesh, {"x", _}), sin(t));
                   return a * b;
                 }()),
      GSPMD_CASE("shard_like", kUneven,
                 [&] {
                   const auto [a, b] = shard_like(mesh_split(t * t, kMesh, {"x", _}), sin(t));
                   return a * b;
                 }()),
      GSPMD_CASE("vmap: over a mesh axis", kUneven,
                 vmap([](Tensor row) { return mesh_split(softmax(row * 3.), kMesh, {"y"}); },
                      {.mesh_axis = "x"})(t)),
      GSPMD_CASE("shard_barrier_from", kUneven,
                 shard_barrier_from(mesh_split(t * t, kMesh, {"x", _})) * t),
      GSPMD_CASE("shard_barrier_to", kUneven,
                 mesh_split(shard_barrier_to(t * t), kMesh, {"x", _}) * t),
  };
  for (Case& c : cases) c.mesh = kMesh;
  return cases;
}

std::vector<Case> regions() {
  const auto by_hand = [](Tensor t) {
    const Tensor part = auto_to_manual(t, kMesh, {"x", "y"}, {"x", "y"});
    return manual_to_auto(sin(part) * part, kMesh, {"x", "y"}, {"x", "y"});
  };
  const auto shared = [](Tensor t) {
    const Tensor scale = exp(mean(t));
    return shard_map([&](Tensor a, Tensor b) { return matmul(a, b) * scale; }, kMesh,
                     {{"x", _}, {_, "y"}}, {{"x", "y"}})(t, transpose(sin(t)));
  };
  const auto summed = [](Tensor t) {
    return shard_map([](Tensor a, Tensor b) { return psum(matmul(a, b), "y"); }, kMesh,
                     {{_, "y"}, {"y", _}}, {}, {"y"})(t, transpose(sin(t)));
  };
  return {{"auto_to_manual", by_hand, kMeshAt, kMesh},
          {"manual_to_auto", by_hand, kMeshAt, kMesh},
          {"shard_map", shared, kMeshAt, kMesh},
          {"shard_map: of one axis", summed, kMeshAt, kMesh}};
}

std::vector<Case> collectives() {
  return {
      on_parts("psum", [](Tensor p) { return p * psum(p * p, "x"); }),
      on_parts("psum: of two axes",
               [](Tensor p) {
                 return p * psum(sum(sin(p)), {"x", "y"});
               }),
      on_parts("pmean", [](Tensor p) { return p * pmean(p * p, "y"); }),
      on_parts("pmax", [](Tensor p) { return p * pmax(p, "x"); }),
      on_parts("pmin", [](Tensor p) { return p * pmin(p * p, "y"); }),
      on_parts("all_gather",
               [](Tensor p) { return p * sum(sin(all_gather(p, "x")), {.axes = 0}); }),
      on_parts("all_gather: tiled",
               [](Tensor p) {
                 return matmul(p, transpose(sin(all_gather(p, "x", {.tiled = true}))))(
                            all, range(0, 3)) *
                        p;
               }),
      on_parts("psum_scatter",
               [](Tensor p) { return p * expand_dims(psum_scatter(p * p, "x"), 0); }),
      on_parts("psum_scatter: tiled",
               [](Tensor p) { return p * psum_scatter(p * p, "x", {.tiled = true}); }),
      on_parts("all_to_all", [](Tensor p) { return p * all_to_all(p * p, "x", {.tiled = true}); }),
      on_parts("all_to_all: of a new dim",
               [](Tensor p) {
                 return p * all_to_all(sin(p), "y", {.split_axis = 0, .concat_axis = 0});
               }),
      on_parts("ppermute",
               [](Tensor p) {
                 return p * ppermute(p * p, "x", {{0, 1}, {1, 0}});
               }),
      on_parts("ppermute: one way",
               [](Tensor p) {
                 return p + ppermute(p * p, "y", {{0, 1}});
               }),
      on_parts("axis_index",
               [](Tensor p) { return p * p * (convert(axis_index("x"), DType::f64) + 1.); }),
  };
}

}  // namespace

std::vector<Case> mesh_cases() {
  std::vector<Case> cases = annotations();
  for (auto& more : {regions(), collectives()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace gspmd::test
