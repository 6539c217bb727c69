// Model-agnostic meta-learning of sinusoids (Finn et al. 2017): weights from which one step of
// gradient descent on ten points of a new sine is a good fit of it. The loss of a task contains a
// gradient, so that training takes gradients of gradients; tasks are a batch by vmap, split over
// the mesh.
#include <random>

#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

constexpr double kInnerRate = 0.05;

template <class T>
struct Mlp {
  T w1, b1, w2, b2, w3, b3;
  GSPMD_FIELDS(w1, b1, w2, b2, w3, b3)
};

template <class T>
struct Task {
  T x, y;            // k: points to learn from
  T held_x, held_y;  // k: points to be tested on
  GSPMD_FIELDS(x, y, held_x, held_y)
};

Tensor loss(const Mlp<Tensor>& p, Tensor x, Tensor y) {
  const Tensor h = tanh(matmul(tanh(matmul(x(all, newaxis), p.w1) + p.b1), p.w2) + p.b2);
  return mean(square(matmul(h, p.w3)(all, 0) + p.b3 - y));
}

// The weights after one step on the task's points.
Mlp<Tensor> adapted(const Mlp<Tensor>& p, const Task<Tensor>& task) {
  const Mlp<Tensor> g = grad(loss)(p, task.x, task.y);
  return map_leaves([](const Tensor& w, const Tensor& d) { return w - kInnerRate * d; }, p, g);
}

// {mean loss of all tasks after the step, before it}; tasks have one more dim.
auto meta_loss(const Mesh& mesh, const Mlp<Tensor>& p, const Task<Tensor>& tasks) {
  const auto both = [&](Task<Tensor> task) {
    task.x = mesh_split(task.x, mesh, {_});  // a point of all tasks: over `data` by the batch
    return std::pair{loss(adapted(p, task), task.held_x, task.held_y),
                     loss(p, task.held_x, task.held_y)};
  };
  const auto [after, before] = vmap(both, {.mesh_axis = "data"})(tasks);
  return std::pair{mean(after), mean(before)};
}

// Sines of amplitudes 0.1 to 5 and phases 0 to pi, as in the paper.
Task<Array> sines(DType dtype, int64_t tasks, unsigned seed) {
  std::mt19937 random(seed);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  const int64_t points = 10;
  const Shape shape(dtype, {tasks, points});
  Task<Array> task{Array(shape), Array(shape), Array(shape), Array(shape)};
  for (int64_t t = 0; t < tasks; ++t) {
    const double amplitude = uniform(0.1, 5), phase = uniform(0, M_PI);
    for (int64_t i = t * points; i < (t + 1) * points; ++i) {
      task.x.set(i, uniform(-5, 5));
      task.held_x.set(i, uniform(-5, 5));
      task.y.set(i, amplitude * std::sin(task.x.at(i) - phase));
      task.held_y.set(i, amplitude * std::sin(task.held_x.at(i) - phase));
    }
  }
  return task;
}

Mlp<Array> initial(DType dtype, int64_t h) {
  const auto weights = [&](Dims dims, uint32_t seed) {
    const auto fan_in = double(dims[0]);
    Array w = random_normal_array({dtype, std::move(dims)}, seed);
    for (int64_t i = 0; i < w.size(); ++i) w.set(i, w.at(i) / std::sqrt(fan_in));
    return w;
  };
  return {weights({1, h}, 1), random_normal_array({dtype, {h}}, 4),
          weights({h, h}, 2), Array(dtype, {h}),
          weights({h, 1}, 3), Array(dtype, {})};
}

// How far the gradient of the loss after the step is from central differences, along itself.
double gradient_error(const Mesh& mesh) {
  const Task<Array> tasks = sines(DType::f64, 4, 5);
  const Mlp<Array> p = initial(DType::f64, 8);
  const auto after = [&](Mlp<Tensor> q, Task<Tensor> t) { return meta_loss(mesh, q, t).first; };
  const Mlp<Array> g = zoo::run_once(mesh, grad(after), p, tasks);
  const auto moved = [](const Mlp<Array>& from, const Mlp<Array>& along, double by) {
    return map_leaves(
        [&](const Array& w, const Array& d) {
          Array to = w.clone();
          for (int64_t i = 0; i < w.size(); ++i) to.set(i, w.at(i) + by * d.at(i));
          return to;
        },
        from, along);
  };
  const auto value = compile(after, {.mesh = mesh}, p, tasks);
  double squared = 0;
  for_each_leaf(g, [&](const std::string&, const Array& leaf) {
    for (int64_t i = 0; i < leaf.size(); ++i) squared += leaf.at(i) * leaf.at(i);
  });
  const double h = 1e-5 / std::sqrt(squared);
  const double slope = (value(moved(p, g, h), tasks).item() - value(moved(p, g, -h), tasks).item());
  return std::abs(slope / (2 * h) / squared - 1);
}

void model(const zoo::Options& o, zoo::Report& report) {
  const double error = gradient_error(o.mesh);
  report.claim(error < 1e-6, fmt::format("the gradient through the step of gradient descent "
                                         "differs by {:.1e} from central differences",
                                         error));

  const auto objective = [&](Mlp<Tensor> p, Task<Tensor> tasks) {
    return meta_loss(o.mesh, p, tasks);
  };
  const int64_t steps = o.steps_or(2000, 150);
  const Mlp<Array> trained = zoo::train(
      o.mesh, initial(DType::f32, o.small ? 16 : 40), objective,
      [&](int64_t i) { return std::tuple{sines(DType::f32, 25, unsigned(i))}; }, steps, 3e-3);
  const auto [after, before] =
      zoo::run_once(o.mesh, objective, trained, sines(DType::f32, 200, 1000000));
  report.number("loss after the step", after.item());
  report.claim(after.item() < (o.small ? 0.9 : 0.2) * before.item(),
               fmt::format("after {} steps, the loss on new sines is {:.2f} before the step and "
                           "{:.2f} after it",
                           steps, before.item(), after.item()));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 5e-2); }
