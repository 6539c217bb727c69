// A residual network of depthwise separable convolutions with batch normalisation (He et al. 2016;
// Chollet 2017): it tells discs, squares, triangles and crosses of any size and place apart, under
// noise. The batch is split over one mesh axis and the features over the other; batch statistics
// are those of the whole batch, and images are judged one by one with their moving averages. Chance
// is 25 %.
#include <random>

#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

constexpr int64_t kImage = 14, kShapes = 4;

template <class T>
struct Norm {
  T scale, bias;  // c
  GSPMD_FIELDS(scale, bias)
};

template <class T>
struct Block {
  T each, mix;  // 3,3,1,c: a window per feature  c,c
  Norm<T> norm;
  GSPMD_FIELDS(each, mix, norm)
};

template <class T>
struct Network {
  T stem;  // 3,3,1,c
  Norm<T> norm;
  std::vector<Block<T>> blocks;
  T head;  // c,k
  GSPMD_FIELDS(stem, norm, blocks, head)
};

template <class T>
struct Moments {
  T mean, variance;  // c
  GSPMD_FIELDS(mean, variance)
};
template <class T>
using Statistics = std::vector<Moments<T>>;  // of each norm, in order

// {class scores of images b,h,w,1, the batch's statistics}. `fixed`: statistics to use instead.
std::pair<Tensor, Statistics<Tensor>> forward(const Mesh& mesh, const Network<Tensor>& p, Tensor x,
                                              const Statistics<Tensor>* fixed) {
  Statistics<Tensor> seen;
  const auto normalised = [&](const Norm<Tensor>& norm, Tensor t) {
    const Axes all_but_features = {0, 1, 2};
    seen.push_back({mean(t, {.axes = all_but_features}), var(t, {.axes = all_but_features})});
    const Moments<Tensor>& by = fixed ? (*fixed)[seen.size() - 1] : seen.back();
    return (t - by.mean) * rsqrt(by.variance + 1e-3) * norm.scale + norm.bias;
  };
  x = mesh_split(x, mesh, {"data", _, _, _});
  x = relu(normalised(p.norm, conv(x, p.stem, "NHWC,HWIO->NHWC", {.padding = Padding::same})));
  const int64_t features = x.dim(3);
  for (const Block<Tensor>& block : p.blocks) {
    x = mesh_split(x, mesh, {"data", _, _, "model"});
    const Tensor each =
        conv(x, block.each, "NHWC,HWIO->NHWC", {.padding = Padding::same, .groups = features});
    x = relu(x + normalised(block.norm, einsum("bhwc,cd->bhwd", each, block.mix)));
    x = max_pool(x, {2, 2}, {.strides = {2, 2}, .padding = Padding::same});
  }
  return {matmul(mean(x, {.axes = {1, 2}}), p.head), seen};
}

std::tuple<Array, Array> drawings(int64_t batch, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<> uniform;
  Array images = random_normal_array({DType::f32, {batch, kImage, kImage, 1}}, seed);
  Array labels(DType::s32, {batch});
  for (int64_t b = 0; b < batch; ++b) {
    const auto label = int64_t(random() % kShapes);
    labels.set(b, double(label));
    const double r = 3 + 1.5 * uniform(random), room = kImage - 1 - 2 * r;
    const double cx = r + room * uniform(random), cy = r + room * uniform(random);
    for (int64_t i = 0; i < kImage * kImage; ++i) {
      const double x = double(i % kImage) - cx, y = double(i / kImage) - cy;
      const bool inside[] = {
          x * x + y * y < r * r, std::max(std::abs(x), std::abs(y)) < 0.9 * r,
          std::abs(y) < r && std::abs(x) < (y + r) / 2,
          std::min(std::abs(x), std::abs(y)) < 0.3 * r && std::max(std::abs(x), std::abs(y)) < r};
      const int64_t at = b * kImage * kImage + i;
      images.set(at, 0.2 * images.at(at) + double(inside[label]));
    }
  }
  return {images, labels};
}

Array weights(Dims dims, double fan_in, uint32_t seed) {
  Array w = random_normal_array({DType::f32, std::move(dims)}, seed);
  for (float& x : w.data<float>()) x *= float(std::sqrt(2 / fan_in));
  return w;
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t c = o.small ? 12 : 24, batch = o.small ? 32 : 48;
  const auto zeros = [&] { return Array(DType::f32, {c}); };
  const auto ones = [&] { return Array::full({DType::f32, {c}}, 1); };
  Network<Array> params{
      weights({3, 3, 1, c}, 9, 1), {ones(), zeros()}, {}, weights({c, kShapes}, 20 * double(c), 2)};
  for (uint32_t i = 0; i < (o.small ? 2 : 3); ++i)
    params.blocks.push_back(
        {weights({3, 3, 1, c}, 9, 3 + i), weights({c, c}, double(c), 9 + i), {ones(), zeros()}});
  Statistics<Array> moving;
  for (size_t i = 0; i <= params.blocks.size(); ++i) moving.push_back({zeros(), ones()});

  const auto loss = [&](Network<Tensor> p, Tensor images, Tensor labels) {
    const auto [scores, seen] = forward(o.mesh, p, images, nullptr);
    return std::pair{cross_entropy(scores, labels), seen};
  };
  const auto update = [&](Network<Tensor> p, Adam<Network<Tensor>> adam,
                          Statistics<Tensor> averages, Tensor rate, Tensor images, Tensor labels) {
    const auto [value, grads] = value_and_grad(loss)(p, images, labels);
    const auto [next, state] = adam.update(p, grads, {.lr = rate});
    averages = map_leaves([](const Tensor& a, const Tensor& b) { return 0.9 * a + 0.1 * b; },
                          averages, value.second);
    return std::tuple{next, state, averages};
  };
  auto adam = Adam<Network<Array>>::zeros_like(params);
  const int64_t steps = o.steps_or(200, 70);
  const auto [like, like_labels] = drawings(batch, 0);
  const auto step = compile(update, {.mesh = o.mesh, .donate = {0, 1, 2}}, params, adam, moving,
                            Shape(DType::f32, {}), like, like_labels);
  for (int64_t i = 0; i < steps; ++i) {
    const auto [images, labels] = drawings(batch, unsigned(i));
    const Array rate = Array::scalar(0.01F * float(steps - i) / float(steps));
    std::tie(params, adam, moving) = step(params, adam, moving, rate, images, labels);
  }

  const auto judge = [&](Network<Tensor> p, Statistics<Tensor> fixed, Tensor images,
                         Tensor labels) {
    const Tensor scores = forward(o.mesh, p, images, &fixed).first;
    const Tensor right = convert(equal(argmax(scores, {.axis = 1}), labels), DType::f32);
    return std::pair{mean(right), cross_entropy(scores, labels)};
  };
  const auto [images, labels] = drawings(o.small ? 200 : 500, 1000000);
  const auto [right, value] = zoo::run_once(o.mesh, judge, params, moving, images, labels);
  report.number("held-out loss", value.item());
  report.claim(right.item() > (o.small ? 0.6 : 0.95),
               fmt::format("after {} steps {:.1f} % of the held-out images are classified right; "
                           "25 % by chance",
                           steps, 100 * right.item()));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-2); }
