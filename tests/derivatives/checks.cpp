#include "derivatives/checks.h"

#include <array>

#include "api/support.h"

namespace gspmd::test {
namespace {

constexpr Tolerance kNumeric{1e-6, 2e-7};  // of central differences
constexpr Tolerance kExact{1e-9, 1e-10};   // of two ways to one number

// A scalar in which every element of fn's value has a part of its own, so that no sum or symmetry
// hides one.
TensorFunction loss_of(const TensorFunction& fn) {
  return [fn](Tensor t) {
    const Tensor y = fn(t);
    const Tensor phase = reshape(iota({DType::f64, {y.size()}}, 0) * 0.7, y.dims());
    return sum(sin(y + phase));
  };
}

// The same function as one array program, traced once and run often.
class Program {
 public:
  Program(const TensorFunction& fn, const Shape& shape) : traced_(trace(fn, shape)) {}
  Array operator()(const Array& x) const { return run_reference(traced_, {x})[0]; }

 private:
  Traced traced_;
};

Array moved(const Array& x, const Array& direction, double step) {
  Array result = x.clone();
  for (int64_t i = 0; i < x.size(); ++i) result.set(i, x.at(i) + step * direction.at(i));
  return result;
}

// (fn(x + h d) - fn(x - h d)) / 2h
Array central_difference(const Program& fn, const Array& x, const Array& direction) {
  constexpr double kStep = 1e-5;
  Array up = fn(moved(x, direction, kStep)).clone();
  const Array down = fn(moved(x, direction, -kStep));
  for (int64_t i = 0; i < up.size(); ++i) up.set(i, (up.at(i) - down.at(i)) / (2 * kStep));
  return up;
}

double inner(const Array& a, const Array& b) {
  double total = 0;
  for (int64_t i = 0; i < a.size(); ++i) total += a.at(i) * b.at(i);
  return total;
}

Array direction_of(const Array& x) { return random_array(x.shape(), 77); }

// Of a loss at x: all that is compared.
struct Derivatives {
  Array value, gradient;
  Array along;  // of the value along the direction, by forward mode
  // The derivative of the gradient along it: forward over reverse, reverse over reverse, and
  // reverse over forward mode.
  std::array<Array, 3> second;
};

// {{value, gradient}, {the value's derivative along v, the gradient's}}
auto gradient_and_along(const TensorFunction& loss, Tensor t, Tensor v) {
  return jvp(value_and_grad(loss), std::tuple{t}, std::tuple{v});
}

Derivatives derivatives(const TensorFunction& loss, const Array& x) {
  const auto all = [&](Tensor t, Tensor v) {
    const TensorFunction slope = [&](Tensor u) {
      return jvp(loss, std::tuple{u}, std::tuple{v}).second;
    };
    const TensorFunction product = [&](Tensor u) { return sum(grad(loss)(u) * v); };
    return std::tuple{gradient_and_along(loss, t, v), grad(product)(t), grad(slope)(t)};
  };
  const std::vector<Array> found = reference_results(all, x, direction_of(x));
  return {found[0], found[1], found[2], {found[3], found[4], found[5]}};
}

const char* const kSecond[] = {"forward over reverse mode", "reverse over reverse mode",
                               "reverse over forward mode"};

// The first difference of the derivatives from a value, a gradient and a second derivative.
std::string difference(const Derivatives& found, const Array& value, const Array& gradient,
                       const Array& second, const Tolerance& tolerance, const Array& direction) {
  const auto close = [](const Array& a, const Array& b, const Tolerance& t, const char* what) {
    return expect_close({a}, {b}, t, what).message;
  };
  std::string wrong = close(found.value, value, kExact, "value");
  if (wrong.empty()) wrong = close(found.gradient, gradient, tolerance, "gradient");
  const Array along = Array::of<double>({}, {inner(found.gradient, direction)});
  if (wrong.empty()) wrong = close(found.along, along, kExact, "forward mode");
  for (size_t i = 0; i < 3 && wrong.empty(); ++i)
    wrong = close(found.second[i], second, tolerance, kSecond[i]);
  return wrong;
}

// Whether `composed`, traced as it is, has the derivatives of `plain`.
std::string wrong_composed(const TensorFunction& composed, const TensorFunction& plain,
                           const Array& x) {
  const TensorFunction loss = loss_of(plain);
  const Array direction = direction_of(x);
  const auto expected = [&](Tensor t, Tensor v) { return gradient_and_along(loss, t, v); };
  const std::vector<Array> wanted = reference_results(expected, x, direction);
  return difference(derivatives(loss_of(composed), x), wanted[0], wanted[1], wanted[3], kExact,
                    direction);
}

Tensor flat(Tensor t) { return reshape(t, {t.size()}); }

constexpr int64_t kSteps = 2;

// Points near t, one for each step and element of a batch.
std::vector<Tensor> near(Tensor t) {
  std::vector<Tensor> points;
  for (int64_t i = 0; i < kSteps; ++i) points.push_back(t * (1 - 0.01 * static_cast<double>(i)));
  return points;
}

// What a step of a loop makes of its carry and slice: {the next carry, a value of both}.
std::pair<Tensor, Tensor> step(const TensorFunction& fn, Tensor carry, Tensor slice) {
  const Tensor y = fn(carry);
  return {carry * 0.99 + 0.004 * tanh(mean(y)), concatenate({flat(y), flat(fn(slice))}, 0)};
}

// --- The function in what it may be put into

TensorFunction in_scan(const TensorFunction& fn) {
  return [fn](Tensor t) {
    const auto body = [&](Tensor carry, Tensor slice) { return step(fn, carry, slice); };
    const auto [last, ys] = scan(body, t, stack(near(t)));
    return concatenate({flat(last), flat(ys)}, 0);
  };
}

TensorFunction steps_of(const TensorFunction& fn) {
  return [fn](Tensor t) {
    std::vector<Tensor> ys;
    Tensor carry = t;
    for (const Tensor& slice : near(t)) {
      const auto [next, y] = step(fn, carry, slice);
      carry = next;
      ys.push_back(y);
    }
    return concatenate({flat(carry), flat(stack(ys))}, 0);
  };
}

TensorFunction other_branch(const TensorFunction& fn) {
  return [fn](Tensor t) { return fn(t * 0.98) * 0.5; };
}

TensorFunction in_cond(const TensorFunction& fn) {
  return [fn](Tensor t) {
    const Tensor taken = cond(sum(t) > -1e6, fn, other_branch(fn), t);
    return taken + cond(sum(t) < -1e6, fn, other_branch(fn), t);
  };
}

TensorFunction in_checkpoint(const TensorFunction& fn) {
  return [fn](Tensor t) { return checkpoint(fn)(t * 1.); };
}

TensorFunction in_vmap(const TensorFunction& fn) {
  return [fn](Tensor t) { return vmap(fn)(stack(near(t))); };
}

TensorFunction elements_of(const TensorFunction& fn) {
  return [fn](Tensor t) {
    std::vector<Tensor> ys;
    for (const Tensor& element : near(t)) ys.push_back(fn(element));
    return stack(ys);
  };
}

// Whether fn has on a mesh the derivatives that it has on one device.
std::string wrong_on(const TensorFunction& fn, const Array& x, const Mesh& mesh,
                     const std::vector<DimSplit>& dims) {
  const TensorFunction loss = loss_of(fn);
  const auto derivative = [&](Tensor t, Tensor v) {
    const auto [found, along] = gradient_and_along(loss, t, v);
    return std::tuple{found.first, found.second, along.first, along.second};
  };
  const auto split = [&](Tensor t, Tensor v) {
    return derivative(dims.empty() ? t : mesh_split(t, mesh, dims), v);
  };
  const Array direction = direction_of(x);
  CompileOptions options;
  options.mesh = mesh;
  options.poison = true;
  const auto [value, gradient, along, second] = compile(split, options, x, direction)(x, direction);
  return expect_close({value, gradient, along, second}, reference_results(derivative, x, direction),
                      kExact, "on " + to_string(mesh))
      .message;
}

// Dim 0 over half of four devices, dim 1 over the other half; a vector over all of them.
std::string wrong_on_four(const TensorFunction& fn, const Case& c) {
  if (c.mesh.rank() > 0) return wrong_on(fn, c.at, c.mesh, {});
  const auto rank = static_cast<size_t>(c.at.shape().rank());
  std::vector<DimSplit> dims(rank, _);
  dims.at(0) = rank == 1 ? DimSplit{"y", "x"} : DimSplit("y");
  if (rank > 1) dims.at(1) = "x";
  return wrong_on(fn, c.at, Mesh{{"x", 2}, {"y", 2}}, dims);
}

}  // namespace

std::string wrong_alone(const Case& c) {
  const TensorFunction loss = loss_of(c.fn);
  const Program value(loss, c.at.shape());
  const Program gradient(grad(loss), c.at.shape());
  Array numeric(c.at.shape());
  for (int64_t i = 0; i < c.at.size(); ++i) {
    Array unit(c.at.shape());
    unit.set(i, 1);
    numeric.set(i, central_difference(value, c.at, unit).item());
  }
  const Array direction = direction_of(c.at);
  return difference(derivatives(loss, c.at), value(c.at), numeric,
                    central_difference(gradient, c.at, direction), kNumeric, direction);
}

std::string wrong_in_scan(const Case& c) {
  return wrong_composed(in_scan(c.fn), steps_of(c.fn), c.at);
}

std::string wrong_in_cond(const Case& c) {
  const TensorFunction other = other_branch(c.fn);
  return wrong_composed(
      in_cond(c.fn), [&](Tensor t) { return c.fn(t) + other(t); }, c.at);
}

std::string wrong_in_checkpoint(const Case& c) {
  return wrong_composed(in_checkpoint(c.fn), c.fn, c.at);
}

std::string wrong_in_vmap(const Case& c) {
  return wrong_composed(in_vmap(c.fn), elements_of(c.fn), c.at);
}

std::string wrong_on_meshes(const Case& c) {
  if (c.mesh.rank() == 0) {
    std::vector<DimSplit> dims(static_cast<size_t>(c.at.shape().rank()), _);
    dims.at(0) = "x";
    const std::string wrong = wrong_on(c.fn, c.at, Mesh{{"x", 2}}, dims);
    if (!wrong.empty()) return wrong;
  }
  return wrong_on_four(c.fn, c);
}

std::string wrong_composed_on_meshes(const Case& c) {
  for (const auto& compose : {in_scan, in_cond, in_checkpoint, in_vmap}) {
    const std::string wrong = wrong_on_four(compose(c.fn), c);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string wrong_composed_twice(const Case& c) {
  const std::array<std::array<TensorFunction, 2>, 3> inner = {{{in_scan(c.fn), steps_of(c.fn)},
                                                               {in_checkpoint(c.fn), c.fn},
                                                               {in_vmap(c.fn), elements_of(c.fn)}}};
  for (const auto& outer : {in_scan, in_cond, in_checkpoint, in_vmap})
    for (const auto& [composed, plain] : inner) {
      const std::string wrong = wrong_composed(outer(composed), outer(plain), c.at);
      if (!wrong.empty()) return wrong;
    }
  return {};
}

}  // namespace gspmd::test
