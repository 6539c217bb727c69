#include "gspmd/ops/builders.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/form.h"

namespace gspmd {
namespace {

// Emits ops on values with the input's shape or with one element per feature.
class Expansion {
 public:
  explicit Expansion(Node& node) : node_(node), x_(*node.operand(0)) {
    const DType given = x_.shape.dtype;
    dtype_ = dtype_size(given) < 4 ? DType::f32 : given;
    for (int64_t d = 0; d < x_.rank(); ++d)
      if (d != node.attrs.index) {
        summed_.push_back(d);
        count_ *= static_cast<double>(x_.dim(d));
      }
  }

  Node* run() {
    std::vector<Node*> leaves = node_.is(Opcode::batch_norm_training) ? training() : grad();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const DType wanted = node_.shape.elements[i].dtype;
      if (wanted != dtype_) leaves[i] = hlo::convert(leaves[i], wanted);
    }
    return hlo::tuple(node_.parent(), std::move(leaves));
  }

  // Operands: input, scale, offset, mean, variance.
  Node* inference() {
    Node* centered = hlo::subtract(operand(0), spread(operand(3)));
    Node* factor = over_deviation(operand(1), raised(operand(4)));
    Node* out = hlo::add(hlo::multiply(centered, spread(factor)), spread(operand(2)));
    return hlo::convert(out, node_.shape.dtype);
  }

 private:
  Node* operand(int64_t i) {
    Node* x = node_.operand(i);
    return x->shape.dtype == dtype_ ? x : hlo::convert(x, dtype_);
  }
  Node* spread(Node* x) { return hlo::broadcast(x, x_.dims(), {node_.attrs.index}); }
  Node* number(double value, const Dims& dims) {
    return hlo::splat(node_.parent(), Shape(dtype_, dims), value);
  }
  Node* mean(Node* x) {
    Node* sum = hlo::reduce_sum(x, summed_);
    return hlo::divide(sum, number(count_, sum->dims()));
  }
  // Per feature: variance + epsilon.
  Node* raised(Node* variance) {
    return hlo::add(variance, number(node_.attrs.scalar->epsilon, variance->dims()));
  }
  Node* over_deviation(Node* x, Node* raised_variance) {
    return hlo::divide(x, hlo::unary(Opcode::sqrt, raised_variance));
  }

  std::vector<Node*> training() {
    Node *x = operand(0), *scale = operand(1), *offset = operand(2);
    Node* middle = mean(x);
    Node* centered = hlo::subtract(x, spread(middle));
    Node* variance = mean(hlo::multiply(centered, centered));
    Node* factor = over_deviation(scale, raised(variance));
    Node* out = hlo::add(hlo::multiply(centered, spread(factor)), spread(offset));
    return {out, middle, variance};
  }

  // Operands: input, scale, mean, variance, cotangent of the output.
  std::vector<Node*> grad() {
    Node *scale = operand(1), *cotangent = operand(4);
    Node* centered = hlo::subtract(operand(0), spread(operand(2)));
    Node* variance = raised(operand(3));
    Node* mean_cotangent = mean(cotangent);
    Node* mean_product = mean(hlo::multiply(cotangent, centered));
    Node* pull = hlo::multiply(centered, spread(hlo::divide(mean_product, variance)));
    Node* rest = hlo::subtract(hlo::subtract(cotangent, spread(mean_cotangent)), pull);
    Node* count = number(count_, mean_product->dims());
    return {hlo::multiply(rest, spread(over_deviation(scale, variance))),
            over_deviation(hlo::multiply(mean_product, count), variance),
            hlo::multiply(mean_cotangent, count)};
  }

  Node& node_;
  Node& x_;
  DType dtype_;
  Dims summed_;
  double count_ = 1;
};

}  // namespace

Node* expand_batch_norm(Node& node) {
  if (node.operand(0)->shape.elements_count() == 0) return nullptr;
  return Expansion(node).run();
}

Node* batch_norm_inference_form(Node& node) { return Expansion(node).inference(); }

}  // namespace gspmd
