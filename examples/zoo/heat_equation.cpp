// The heat equation, differentiated through: where a plate conducts heat, and how well, is found
// from its temperatures before and after. The plate is cut over the mesh in rows and columns, and
// every time step reads the neighbours' border, forward in time and backward in the gradient. The
// solution is compared with the exact one.
#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

// One explicit step of du/dt = div(d grad u) on a torus, u and d x,y: what flows over each side of
// a cell is the mean conductivity of the two cells times the difference of their temperatures.
Tensor flow_step(Tensor u, Tensor d, double dt) {
  Tensor change = zeros_like(u);
  for (const int64_t axis : {0, 1}) {
    const Tensor flux = 0.5 * (d + roll(d, -1, axis)) * (roll(u, -1, axis) - u);
    change += flux - roll(flux, 1, axis);
  }
  return u + dt * change;
}

// Temperatures after `steps` steps.
Tensor solved(const Mesh& mesh, Tensor u, Tensor d, int64_t steps, double dt) {
  u = mesh_split(u, mesh, {"data", "model"});
  return fori_loop(
      0, steps, [&](Tensor, Tensor now) { return flow_step(now, d, dt); }, u);
}

// A wave on a plate of one material keeps its form and decays by this factor a step.
double decay(int64_t n, int64_t kx, int64_t ky, double d, double dt) {
  const auto rate = [&](int64_t k) { return 2 - 2 * std::cos(2 * M_PI * double(k) / double(n)); };
  return 1 - d * dt * (rate(kx) + rate(ky));
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t n = o.small ? 12 : 22, steps = o.small ? 6 : 12;
  const double dt = 0.2;
  const Shape plate(DType::f64, {n, n});
  const auto filled = [&](auto f) {
    Array a(plate);
    for (int64_t i = 0; i < n * n; ++i) a.set(i, f(double(i / n), double(i % n)));
    return a;
  };
  const auto forward = [&](Tensor u, Tensor d) { return solved(o.mesh, u, d, steps, dt); };

  const double turn = 2 * M_PI / double(n);
  const Array wave = filled([&](double x, double y) { return std::cos(turn * (2 * x + y)); });
  const Array after = zoo::run_once(o.mesh, forward, wave, Array::full(plate, 0.7));
  const double factor = std::pow(decay(n, 2, 1, 0.7, dt), double(steps));
  double error = 0;
  for (int64_t i = 0; i < n * n; ++i)
    error = std::max(error, std::abs(after.at(i) - factor * wave.at(i)));
  report.claim(error < 1e-12, fmt::format("a wave decays to {:.4f} of itself; the solution is "
                                          "{:.0e} from that everywhere",
                                          factor, error));

  // A disc of a better conductor; heat is let in at random.
  const Array truth = filled([&](double x, double y) {
    const double cx = x - double(n) / 2, cy = y - double(n) / 3;
    return cx * cx + cy * cy < double(n * n) / 20 ? 0.9 : 0.3;
  });
  const auto experiments = [&](Tensor d) {
    const Tensor u = random_normal(3, {4, n, n}, {.dtype = DType::f64});
    return std::pair{u, vmap(forward, {.in_axes = {0, not_batched}})(u, d)};
  };
  const auto [before, later] = zoo::run_once(o.mesh, experiments, truth);
  const auto loss = [&](Tensor log_d, Tensor u, Tensor seen) {
    const Tensor found = vmap(forward, {.in_axes = {0, not_batched}})(u, exp(log_d));
    return 1e3 * mean(square(found - seen));
  };
  const auto data = std::tuple{before, later};
  const Array found = zoo::train(
      o.mesh, Array::full(plate, std::log(0.5)), loss, [&](int64_t) { return data; },
      o.steps_or(800, 80), 0.1);
  double worst = 0;
  for (int64_t i = 0; i < n * n; ++i)
    worst = std::max(worst, std::abs(std::exp(found.at(i)) / truth.at(i) - 1));
  report.number("loss", zoo::run_once(o.mesh, loss, found, before, later).item());
  report.claim(
      worst < (o.small ? 0.2 : 0.05),
      fmt::format("the conductivity found is within {:.2f} % of the true one in all of {} cells",
                  100 * worst, n * n));

  const auto step = compile(grad(loss), {.mesh = o.mesh, .prepare = false}, found, before, later);
  int64_t halos = 0, others = 0;
  for (const CollectiveStats& c : step.stats().collectives)
    (c.kind == "collective-permute" ? halos : others) += c.count;
  report.claim(
      others == 0 && (halos > 0) == (o.mesh.num_devices() > 1),
      fmt::format("the gradient sends borders to neighbours in {} permutes, nothing else", halos));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 1e-4); }
