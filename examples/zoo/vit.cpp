// A vision Transformer (Dosovitskiy et al. 2020): images are cut into patches by a convolution, and
// the class is read off a token of its own. The images show a grating at one of four angles, at any
// place and wavelength, under noise as strong as the grating. Chance is 25 %.
#include <random>

#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

constexpr int64_t kImage = 16, kPatch = 4, kClasses = 4, kTokens = 16 + 1;

template <class T>
struct Block {
  T norm1, bias1, qkv, out;           // m  m  m,3,n,d  n,d,m
  T norm2, bias2, w_in, b_in, w_out;  // m  m  m,h  h  h,m
  GSPMD_FIELDS(norm1, bias1, qkv, out, norm2, bias2, w_in, b_in, w_out)
};

template <class T>
struct Vit {
  T patches, positions, token;  // p,p,1,m  s,m  m
  Block<T> blocks;              // of all layers, with one more dim in front
  T norm, bias, head;           // m  m  m,c
  GSPMD_FIELDS(patches, positions, token, blocks, norm, bias, head)
};

Tensor block(const Mesh& mesh, const Block<Tensor>& p, Tensor x) {  // x is b,s,m
  const Tensor qkv = mesh_split(einsum("bsm,mknd->kbsnd", layer_norm(x, p.norm1, p.bias1), p.qkv),
                                mesh, {_, "data", _, "model", _});
  const double scale = 1 / std::sqrt(double(qkv.dim(-1)));
  const Tensor weights = softmax(einsum("bsnd,btnd->bnst", qkv(0), qkv(1)) * scale);
  x = x + einsum("bnst,btnd,ndm->bsm", weights, qkv(2), p.out);
  const Tensor hidden = gelu(matmul(layer_norm(x, p.norm2, p.bias2), p.w_in) + p.b_in);
  return x + matmul(mesh_split(hidden, mesh, {"data", _, "model"}), p.w_out);
}

Tensor logits(const Mesh& mesh, const Vit<Tensor>& p, Tensor images) {  // b,h,w,1
  images = mesh_split(images, mesh, {"data", _, _, _});
  const Tensor patches = conv(images, p.patches, "NHWC,HWIO->NHWC", {.strides = {kPatch, kPatch}});
  const int64_t batch = images.dim(0), m = p.token.dim(0);
  const Tensor token = broadcast_to(p.token, {batch, 1, m});
  const Tensor x = concatenate({token, reshape(patches, {batch, kTokens - 1, m})}, 1) + p.positions;
  const auto [last, none] = scan(
      [&](Tensor y, const Block<Tensor>& layer) {
        return std::pair{block(mesh, layer, y), Nothing{}};
      },
      x, p.blocks);
  return matmul(layer_norm(last(all, 0), p.norm, p.bias), p.head);
}

// {images b,h,w,1, labels b}
std::tuple<Array, Array> gratings(int64_t batch, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  Array images = random_normal_array({DType::f32, {batch, kImage, kImage, 1}}, seed);
  Array labels(DType::s32, {batch});
  const auto pixel = images.data<float>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto label = int64_t(random() % kClasses);
    labels.set(b, double(label));
    const double angle = M_PI * double(label) / kClasses, phase = 2 * M_PI * uniform(random);
    const double wave = 0.9 + 0.6 * uniform(random);
    for (int64_t i = 0; i < kImage * kImage; ++i) {
      const double along =
          std::cos(angle) * double(i % kImage) + std::sin(angle) * double(i / kImage);
      pixel[size_t(b * kImage * kImage + i)] +=
          float(std::sqrt(2.) * std::sin(wave * along + phase));
    }
  }
  return {images, labels};
}

Array weights(Dims dims, double fan_in, uint32_t seed) {
  Array w = random_normal_array({DType::f32, std::move(dims)}, seed);
  for (float& x : w.data<float>()) x *= float(1 / std::sqrt(fan_in));
  return w;
}

Vit<Array> initial(int64_t layers, int64_t m, int64_t heads) {
  const auto ones = [](Dims dims) { return Array::full({DType::f32, std::move(dims)}, 1); };
  const auto zeros = [](Dims dims) { return Array(DType::f32, std::move(dims)); };
  const int64_t n = layers, d = m / heads, h = 2 * m;
  const Block<Array> blocks{ones({n, m}),
                            zeros({n, m}),
                            weights({n, m, 3, heads, d}, double(m), 1),
                            weights({n, heads, d, m}, double(m), 2),
                            ones({n, m}),
                            zeros({n, m}),
                            weights({n, m, h}, double(m), 3),
                            zeros({n, h}),
                            weights({n, h, m}, double(h), 4)};
  return {weights({kPatch, kPatch, 1, m}, kPatch * kPatch, 5),
          weights({kTokens, m}, 25, 6),
          zeros({m}),
          blocks,
          ones({m}),
          zeros({m}),
          weights({m, kClasses}, double(m), 7)};
}

void model(const zoo::Options& o, zoo::Report& report) {
  const Vit<Array> start = o.small ? initial(1, 16, 4) : initial(3, 32, 4);
  const auto loss = [&](Vit<Tensor> p, Tensor images, Tensor labels) {
    return cross_entropy(logits(o.mesh, p, images), labels);
  };
  const int64_t steps = o.steps_or(200, 60), batch = 32;
  const Vit<Array> trained = zoo::train(
      o.mesh, start, loss, [&](int64_t i) { return gratings(batch, unsigned(i)); }, steps, 5e-3);

  const auto accuracy = [&](Vit<Tensor> p, Tensor images, Tensor labels) {
    return mean(
        convert(equal(argmax(logits(o.mesh, p, images), {.axis = -1}), labels), DType::f32));
  };
  const auto [images, labels] = gratings(o.small ? 128 : 512, 1000000);
  const double right = zoo::run_once(o.mesh, accuracy, trained, images, labels).item();
  report.number("loss", zoo::run_once(o.mesh, loss, trained, images, labels).item());
  report.claim(right > (o.small ? 0.8 : 0.95),
               fmt::format("after {} steps {:.1f} % of the held-out images are classified right; "
                           "25 % by chance",
                           steps, 100 * right));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-2); }
