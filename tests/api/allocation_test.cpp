// Counts what a training step asks of the heap. Replaces the global operators new of this test
// program.
#include <atomic>
#include <cstdlib>
#include <new>

#include "api/support.h"

namespace {

std::atomic<int64_t> large_allocations{0};

void* counted(size_t size) {
  if (size >= 4096) ++large_allocations;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t size) { return counted(size); }
void* operator new[](size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

using namespace gspmd;
using namespace gspmd::test;

namespace {

template <class T>
struct Layer {
  T w1, w2;
  std::optional<T> b1, b2, b3, b4, b5, b6;
  GSPMD_FIELDS(w1, w2, b1, b2, b3, b4, b5, b6)
};

using Layers = std::vector<Layer<Array>>;

}  // namespace

TEST_CASE("after the first step a call allocates nothing of 4 KiB or more", "[api][executable]") {
  Layers params;
  for (unsigned i = 0; i < 8; ++i) {
    const Array bias(DType::f32, {64});
    params.push_back({random_array({DType::f32, {64, 128}}, i),
                      random_array({DType::f32, {128, 64}}, i), bias.clone(), bias.clone(),
                      bias.clone(), bias.clone(), bias.clone(), bias.clone()});
  }
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const auto step_fn = [&](std::vector<Layer<Tensor>> p, Adam<std::vector<Layer<Tensor>>> adam,
                           Tensor x) {
    const auto loss = [&](const std::vector<Layer<Tensor>>& layers, Tensor t) {
      t = mesh_split(t, mesh, {"data", _});
      for (const Layer<Tensor>& layer : layers) {
        Tensor h = relu(einsum("bm,mh->bh", t, mesh_split(layer.w1, mesh, {_, "model"})));
        t = einsum("bh,hm->bm", h, layer.w2) + *layer.b1 + *layer.b2;
      }
      return mean(square(t));
    };
    const auto [value, grads] = value_and_grad(loss)(p, x);
    const auto [new_params, new_adam] = adam.update(p, grads);
    return std::tuple{new_params, new_adam, value};
  };
  auto adam = Adam<Layers>::zeros_like(params);
  const Array x = random_array({DType::f32, {32, 64}}, 99);
  const auto step =
      compile(step_fn, {.mesh = mesh, .donate = {0, 1}, .threads = 2}, params, adam, x);
  Array value;
  for (int i = 0; i < 2; ++i) std::tie(params, adam, value) = step(params, adam, x);
  value.item();
  const int64_t before = large_allocations;
  for (int i = 0; i < 3; ++i) {
    std::tie(params, adam, value) = step(params, adam, x);
    value.item();
  }
  CHECK(large_allocations - before == 0);
}
