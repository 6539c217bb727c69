// A diagonal linear state-space model, x' = a x + u and y = Re(c x) + d u with complex a (Gu et al.
// 2022, S4D). It is shown noise and what a system with a long memory makes of it, and has to find
// the system's impulse response, which is known. Trained as a convolution by Fourier transforms,
// run as a recurrence by scan: both are the same system.
#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

template <class T>
struct StateSpace {
  T log_decay, angle;  // n; a = exp(-exp(log_decay) + i angle)
  T c_real, c_imag;    // n
  T d;                 // scalar
  GSPMD_FIELDS(log_decay, angle, c_real, c_imag, d)
};

Tensor log_a(const Mesh& mesh, const StateSpace<Tensor>& p) {
  return mesh_split(complex(-exp(p.log_decay), p.angle), mesh, {"model"});
}

// What an impulse at time 0 gives at times 0, ..., length - 1.
Tensor impulse_response(const Mesh& mesh, const StateSpace<Tensor>& p, int64_t length) {
  const Tensor time = iota({DType::f32, {length}}, 0);
  const Tensor powers = exp(outer(log_a(mesh, p), complex(time, 0)));  // n,t
  const Tensor h = real(einsum("n,nt->t", complex(p.c_real, p.c_imag), powers));
  return at(h, 0).add(p.d);
}

// u is b,t; so is the result. Zeros behind keep what leaves the end from coming in at the front.
Tensor convolved(const Mesh& mesh, const StateSpace<Tensor>& p, Tensor u) {
  const int64_t length = u.dim(1);
  const FftOptions padded{.n = 2 * length};
  const Tensor h = impulse_response(mesh, p, length);
  const Tensor y = irfft(rfft(mesh_split(u, mesh, {"data", _}), padded) * rfft(h, padded), padded);
  return y(all, range(0, length));
}

// The same, one time after the other.
Tensor recurrent(const Mesh& mesh, const StateSpace<Tensor>& p, Tensor u) {
  const Tensor a = exp(log_a(mesh, p)), c = complex(p.c_real, p.c_imag);
  const Tensor start = zeros({DType::c64, {u.dim(0), a.dim(0)}});
  const auto [state, y] = scan(
      [&](Tensor x, Tensor now) {  // b,n  b
        x = mesh_split(a * x + complex(now(all, newaxis), 0), mesh, {"data", "model"});
        return std::pair{x, real(einsum("bn,n->b", x, c)) + p.d * now};
      },
      start, transpose(mesh_split(u, mesh, {"data", _})));
  return transpose(y);
}

// Two damped oscillations: one lasts for hundreds of steps.
std::vector<double> true_response(int64_t length) {
  std::vector<double> h;
  for (int64_t t = 0; t < length; ++t)
    h.push_back(std::exp(-double(t) / 80) * std::cos(0.25 * double(t)) +
                0.5 * std::exp(-double(t) / 20) * std::sin(0.7 * double(t)));
  return h;
}

// Noise, and what the true system makes of it.
std::tuple<Array, Array> observations(int64_t batch, int64_t length, int64_t stream) {
  const std::vector<double> h = true_response(length);
  const Array u = random_normal_array({DType::f32, {batch, length}}, 7, stream);
  Array y(u.shape());
  const auto from = u.data<float>();
  const auto to = y.data<float>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < length; ++t) {
      double sum = 0;
      for (int64_t s = 0; s <= t; ++s) sum += h[size_t(s)] * from[size_t(b * length + t - s)];
      to[size_t(b * length + t)] = float(sum);
    }
  return {u, y};
}

double relative_error(const Array& found, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(found.at(int64_t(i)) - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t length = o.small ? 64 : 256, states = o.small ? 8 : 16, batch = 8;
  StateSpace<Array> start{Array::full({DType::f32, {states}}, std::log(0.03)),
                          Array(DType::f32, {states}), Array(DType::f32, {states}),
                          Array(DType::f32, {states}), Array(DType::f32, {})};
  for (int64_t i = 0; i < states; ++i)
    start.angle.set(i, M_PI * (double(i) + 0.5) / double(states));

  const auto loss = [&](StateSpace<Tensor> p, Tensor u, Tensor y) {
    return mean(square(convolved(o.mesh, p, u) - y));
  };
  const int64_t steps = o.steps_or(600, 150);
  const auto trained = zoo::train(
      o.mesh, start, loss, [&](int64_t i) { return observations(batch, length, i); }, steps, 0.02);

  Array impulse(DType::f32, {1, length});
  impulse.set(0, 1);
  const auto by_scan = [&](StateSpace<Tensor> p, Tensor u) { return recurrent(o.mesh, p, u); };
  const Array found = zoo::run_once(o.mesh, by_scan, trained, impulse);
  const double error = relative_error(found, true_response(length));
  report.claim(
      error < (o.small ? 0.1 : 0.01),
      fmt::format("after {} steps the impulse response differs by {:.2f} % from the true one",
                  steps, 100 * error));

  const Array u = random_normal_array({DType::f32, {batch, length}}, 8);
  const Array y = zoo::run_once(
      o.mesh, [&](StateSpace<Tensor> p, Tensor x) { return convolved(o.mesh, p, x); }, trained, u);
  const Array same = zoo::run_once(o.mesh, by_scan, trained, u);
  std::vector<double> expected;
  for (int64_t i = 0; i < y.size(); ++i) expected.push_back(y.at(i));
  const double difference = relative_error(same, expected);
  report.claim(difference < 1e-4,
               fmt::format("scan and convolution differ by {:.1e} of the output", difference));
  report.number("last output", y.at(y.size() - 1));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-3); }
