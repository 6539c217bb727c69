// A diffusion model with a U-Net (Ho et al. 2020; Ronneberger et al. 2015) of small images, cut
// over the mesh by rows: convolutions, also those that halve and double the image, read what they
// need of the neighbours' rows. The network predicts the noise in a noisy image of a bright square.
// A loss of 1 is that of predicting no noise at all; the best multiple of the noisy image is the
// closed form that it has to beat.
#include <random>

#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

constexpr int64_t kImage = 16;

template <class T>
struct Filter {
  T kernel, bias;  // h,w,i,o  o
  GSPMD_FIELDS(kernel, bias)
};

template <class T>
struct UNet {
  Filter<T> first, down, middle, up, last;
  T noise_down, noise_middle;  // of the level of noise, 3,c
  GSPMD_FIELDS(first, down, middle, up, last, noise_down, noise_middle)
};

Tensor same(const Filter<Tensor>& p, Tensor x, int64_t stride = 1) {
  return conv(x, p.kernel, "NHWC,HWIO->NHWC",
              {.strides = {stride, stride}, .padding = Padding::same}) +
         p.bias;
}

// The noise in x, b,h,w,1, of variance v, b.
Tensor predicted_noise(const Mesh& mesh, const UNet<Tensor>& p, Tensor x, Tensor v) {
  const auto per_image = [](Tensor t) { return t(all, newaxis, newaxis); };  // b,c -> b,1,1,c
  x = mesh_split(x, mesh, {"data", "model", _, _});
  const Tensor level = stack({v, sqrt(v), sqrt(1 - v)}, 1);
  const Tensor fine = silu(same(p.first, x));
  const Tensor coarse = silu(same(p.down, fine, 2) + per_image(matmul(level, p.noise_down)));
  const Tensor deep = silu(same(p.middle, coarse) + per_image(matmul(level, p.noise_middle)));
  const Tensor wide = conv_transpose(deep, p.up.kernel, "NHWC,HWIO->NHWC", {.strides = {2, 2}});
  const Tensor out = same(p.last, concatenate({fine, silu(wide + p.up.bias)}, 3));
  // Near v = 1 the image is the noise itself.
  return x * reshape(sqrt(v), {v.dim(0), 1, 1, 1}) +
         out * reshape(sqrt(1 - v), {v.dim(0), 1, 1, 1});
}

// Mean square of what is wrong with the prediction. images: b,h,w,1; v: b
Tensor loss(const Mesh& mesh, const UNet<Tensor>& p, Tensor images, Tensor noise, Tensor v) {
  const Tensor variance = reshape(v, {v.dim(0), 1, 1, 1});
  const Tensor noisy = sqrt(1 - variance) * images + sqrt(variance) * noise;
  return mean(square(predicted_noise(mesh, p, noisy, v) - noise));
}

// Squares of 6 pixels at any place; mean 0 and variance 1 over images and pixels, nearly.
std::tuple<Array, Array, Array> batch_of(int64_t batch, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t side = 6;
  const double share = double(side * side) / (kImage * kImage);  // of bright pixels
  Array images(DType::f32, {batch, kImage, kImage, 1}), v(DType::f32, {batch});
  const auto pixel = images.data<float>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto top = int64_t(random() % (kImage - side)),
               left = int64_t(random() % (kImage - side));
    v.set(b, 0.05 + 0.9 * (double(b) + 0.5) / double(batch));
    for (int64_t i = 0; i < kImage * kImage; ++i) {
      const int64_t row = i / kImage - top, column = i % kImage - left;
      const bool bright = row >= 0 && row < side && column >= 0 && column < side;
      pixel[size_t(b * kImage * kImage + i)] =
          float((double(bright) - share) / std::sqrt(share * (1 - share)));
    }
  }
  return {images, random_normal_array(images.shape(), seed), v};
}

// Of the best multiple of the noisy image, sqrt(v) of it, since the images have variance 1.
double closed_form_loss(const Array& v) {
  double total = 0;
  for (int64_t i = 0; i < v.size(); ++i) total += 1 - v.at(i);
  return total / double(v.size());
}

Filter<Array> convolution(int64_t size, int64_t in, int64_t out, uint32_t seed) {
  Array kernel = random_normal_array({DType::f32, {size, size, in, out}}, seed);
  for (float& x : kernel.data<float>()) x /= std::sqrt(float(size * size * in));
  return {kernel, Array(DType::f32, {out})};
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t width = o.small ? 4 : 12;
  UNet<Array> start{convolution(3, 1, width, 1),
                    convolution(4, width, 2 * width, 2),
                    convolution(3, 2 * width, 2 * width, 3),
                    convolution(4, 2 * width, width, 4),
                    convolution(3, 2 * width, 1, 5),
                    Array(DType::f32, {3, 2 * width}),
                    Array(DType::f32, {3, 2 * width})};
  const auto objective = [&](UNet<Tensor> p, Tensor images, Tensor noise, Tensor v) {
    return loss(o.mesh, p, images, noise, v);
  };
  const int64_t steps = o.steps_or(400, 60);
  const auto trained = zoo::train(
      o.mesh, start, objective, [&](int64_t i) { return batch_of(16, uint32_t(i)); }, steps, 1e-2);

  const auto [images, noise, v] = batch_of(o.small ? 32 : 128, 1000000);
  const double value = zoo::run_once(o.mesh, objective, trained, images, noise, v).item();
  const double baseline = closed_form_loss(v);
  report.number("held-out loss", value);
  const auto step =
      compile(grad(objective), {.mesh = o.mesh, .prepare = false}, trained, images, noise, v);
  int64_t halos = 0, gathers = 0;
  for (const CollectiveStats& c : step.stats().collectives) {
    halos += c.kind == "collective-permute" ? c.count : 0;
    gathers += c.kind == "all-gather" || c.kind == "all-to-all" ? c.count : 0;
  }
  report.claim((gathers == 0 || kImage / 2 % o.mesh.size("model") != 0) &&
                   (halos > 0) == (o.mesh.size("model") > 1),
               fmt::format("neighbours send rows in {} permutes, forward and backward; no image "
                           "is gathered",
                           halos));
  report.claim(value < (o.small ? 1 : 0.4) * baseline,
               fmt::format("after {} steps the loss is {:.3f}; {:.3f} is that of the best multiple "
                           "of the noisy image, 1 that of predicting 0",
                           steps, value, baseline));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-2); }
