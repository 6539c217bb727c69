// A variational autoencoder (Kingma and Welling 2013) whose optimum is known. With a linear decoder
// its best evidence lower bound is the likelihood of probabilistic principal components (Tipping
// and Bishop 1999; Lucas et al. 2019), which the eigenvalues of the data's covariance give in
// closed form.
#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

const std::vector<double> kEigenvalues = {6, 3, 1.5, 0.4, 0.35, 0.3, 0.3, 0.25, 0.2, 0.2};
constexpr int64_t kLatent = 3;
const int64_t kDim = std::ssize(kEigenvalues);

template <class T>
struct Vae {
  T encoder, encoder_bias, log_std;    // d,z  z  z: of q(z|x)
  T decoder, decoder_bias, log_noise;  // z,d  d  scalar: of p(x|z)
  GSPMD_FIELDS(encoder, encoder_bias, log_std, decoder, decoder_bias, log_noise)
};

// log p(x|z) + log p(z) - log q(z|x), averaged over the images x, b,d, for z = mean + std * noise.
// Without noise: the expectation over it, in closed form.
Tensor evidence_bound(const Mesh& mesh, const Vae<Tensor>& p, Tensor x, const Tensor* noise) {
  x = mesh_split(x, mesh, {"data", _});
  const Tensor decoder = mesh_split(p.decoder, mesh, {_, "model"});
  const Tensor z_mean = matmul(x, p.encoder) + p.encoder_bias, z_std = exp(p.log_std);
  const Tensor z = noise ? z_mean + z_std * *noise : z_mean;
  const Tensor missed = x - matmul(z, decoder) - p.decoder_bias;
  Tensor squares = sum(square(missed), {.axes = 1});  // b
  if (!noise) squares += sum(square(expand_dims(z_std, 1) * decoder));
  const Tensor log_likelihood = squares * exp(-2 * p.log_noise) * -0.5 -
                                double(kDim) * (p.log_noise + 0.5 * std::log(2 * M_PI));
  const Tensor divergence =  // of q(z|x) from the standard normal distribution
      sum(0.5 * (square(z_mean) + square(z_std) - 1) - p.log_std, {.axes = 1});
  return mean(log_likelihood - divergence);
}

// b,d with exactly mean 0 and these eigenvalues: cosines are uncorrelated, and a reflection turns
// them into other directions.
Array data(int64_t batch) {
  Array x(DType::f32, {batch, kDim});
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> row;
    double along = 0;  // the reflection's normal, (1, ..., 1) / sqrt(d)
    for (int64_t k = 0; k < kDim; ++k) {
      const double angle = M_PI * (double(b) + 0.5) * double(k + 1) / double(batch);
      row.push_back(std::sqrt(2 * kEigenvalues[size_t(k)]) * std::cos(angle));
      along += row.back() / double(kDim);
    }
    for (int64_t k = 0; k < kDim; ++k) x.set(b * kDim + k, row[size_t(k)] - 2 * along);
  }
  return x;
}

// Of the best model of kLatent directions and equal noise in all others, per row.
double best_log_likelihood() {
  double noise = 0, logs = 0;
  for (int64_t k = kLatent; k < kDim; ++k)
    noise += kEigenvalues[size_t(k)] / double(kDim - kLatent);
  for (int64_t k = 0; k < kDim; ++k)
    logs += std::log(k < kLatent ? kEigenvalues[size_t(k)] : noise);
  return -0.5 * (double(kDim) * (std::log(2 * M_PI) + 1) + logs);
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t batch = 120;
  const Array x = data(batch);
  const auto random = [](Dims dims, uint32_t seed) {
    Array w = random_normal_array({DType::f32, std::move(dims)}, seed);
    for (float& value : w.data<float>()) value *= 0.3F;
    return w;
  };
  const Vae<Array> start{random({kDim, kLatent}, 1),   Array(DType::f32, {kLatent}),
                         Array(DType::f32, {kLatent}), random({kLatent, kDim}, 2),
                         Array(DType::f32, {kDim}),    Array(DType::f32, {})};
  const auto loss = [&](Vae<Tensor> p, Tensor rows, Tensor seed) {
    const Tensor noise = random_normal(seed, {batch, kLatent});
    return -evidence_bound(o.mesh, p, rows, &noise);
  };
  const int64_t steps = o.steps_or(3000, 500);
  const auto trained = zoo::train(
      o.mesh, start, loss,
      [&](int64_t i) {
        return std::tuple{x, Array::scalar(int32_t(i))};
      },
      steps, 0.03);

  const auto bound = [&](Vae<Tensor> p, Tensor rows) {
    return evidence_bound(o.mesh, p, rows, nullptr);
  };
  const double value = zoo::run_once(o.mesh, bound, trained, x).item();
  const double best = best_log_likelihood(), gap = best - value;
  report.number("evidence lower bound", value);
  report.claim(gap > -1e-4 && gap < (o.small ? 0.15 : 0.01),
               fmt::format("after {} steps the bound is {:.4f} nats; the likelihood of principal "
                           "components, which it cannot pass, is {:.4f}",
                           steps, value, best));
  double noise = 0;
  for (int64_t k = kLatent; k < kDim; ++k)
    noise += kEigenvalues[size_t(k)] / double(kDim - kLatent);
  const double found = std::exp(2 * trained.log_noise.item());
  report.claim(std::abs(found - noise) < (o.small ? 0.05 : 0.01),
               fmt::format("the noise has variance {:.3f}; the mean of the eigenvalues left out is "
                           "{:.3f}",
                           found, noise));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-3); }
