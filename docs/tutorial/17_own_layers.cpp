//! # 17. Layers and operations of your own
//!
//! A layer is a struct of parameters and a function. When a derivative should be another than that
//! of the code, you write it down. When the code itself should be another, a kernel of yours, you
//! register an operation, and the library treats it as its own.

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 2}, {"model", 2}};

//! ## A layer is a struct
//!
//! `T` is `Array` on the host and `Tensor` in a trace. `GSPMD_FIELDS` lists the parameters: that is
//! all that gradients, optimizers, checkpoints and `compile` need. Layers are members of layers.

template <class T>
struct Gated {  // y = x + (sigmoid(x gate) * (x value)) out
  T gate, value, out;
  GSPMD_FIELDS(gate, value, out)

  Tensor operator()(Tensor x) const {
    const Tensor open = sigmoid(einsum("bm,mh->bh", x, mesh_split(gate, mesh, {_, "model"})));
    return x + einsum("bh,hm->bm", open * einsum("bm,mh->bh", x, value), out);
  }
};

template <class T>
struct Network {
  std::vector<Gated<T>> layers;
  T head;
  GSPMD_FIELDS(layers, head)

  Tensor operator()(Tensor x) const {
    x = mesh_split(x, mesh, {"data", _});
    for (const Gated<T>& layer : layers) x = layer(x);
    return einsum("bm,m->b", x, head);
  }
};

Array weights(Dims dims, int stream) {
  return random_normal_array({DType::f64, std::move(dims)}, 1, stream);
}

Network<Array> network() {
  Network<Array> net;
  for (int i = 0; i < 2; ++i)
    net.layers.push_back(
        {weights({6, 5}, 4 * i), weights({6, 5}, 4 * i + 1), weights({5, 6}, 4 * i + 2)});
  net.head = weights({6}, 9);
  return net;
}

void a_layer_is_a_struct() {
  const Array x = weights({7, 6}, 20);
  const auto loss = [](Network<Tensor> net, Tensor t) { return mean(square(net(t))); };
  const auto step = compile(value_and_grad(loss), {.mesh = mesh}, network(), x);
  const auto [value, grads] = step(network(), x);
  CHECK(grads.layers[1].gate.dims() == Dims{6, 5});
  const auto& traced = step.traced();
  show(fmt::format("{}, {}", traced.arguments()[0].path, traced.arguments()[5].path));
}

//! ## A derivative of your own
//!
//! Rounding has the derivative 0, with which nothing trains. A *straight-through estimator* rounds
//! forward and passes the cotangent on as it is. `custom_vjp` takes the function, a forward that
//! also returns what backward needs, and backward.

void straight_through() {
  const auto rounded = custom_vjp([](Tensor x) { return round(x); },
                                  [](Tensor x) {
                                    return std::pair{round(x), Nothing{}};
                                  },
                                  [](Nothing, Tensor cotangent) { return cotangent; });
  const auto of_code = [](Tensor x) { return grad([](Tensor t) { return sum(round(t)); })(x); };
  const auto of_mine = [&](Tensor x) { return grad([&](Tensor t) { return sum(rounded(t)); })(x); };
  const Array x = Array::of<double>({2}, {0.4, 1.7});
  CHECK(bitwise_equal(reference_results(of_code, x)[0], Array::of<double>({2}, {0, 0})));
  CHECK(bitwise_equal(reference_results(of_mine, x)[0], Array::of<double>({2}, {1, 1})));
}

//! ## An operation of your own
//!
//! Say that you have a kernel for x exp(-rate), with a rate for each row. `register_op` makes it
//! known by a name. Four things are said of it:
//!
//! * `infer`: the shapes of the results.
//! * `loops`: one letter for each dim. `bi,b->bi` says that rows and columns may be cut at will,
//! and
//!   that rates go with the rows. Completion, partitioning and costs follow from these letters. A
//!   letter without a result, as `i` in `bi,ij->bj`, is summed over devices; one in `whole` is
//!   not cut.
//! * `reference`: the values, on whole arrays. A fast `kernel` may stand beside it.
//! * `gradient`: cotangents, by functions on tensors.

std::vector<Array> decayed(const std::vector<Array>& operands, const std::string&) {
  Array y = operands[0].clone();
  const int64_t columns = y.dims()[1];
  for (int64_t e = 0; e < y.size(); ++e) y.set(e, y.at(e) * std::exp(-operands[1].at(e / columns)));
  return {y};
}

std::vector<Tensor> decay_gradient(const CustomCotangents& given) {
  const Tensor &rate = given.operands[1], &y = given.results[0], &c = given.cotangents[0];
  return {c * expand_dims(exp(-rate), 1), -sum(c * y, {.axes = 1})};
}

CustomOp decay() {
  return {.name = "lesson.decay",
          .infer = [](const auto& operands, const auto&) { return std::vector{operands.at(0)}; },
          .loops = [](const auto&, const auto&) { return CustomLoops{"bi,b->bi"}; },
          .reference = decayed,
          .gradient = decay_gradient};
}

//! It is now an operation as any other: in a program it is a `custom-call`, cut by its letters, and
//! no device sends anything for it.

void an_operation() {
  register_op(decay());
  const auto fn = [](Tensor x, Tensor rate) {
    return custom_call("lesson.decay", {mesh_split(x, mesh, {"data", "model"}), rate})[0];
  };
  const Array x = weights({6, 4}, 30), rate = weights({6}, 31);
  const auto program = compile(fn, {.mesh = mesh}, x, rate);
  CHECK(expect_collectives(program, {}));
  const std::string text = program.text();
  const size_t at = text.find("custom-call(");
  show(text.substr(text.rfind('\n', at) + 1, text.find('\n', at) - text.rfind('\n', at) - 1));
  CHECK(expect_close({program(x, rate)}, decayed({x, rate}, ""), {1e-12, 1e-12}));
}

//! ## Whether it is right
//!
//! `expect_custom_op` holds an operation against what it says of itself: every way to cut operands
//! and results over small meshes, uneven ones too, its kernel, its gradient against central
//! differences, a batch, and what it is after it was printed and read. Here somebody has forgotten
//! that a mean over `i` is not a sum of the means of parts:

void whether_it_is_right() {
  CHECK(expect_custom_op("lesson.decay", {weights({3, 5}, 40), weights({3}, 41)}));

  CustomOp mean_of_rows = decay();
  mean_of_rows.name = "lesson.mean";
  mean_of_rows.infer = [](const auto& operands, const auto&) {
    return std::vector{Shape(operands.at(0).dtype, {operands[0].dims.at(0)})};
  };
  mean_of_rows.loops = [](const auto&, const auto&) { return CustomLoops{"bi->b"}; };
  mean_of_rows.reference = [](const std::vector<Array>& x, const std::string&) {
    const int64_t rows = x[0].dims()[0], columns = x[0].dims()[1];
    Array y(Shape(x[0].dtype(), {rows}));
    for (int64_t e = 0; e < x[0].size(); ++e)
      y.set(e / columns, y.at(e / columns) + x[0].at(e) / double(columns));
    return std::vector{y};
  };
  mean_of_rows.gradient = {};
  register_op(mean_of_rows);
  const Expectation wrong = expect_custom_op("lesson.mean", {Array::full({DType::f64, {2, 4}}, 1)});
  CHECK(!wrong);
  show(wrong.message);
}

int main() {
  a_layer_is_a_struct();
  straight_through();
  an_operation();
  whether_it_is_right();
}
