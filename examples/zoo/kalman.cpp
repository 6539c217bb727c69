// A Kalman filter with Cholesky factors, by scan over time and vmap over sequences. The log
// likelihood that it adds up step by step is that of all observations of a sequence as one Gaussian
// vector, whose covariance is written out below; and gradient ascent on it finds the noise of the
// system.
#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

// x' = a x + noise of covariance q, y = c x + noise of covariance r; x begins with covariance p.
template <class T>
struct System {
  T a, c, q, r, p;  // n,n  m,n  n,n  m,m  n,n
  GSPMD_FIELDS(a, c, q, r, p)
};

template <class T>
struct Belief {
  T mean, covariance;  // n  n,n
  GSPMD_FIELDS(mean, covariance)
};

// log N(y; 0, L L^T)
Tensor log_density(Tensor factor, Tensor y) {
  const Tensor white =
      triangular_solve(factor, y(all, newaxis), {.left_side = true, .lower = true});
  return -0.5 * sum(square(white)) - sum(log(diagonal(factor))) -
         0.5 * double(y.dim(0)) * std::log(2 * M_PI);
}

// log p(y) of one sequence, t,m.
Tensor log_likelihood(const System<Tensor>& s, Tensor y) {
  const Belief<Tensor> start{zeros({y.dtype(), {s.a.dim(0)}}), s.p};
  const auto [last, terms] = scan(
      [&](const Belief<Tensor>& b, Tensor seen) {
        const Tensor gain = matmul(b.covariance, transpose(s.c));  // n,m, of the innovation
        const Tensor factor = cholesky(matmul(s.c, gain) + s.r);
        const Tensor innovation = seen - matmul(s.c, b.mean);
        const Tensor mean = b.mean + matmul(gain, solve_cholesky(factor, innovation));
        const Tensor left = b.covariance - matmul(gain, solve_cholesky(factor, transpose(gain)));
        const Belief<Tensor> next{matmul(s.a, mean), einsum("ij,jk,lk->il", s.a, left, s.a) + s.q};
        return std::pair{next, log_density(factor, innovation)};
      },
      start, y);
  return sum(terms);
}

// The same with the covariance of y_0, ..., y_T-1 as one matrix: c cov(x_s, x_t) c^T.
Tensor joint_log_density(const System<Tensor>& s, Tensor y) {
  const int64_t length = y.dim(0), m = y.dim(1);
  std::vector<Tensor> rows;
  Tensor state = s.p;  // cov(x_s, x_s)
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Tensor> blocks(size_t(i), zeros({y.dtype(), {m, m}}));  // not read by cholesky
    for (int64_t j = 0; j < i; ++j)
      blocks[size_t(j)] = transpose(rows[size_t(j)](all, range(i * m, (i + 1) * m)));
    Tensor cross = state;  // cov(x_s, x_t), t = s, s + 1, ...
    for (int64_t t = i; t < length; ++t, cross = matmul(cross, transpose(s.a)))
      blocks.push_back(einsum("ij,jk,lk->il", s.c, cross, s.c) + (t == i ? s.r : zeros_like(s.r)));
    rows.push_back(concatenate(blocks, 1));
    state = einsum("ij,jk,lk->il", s.a, state, s.a) + s.q;
  }
  return log_density(cholesky(concatenate(rows, 0)), reshape(y, {length * m}));
}

Array matrix(int64_t rows, const std::vector<double>& values) {
  return Array::of<double>({rows, std::ssize(values) / rows}, values);
}

// A point on a rough road: place and speed, of which the place is seen twice.
System<Array> road() {
  return {matrix(2, {1, 0.5, -0.2, 0.9}), matrix(2, {1, 0, 0.5, 0.2}), matrix(2, {0.05, 0, 0, 0.3}),
          matrix(2, {0.5, 0.1, 0.1, 0.8}), matrix(2, {1, 0, 0, 1})};
}

// Runs of the system, b,t,m.
Array sequences(const Mesh& mesh, int64_t batch, int64_t length) {
  const auto one = [&](System<Tensor> s, Tensor seed) {
    const auto noise = [&](int64_t stream, Tensor covariance) {  // t,n
      const Tensor z = random_normal(seed, {length, 2}, {.dtype = DType::f64, .stream = stream});
      return matmul(z, transpose(cholesky(covariance)));
    };
    const Tensor first = matmul(cholesky(s.p), noise(0, eye(2, {.dtype = DType::f64}))(0));
    return scan(
               [&](Tensor x, const std::pair<Tensor, Tensor>& now) {
                 return std::pair{matmul(s.a, x) + now.first, matmul(s.c, x) + now.second};
               },
               first, std::pair{noise(1, s.q), noise(2, s.r)})
        .second;
  };
  Array seeds(DType::s32, {batch});
  for (int64_t b = 0; b < batch; ++b) seeds.set(b, double(b + 1));
  return zoo::run_once(mesh, vmap(one, {.in_axes = {not_batched, 0}}), road(), seeds);
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t batch = o.small ? 12 : 60, length = o.small ? 6 : 12;
  const System<Array> truth = road();
  const Array y = sequences(o.mesh, batch, length);
  const auto of_all = [&](auto density) {
    return [&, density](System<Tensor> s, Tensor seen) {
      seen = mesh_split(seen, o.mesh, {{"data", "model"}, _, _});
      return mean(vmap(density, {.in_axes = {not_batched, 0}})(s, seen));
    };
  };
  const double filtered = zoo::run_once(o.mesh, of_all(log_likelihood), truth, y).item();
  const double joint = zoo::run_once(o.mesh, of_all(joint_log_density), truth, y).item();
  report.number("log likelihood", filtered);
  report.claim(std::abs(filtered - joint) < 1e-10 * std::abs(joint),
               fmt::format("the filter's log likelihood is {:.10f}, the joint density's {:.10f}",
                           filtered, joint));

  // How much rougher the road is than 1, in logarithms, and how much worse the sight.
  const auto objective = [&](std::pair<Tensor, Tensor> scales, System<Tensor> s, Tensor seen) {
    s.q = s.q * exp(scales.first);
    s.r = s.r * exp(scales.second);
    return -of_all(log_likelihood)(s, seen);
  };
  const std::pair start{Array::scalar(1.), Array::scalar(-1.)};
  const auto found = zoo::train(
      o.mesh, start, objective,
      [&](int64_t) {
        return std::tuple{truth, y};
      },
      o.steps_or(150, 60), 0.1);
  const auto slope = zoo::run_once(o.mesh, grad(objective), found, truth, y);
  const double q = found.first.item(), r = found.second.item();
  report.number("log of q", q);
  // One standard deviation of an estimate from n numbers is about sqrt(2 / n).
  const double limit = 3 * std::sqrt(2 / double(batch * length));
  report.claim(std::abs(q) < 2 * limit && std::abs(r) < limit,
               fmt::format("the most likely noise is {:.2f} and {:.2f} of the true one, there the "
                           "slopes are {:.0e} and {:.0e}",
                           std::exp(q), std::exp(r), slope.first.item(), slope.second.item()));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-6); }
