// Gaussian process regression (Rasmussen and Williams 2006, 2.2 and 5.4): kernel parameters by the
// marginal likelihood, a Cholesky factor of a covariance whose rows are split over the mesh. The
// likelihood is compared with elimination written as loops, the parameters and predictions with the
// process that the data come from.
#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

template <class T>
struct Kernel {
  T log_length, log_scale, log_noise;  // scalars, of standard deviations
  GSPMD_FIELDS(log_length, log_scale, log_noise)
};

// Covariance of the values at a, n,d and b, m,d: scale^2 exp(-|a - b|^2 / (2 length^2)).
Tensor covariance(const Kernel<Tensor>& p, Tensor a, Tensor b) {
  const Tensor apart = (expand_dims(a, 1) - expand_dims(b, 0)) * exp(-p.log_length);
  return exp(2 * p.log_scale - 0.5 * sum(square(apart), {.axes = -1}));
}

Tensor factor(const Mesh& mesh, const Kernel<Tensor>& p, Tensor x) {
  const Tensor noise = exp(2 * p.log_noise) * eye(x.dim(0), {.dtype = x.dtype()});
  return cholesky(mesh_split(covariance(p, x, x) + noise, mesh, {"data", "model"}));
}

Tensor log_marginal_likelihood(const Mesh& mesh, const Kernel<Tensor>& p, Tensor x, Tensor y) {
  const Tensor l = factor(mesh, p, x);
  return -0.5 * sum(y * solve_cholesky(l, y)) - sum(log(diagonal(l))) -
         0.5 * double(y.dim(0)) * std::log(2 * M_PI);
}

// {mean, variance} of observations at `at`.
auto prediction(const Mesh& mesh, const Kernel<Tensor>& p, Tensor x, Tensor y, Tensor at) {
  const Tensor l = factor(mesh, p, x), cross = covariance(p, x, at);  // n,m
  const Tensor white = triangular_solve(l, cross, {.left_side = true, .lower = true});
  const Tensor variance = exp(2 * p.log_scale) + exp(2 * p.log_noise);
  return std::pair{matmul(transpose(cross), solve_cholesky(l, y)),
                   variance - sum(square(white), {.axes = 0})};
}

// The density by elimination: observation i given all before it.
double by_elimination(const Kernel<Array>& p, const Array& x, const Array& y) {
  const int64_t n = x.dim(0), d = x.dim(1);
  std::vector<std::vector<double>> k(static_cast<size_t>(n));
  std::vector<double> left;
  for (int64_t i = 0; i < n; ++i) {
    left.push_back(y.at(i));
    k[size_t(i)].resize(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) {
      double squares = 0;
      for (int64_t c = 0; c < d; ++c) squares += std::pow(x.at(i * d + c) - x.at(j * d + c), 2);
      k[size_t(i)][size_t(j)] =
          std::exp(2 * p.log_scale.item() - 0.5 * squares * std::exp(-2 * p.log_length.item())) +
          (i == j ? std::exp(2 * p.log_noise.item()) : 0);
    }
  }
  double density = 0;
  for (size_t i = 0; i < size_t(n); ++i) {
    density -= 0.5 * (std::log(2 * M_PI * k[i][i]) + left[i] * left[i] / k[i][i]);
    for (size_t r = i + 1; r < size_t(n); ++r) {
      const double share = k[r][i] / k[i][i];
      left[r] -= share * left[i];
      for (size_t c = i; c < size_t(n); ++c) k[r][c] -= share * k[i][c];
    }
  }
  return density;
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t n = o.small ? 30 : 150, held = o.small ? 30 : 100;
  const Kernel<Array> truth{Array::scalar(std::log(0.4)), Array::scalar(std::log(1.5)),
                            Array::scalar(std::log(0.2))};
  Array places = random_uniform_array({DType::f64, {n + held, 2}}, 1);
  for (double& x : places.data<double>()) x *= 2;
  const auto drawn = [&](Kernel<Tensor> p, Tensor x) {
    return matmul(factor(o.mesh, p, x), random_normal(2, {x.dim(0)}, {.dtype = DType::f64}));
  };
  const Array values = zoo::run_once(o.mesh, drawn, truth, places);
  const auto parts = [&](Tensor x, Tensor y) {
    return std::tuple{x(range(0, n)), y(range(0, n)), x(range(n, {})), y(range(n, {}))};
  };
  const auto [x, y, held_x, held_y] = zoo::run_once(o.mesh, parts, places, values);

  const auto likelihood = [&](Kernel<Tensor> p, Tensor at, Tensor seen) {
    return log_marginal_likelihood(o.mesh, p, at, seen);
  };
  const auto loss = [&](Kernel<Tensor> p, Tensor at, Tensor seen) {
    return -likelihood(p, at, seen);
  };
  const Kernel<Array> start{Array::scalar(0.), Array::scalar(0.), Array::scalar(0.)};
  const auto data = std::tuple{x, y};
  const Kernel<Array> found = zoo::train(
      o.mesh, start, loss, [&](int64_t) { return data; }, o.steps_or(150, 80), 0.05);

  const double best = zoo::run_once(o.mesh, likelihood, found, x, y).item();
  const double expected = by_elimination(found, x, y), of_truth = by_elimination(truth, x, y);
  report.number("log marginal likelihood", best);
  report.claim(
      std::abs(best - expected) < 1e-9 * std::abs(expected),
      fmt::format("the log marginal likelihood is {:.9f}, by elimination {:.9f}", best, expected));
  report.claim(
      best > of_truth && best < of_truth + 6,
      fmt::format("that of the process the data come from, {:.2f}, is less, by little", of_truth));

  const auto predicted = [&](Kernel<Tensor> p, Tensor at, Tensor seen, Tensor to) {
    return prediction(o.mesh, p, at, seen, to);
  };
  const auto [mean, variance] = zoo::run_once(o.mesh, predicted, found, x, y, held_x);
  double score = 0;
  for (int64_t i = 0; i < held; ++i)
    score += std::pow(held_y.at(i) - mean.at(i), 2) / variance.at(i) / double(held);
  report.number("mean squared standard score", score);
  report.claim(std::abs(score - 1) < 4 * std::sqrt(2 / double(held)),
               fmt::format("held-out errors are {:.2f} of what the prediction says of them, "
                           "lengths {:.2f} for 0.40, noise {:.2f} for 0.20",
                           std::sqrt(score), std::exp(found.log_length.item()),
                           std::exp(found.log_noise.item())));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-6); }
