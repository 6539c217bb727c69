// Derivatives of every op against central finite differences in f64 and c128, on the samples.

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <map>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "gspmd/passes/differentiate/differentiate.h"
#include "ops/samples.h"

namespace gspmd::testing::conformance_gradient_test {
namespace {

// Ops whose samples are not differentiated, and why.
const std::map<Opcode, const char*> kWithout = {
    {Opcode::parameter, "no operands"},
    {Opcode::constant, "no operands"},
    {Opcode::iota, "no operands"},
    {Opcode::partition_id, "no operands"},
    {Opcode::replica_id, "no operands"},
    {Opcode::after_all, "a token"},
    {Opcode::and_, "integers"},
    {Opcode::or_, "integers"},
    {Opcode::xor_, "integers"},
    {Opcode::not_, "integers"},
    {Opcode::shift_left, "integers"},
    {Opcode::shift_right_arithmetic, "integers"},
    {Opcode::shift_right_logical, "integers"},
    {Opcode::mulhi, "integers"},
    {Opcode::popcnt, "integers"},
    {Opcode::count_leading_zeros, "integers"},
    {Opcode::compare, "the result is pred"},
    {Opcode::is_finite, "the result is pred"},
    {Opcode::get_dimension_size, "the result is an integer"},
    {Opcode::rng_bit_generator, "integers"},
    {Opcode::rng_get_and_update_state, "integers"},
    {Opcode::rng, "what is drawn is constant by definition"},
    {Opcode::reduce_precision, "as if it were not rounded, which differences show"},
    {Opcode::stochastic_convert, "as if it were not rounded, which differences show"},
    {Opcode::bitcast_convert, "bits; an error between different types"},
    {Opcode::all_reduce, "between devices: regions_test.cpp"},
    {Opcode::all_gather, "between devices: regions_test.cpp"},
    {Opcode::reduce_scatter, "between devices: regions_test.cpp"},
    {Opcode::all_to_all, "between devices: regions_test.cpp"},
    {Opcode::collective_permute, "between devices: regions_test.cpp"},
    {Opcode::collective_broadcast, "between devices: regions_test.cpp"},
    {Opcode::ragged_all_to_all, "an error: per-device programs only"},
    {Opcode::all_reduce_start, "an error: per-device programs only"},
    {Opcode::all_reduce_done, "an error: per-device programs only"},
    {Opcode::all_gather_start, "an error: per-device programs only"},
    {Opcode::all_gather_done, "an error: per-device programs only"},
    {Opcode::collective_permute_start, "an error: per-device programs only"},
    {Opcode::collective_permute_done, "an error: per-device programs only"},
    {Opcode::async_start, "an error: joined after traces"},
    {Opcode::async_update, "an error: joined after traces"},
    {Opcode::async_done, "an error: joined after traces"},
    {Opcode::infeed, "an error: the host's"},
    {Opcode::outfeed, "an error: the host's"},
    {Opcode::send, "an error: the host's"},
    {Opcode::send_done, "an error: the host's"},
    {Opcode::recv, "an error: the host's"},
    {Opcode::recv_done, "an error: the host's"},
};
// Samples of other ops that are left out, and why.
const std::map<std::string, const char*> kLeftOut = {
    {"LAPACK of a batch", "calls of libraries have none: JAX hands over what it differentiated"},
    {"reduce-window, any computation", "its combiner is not associative: the order is open"},
};

// Forms that no sample has with f32 or c64 operands.
const std::vector<Sample> kMore = {
    {Opcode::get_tuple_element, "element of a tuple",
     "a = f32[3] parameter(0)\nt = (f32[3], f32[3]) tuple(a, a)\n"
     "ROOT r = f32[3] get-tuple-element(t), index=1"},
    {Opcode::convert, "to complex", "a = f32[3] parameter(0)\nROOT r = c64[3] convert(a)"},
    {Opcode::convert, "to real", "a = c64[3] parameter(0)\nROOT r = f32[3] convert(a)"},
    {Opcode::round_nearest_even, "round",
     "a = f32[3] parameter(0)\nROOT r = f32[3] round-nearest-even(a)"},
    {Opcode::sinh, "sinh", "a = f32[3] parameter(0)\nROOT r = f32[3] sinh(a)"},
    {Opcode::sinh, "complex sinh", "a = c64[3] parameter(0)\nROOT r = c64[3] sinh(a)", -1, 1},
    {Opcode::while_, "loop of ten steps",
     "i = s32[] constant(0)\na = f32[3,4] parameter(0)\nt = (s32[], f32[3,4]) tuple(i, a)\n"
     "w = (s32[], f32[3,4]) while(t), condition=below_ten, body=next\n"
     "ROOT r = f32[3,4] get-tuple-element(w), index=1"},
    {Opcode::reduce, "product of zeros and others",
     "a = f32[3,7] parameter(0)\nf = f32[3,7] floor(a)\nk = f32[3,7] multiply(a, f)\n"
     "z = f32[] parameter(1)\nROOT r = f32[3] reduce(k, z), dimensions={1}, to_apply=product",
     -1.5, 2.5},
    {Opcode::reduce, "maximum with a computed initial value",
     "a = f32[4,5] parameter(0)\nz = f32[] parameter(1)\n"
     "ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=most"},
    {Opcode::reduce, "largest and its place",
     "a = f32[4,5] parameter(0)\ni = s32[4,5] iota(), iota_dimension=1\n"
     "z = f32[] constant(-inf)\nn = s32[] constant(0)\n"
     "ROOT r = (f32[4], s32[4]) reduce(a, i, z, n), dimensions={1}, to_apply=largest_at"},
    {Opcode::reduce_window, "running product",
     "a = f32[6,3] parameter(0)\nz = f32[] constant(1)\nROOT r = f32[6,3] reduce-window(a, z), "
     "window={size=6x1 pad=5_0x0_0}, to_apply=product"},
    {Opcode::reduce_window, "running maximum",
     "a = f32[2,7] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[2,7] reduce-window(a, z), "
     "window={size=1x7 pad=0_0x6_0}, to_apply=most"},
    {Opcode::reduce_window, "pooling that starts at a number",
     "a = f32[5,6] parameter(0)\nz = f32[] constant(0.5)\nROOT r = f32[3,3] reduce-window(a, z), "
     "window={size=2x2 stride=2x2 pad=1_0x0_0}, to_apply=most"},
    {Opcode::reduce_window, "sum with strides, holes and cut edges",
     "a = f32[5,6] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[4,2] reduce-window(a, z), "
     "window={size=2x3 stride=2x1 pad=1_0x-1_1 lhs_dilate=2x1 rhs_dilate=3x2}, to_apply=sum"},
    {Opcode::scatter, "product of repeated updates",
     "a = f32[6] parameter(0)\ni = s32[4,1] constant({{1},{4},{1},{9}})\n"
     "u = f32[4] parameter(1)\nROOT r = f32[6] scatter(a, i, u), update_window_dims={}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=product"},
    {Opcode::scatter, "product of unique updates",
     "a = f32[6] parameter(0)\ni = s32[3,1] constant({{1},{4},{9}})\n"
     "u = f32[3] parameter(1)\nROOT r = f32[6] scatter(a, i, u), update_window_dims={}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "unique_indices=true, to_apply=product"},
    {Opcode::scatter, "the last of repeated updates",
     "a = f32[6,2] parameter(0)\ni = s32[4,1] constant({{1},{4},{1},{9}})\n"
     "u = f32[4,2] parameter(1)\nROOT r = f32[6,2] scatter(a, i, u), update_window_dims={1}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=second"},
    {Opcode::custom_call, "TopK",
     "a = f32[3,7] parameter(0)\nROOT r = (f32[3,2], s32[3,2]) custom-call(a), "
     "custom_call_target=\"TopK\""},
};

// The sample with twice the digits: every f32 an f64, every c64 a c128.
std::string in_f64(std::string text) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replace("f32", "f64");
  replace("c64", "c128");
  return text;
}

bool is_inexact(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

bool all_in_f64(const Module& module) {
  for (const std::unique_ptr<Node>& node : module.entry()->nodes())
    for (const Shape& leaf : leaf_shapes(node->shape))
      if (is_inexact(leaf.dtype) && leaf.dtype != DType::f64 && leaf.dtype != DType::c128)
        return false;
  return true;
}

using Number = std::complex<double>;

Number number_at(const Array& array, int64_t i) {
  return is_complex(array.dtype()) ? array.data<Number>()[static_cast<size_t>(i)]
                                   : Number(array.at(i));
}

void set_number(const Array& array, int64_t i, Number value) {
  if (is_complex(array.dtype()))
    array.data<Number>()[static_cast<size_t>(i)] = value;
  else
    array.data<double>()[static_cast<size_t>(i)] = value.real();
}

// Re(sum of a * b) over arrays.
double paired(const std::vector<Array>& a, const std::vector<Array>& b) {
  double sum = 0;
  for (size_t l = 0; l < a.size(); ++l)
    for (int64_t i = 0; i < a[l].size(); ++i)
      sum += (number_at(a[l], i) * number_at(b[l], i)).real();
  return sum;
}

// Makes matrices positive definite.
void raise_diagonals(const Array& matrices) {
  const int64_t n = matrices.dims().back();
  for (int64_t i = 0; i < matrices.size(); ++i)
    if (i / n % n == i % n) set_number(matrices, i, number_at(matrices, i) + Number(8. * n));
}

std::vector<Array> random_arrays(const std::vector<Node*>& like, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Array> arrays;
  for (const Node* node : like) {
    arrays.emplace_back(node->shape);
    for (int64_t i = 0; i < arrays.back().size(); ++i)
      set_number(arrays.back(), i, {uniform(random), uniform(random)});
  }
  return arrays;
}

std::vector<Node*> constants(Computation& c, const std::vector<Array>& arrays) {
  std::vector<Node*> nodes;
  for (const Array& array : arrays) nodes.push_back(hlo::constant(c, array));
  return nodes;
}

// A sample's entry with what derivatives are taken of and by.
struct Program {
  explicit Program(const Module& module) : copy(module.clone()), c(*copy->entry()) {
    for (Node* leaf : hlo::leaves(c.root()))
      if (is_inexact(leaf->shape.dtype)) results.push_back(leaf);
    for (Node* parameter : c.parameters())
      if (!parameter->shape.is_tuple && is_inexact(parameter->shape.dtype))
        inputs.push_back(parameter);
  }
  std::vector<Array> run(const std::vector<Node*>& wanted, const std::vector<Value>& arguments) {
    c.set_root(hlo::tuple(c, wanted));
    c.sort();
    copy->sort_computations();
    verify_module(*copy);
    return leaves(evaluate(*copy, arguments));
  }
  std::unique_ptr<Module> copy;
  Computation& c;
  std::vector<Node*> results, inputs;
};

// What the gradients by `inputs` of Re(sum of weights * `values`) are, values being computed anew.
template <class F>
void check_differences(const Program& program, const std::vector<Value>& arguments,
                       const std::vector<Array>& gradients, double tolerance, F&& value) {
  constexpr double kStep = 1e-5;
  constexpr int64_t kMost = 48;  // elements of one array, spread over it
  for (size_t n = 0; n < gradients.size(); ++n) {
    const auto p = static_cast<size_t>(program.inputs[n]->attrs.index);
    for (int64_t i = 0; i < gradients[n].size(); i += ceil_div(gradients[n].size(), kMost)) {
      const auto slope = [&](Number step) {
        double sides[2];
        for (const int side : {0, 1}) {
          std::vector<Value> moved = arguments;
          moved[p].array = arguments[p].array.clone();
          set_number(moved[p].array, i,
                     number_at(arguments[p].array, i) + (side == 0 ? -step : step));
          sides[side] = value(moved);
        }
        return (sides[1] - sides[0]) / (2 * kStep);
      };
      INFO("parameter " << p << " element " << i);
      const Number found = number_at(gradients[n], i);
      CHECK(found.real() == Approx(slope({kStep, 0})).epsilon(tolerance).margin(tolerance));
      if (!is_complex(gradients[n].dtype())) continue;
      CHECK(found.imag() == Approx(-slope({0, kStep})).epsilon(tolerance).margin(tolerance));
    }
  }
}

// Reverse mode against differences, forward mode against reverse mode, and the gradient of the
// gradient along a direction against differences of the gradient. Whether there was anything to
// differentiate.
bool check_derivatives(const Module& module, const std::vector<Value>& arguments) {
  Program first(module);
  if (first.results.empty() || first.inputs.empty()) return false;
  const std::vector<Array> weights = random_arrays(first.results, 7);
  const std::vector<Array> directions = random_arrays(first.inputs, 8);
  const auto gradients_of = [&](Program& program) {
    return pull_back(program.results, constants(program.c, weights), program.inputs);
  };
  const std::vector<Array> gradients = first.run(gradients_of(first), arguments);
  Program plain(module);
  check_differences(plain, arguments, gradients, 1e-6, [&](const std::vector<Value>& moved) {
    return paired(plain.run(plain.results, moved), weights);
  });
  Program forward(module);
  const std::vector<Node*> tangents =
      push_forward(forward.results, forward.inputs, constants(forward.c, directions));
  CHECK(paired(forward.run(tangents, arguments), weights) ==
        Approx(paired(gradients, directions)).epsilon(1e-9).margin(1e-9));
  Program second(module);
  const std::vector<Node*> once = gradients_of(second);
  const std::vector<Node*> twice = pull_back(once, constants(second.c, directions), second.inputs);
  INFO("second derivatives");
  check_differences(plain, arguments, second.run(twice, arguments), 1e-5,
                    [&](const std::vector<Value>& moved) {
                      return paired(first.run(first.c.root()->operands(), moved), directions);
                    });
  return true;
}

}  // namespace

TEST_CASE("derivatives of every op agree with differences in f64 and c128", "[conformance]") {
  std::set<Opcode> checked;
  std::vector<Sample> all = samples();
  all.insert(all.end(), kMore.begin(), kMore.end());
  for (const Sample& sample : all) {
    if (sample.devices > 1 || kWithout.count(sample.opcode) != 0 ||
        kLeftOut.count(sample.name) != 0)
      continue;
    INFO(sample.name);
    const std::unique_ptr<Module> module =
        parse_module(in_f64(with_entry(sample.body)), sample.name);
    if (!all_in_f64(*module)) continue;
    const std::vector<Value> arguments = sample_arguments(sample, *module, Values::uniform, 3);
    if (sample.opcode == Opcode::cholesky) raise_diagonals(arguments[0].array);
    std::string message;
    try {
      if (check_derivatives(*module, arguments)) checked.insert(sample.opcode);
    } catch (const UserError& error) {
      message = error.what();
    }
    INFO(message);
    CHECK(message.empty());
  }
  // A rule that no sample could check is one that nobody has seen right.
  for (int64_t i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(opcode_name(opcode));
    CHECK((checked.count(opcode) == 1) != (kWithout.count(opcode) == 1));
  }
}

TEST_CASE("ties share a cotangent, and a bound takes what it cut off") {
  const auto gradient = [](const std::string& body, size_t operand) {
    const std::unique_ptr<Module> module = parse_module(with_entry(body));
    Computation& c = *module->entry();
    Node* const node = c.root();
    Node* const ones = hlo::splat(c, node->shape, 1);
    c.set_root(node->op().gradient(*node, ones)[operand]);
    return evaluate(*module, {}).array;
  };
  const auto same = [](const Array& array, const std::vector<float>& values) {
    return bitwise_equal(array, Array::of<float>(array.dims(), values));
  };
  const std::string most =
      "a = f32[5] constant({3,1,3,3,2})\nz = f32[] constant(-inf)\nROOT r = f32[] reduce(a, z), "
      "dimensions={0}, to_apply=most";
  CHECK(same(gradient(most, 0), {1.0f / 3, 0, 1.0f / 3, 1.0f / 3, 0}));
  const std::string maximum =
      "a = f32[3] constant({1,2,3})\nb = f32[3] constant({2,2,2})\nROOT r = f32[3] maximum(a, b)";
  CHECK(same(gradient(maximum, 0), {0, 0.5, 1}));
  CHECK(same(gradient(maximum, 1), {1, 0.5, 0}));
  const std::string clamp =
      "l = f32[] constant(1)\nx = f32[4] constant({0,1,2,5})\nh = f32[] constant(2)\nROOT r = "
      "f32[4] clamp(l, x, h)";
  CHECK(same(gradient(clamp, 0), {1}));
  CHECK(same(gradient(clamp, 1), {0, 1, 1, 0}));
  CHECK(same(gradient(clamp, 2), {1}));
  const std::string power =
      "a = f32[3] constant({0,0,2})\nb = f32[3] constant({0,3,3})\nROOT r = f32[3] power(a, b)";
  CHECK(same(gradient(power, 0), {0, 0, 12}));
}

TEST_CASE("gradients that do not exist are errors that say why") {
  const auto gradient = [](const std::string& body) {
    const std::unique_ptr<Module> module = parse_module(with_entry(body));
    Node* const node = module->entry()->root();
    if (node->op().leaf_gradient != nullptr)
      node->op().leaf_gradient(*node, {node});
    else
      node->op().gradient(*node, node);
  };
  CHECK_THROWS_WITH(gradient("a = f32[3] parameter(0)\n"
                             "ROOT r = bf16[3,2] bitcast-convert(a)"),
                    Catch::Contains("bitcast-convert: \"r\" has no gradient: it reads the bits"));
  CHECK_THROWS_WITH(gradient("a = f32[3] parameter(0)\n"
                             "ROOT r = f32[3] custom-call(a), custom_call_target=\"Mystery\""),
                    Catch::Contains("custom-call: \"r\" has no gradient: target \"Mystery\""));
}

}  // namespace gspmd::testing::conformance_gradient_test
