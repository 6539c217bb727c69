#include "gspmd/api/losses.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/emit.h"
#include "api/softmax.h"
#include "api/updates.h"
#include "gspmd/api/debug.h"

namespace gspmd {

using namespace detail;

namespace {

Tensor reduced(Node* losses, Reduction reduction) {
  if (reduction == Reduction::none) return tensor_of(losses);
  Node* total = sum_of_all(losses);
  if (reduction == Reduction::sum) return tensor_of(total);
  const int64_t count = std::max<int64_t>(losses->shape.elements_count(), 1);
  return tensor_of(divide(total, static_cast<double>(count)));
}

void check_part(const char* what, double value) {
  if (!(value >= 0 && value <= 1)) call_error("{} {} is wrong; give 0 to 1", what, value);
}
void check_not_negative(const char* what, double value) {
  if (!(value >= 0 && std::isfinite(value)))
    call_error("{} {} is wrong; give 0 or more, and finite", what, value);
}

Node* difference(const Operand& prediction, const Operand& target) {
  const Pair pair = broadcast_pair(prediction, target, Needs::floating);
  return subtract(pair.a, pair.b);
}

// The numbers that cross entropy and its options are made of, for each token.
struct TokenScores {
  Node* log_sum;    // log of the sum of shifted exponentials
  Node* picked;     // the label's shifted logit
  Node* max;        // what logits were shifted by
  Node* smoothing;  // mean over classes of shifted logits; nullptr without smoothing
};

TokenScores token_scores(Node* logits, Node* labels, int64_t axis, bool smoothed) {
  const Exponentials e = exponentials(logits, axis);
  // Compared with a count instead of gathered: a vocabulary that is split needs no indices of
  // others.
  Node* counts = hlo::iota(logits->parent(), Shape(labels->shape.dtype, logits->dims()), axis);
  Node* hit = hlo::compare(stretch(labels, logits->dims(), {axis}), counts, Direction::eq);
  TokenScores scores;
  scores.picked = hlo::reduce_sum(hlo::select(hit, e.shifted, splat_like(logits, 0)), {axis});
  scores.log_sum = hlo::unary(Opcode::log, e.sum);
  scores.max = e.max;
  scores.smoothing =
      smoothed ? divide(hlo::reduce_sum(e.shifted, {axis}), static_cast<double>(logits->dim(axis)))
               : nullptr;
  return scores;
}

// Ends the run where a label is none of the classes, nor the one that is ignored.
void check_classes(Node* labels, int64_t classes, const CrossEntropyOptions& options, Site site) {
  const auto binary = [](Opcode op, Node* a, Node* b) { return hlo::binary(op, a, b); };
  Node* known = binary(Opcode::and_, compare(labels, 0, Direction::ge),
                       compare(labels, static_cast<double>(classes), Direction::lt));
  if (options.ignore_index)
    known = binary(Opcode::or_, known,
                   compare(labels, static_cast<double>(*options.ignore_index), Direction::eq));
  debug_check(Operand(tensor_of(known), site),
              {fmt::format("cross_entropy: a label is not one of the {} classes, 0 to {}", classes,
                           classes - 1),
               site});
}

Node* token_losses(Node* logits, Node* labels, int64_t axis, const CrossEntropyOptions& options) {
  const double s = options.label_smoothing;
  const TokenScores scores = token_scores(logits, labels, axis, s > 0);
  Node* wanted = scores.picked;
  if (s > 0) wanted = add(multiply(wanted, 1 - s), multiply(scores.smoothing, s));
  Node* losses = subtract(scores.log_sum, wanted);
  if (options.z_loss > 0) {
    Node* z = add(scores.log_sum, scores.max);
    losses = add(losses, multiply(multiply(z, z), options.z_loss));
  }
  Node* const last = splat_like(labels, static_cast<double>(logits->dim(axis) - 1));
  Node* const inside =
      hlo::binary(Opcode::and_, hlo::compare(labels, splat_like(labels, 0), Direction::ge),
                  hlo::compare(labels, last, Direction::le));
  return hlo::select(inside, losses, splat_like(losses, std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace

Tensor mse_loss(Operand prediction, Operand target, const LossOptions& options) {
  return call("mse_loss", prediction.site(), [&] {
    Node* error = difference(prediction, target);
    return reduced(multiply(error, error), options.reduction);
  });
}

Tensor huber_loss(Operand prediction, Operand target, const HuberOptions& options) {
  return call("huber_loss", prediction.site(), [&] {
    const double delta = options.delta;
    if (!(delta > 0 && std::isfinite(delta)))
      call_error("delta {} is wrong; give a number above 0", delta);
    Node* error = difference(prediction, target);
    Node* const length = hlo::unary(Opcode::abs, error);
    Node* const line = multiply(add(length, -delta / 2), delta);
    Node* const parabola = multiply(multiply(error, error), 0.5);
    return reduced(hlo::select(compare(length, delta, Direction::le), parabola, line),
                   options.reduction);
  });
}

Tensor binary_cross_entropy_with_logits(Operand logits, Operand targets,
                                        const BinaryCrossEntropyOptions& options) {
  return call("binary_cross_entropy_with_logits", logits.site(), [&] {
    check_part("label smoothing", options.label_smoothing);
    check_not_negative("pos_weight", options.pos_weight);
    const auto [x, given] = broadcast_pair(logits, targets, Needs::floating);
    Node* t = given;
    if (options.label_smoothing > 0)
      t = add(multiply(t, 1 - options.label_smoothing), options.label_smoothing / 2);
    // log(1 + exp(-x)) is log1p(exp(-|x|)) + max(-x, 0): no power overflows. relu() has slope 0 at
    // 0, where that of the logarithm has to be 1/2: |x| is x there.
    Node* const zero = splat_like(x, 0);
    Node* const positive = hlo::compare(x, zero, Direction::ge);
    Node* const negated = hlo::unary(Opcode::negate, x);
    Node* const power = hlo::unary(Opcode::exponential, hlo::select(positive, negated, x));
    Node* const softplus =
        add(hlo::unary(Opcode::log_plus_one, power), hlo::select(positive, zero, negated));
    // (1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x))
    Node* const rest = multiply(subtract(splat_like(t, 1), t), x);
    Node* const weight =
        options.pos_weight == 1 ? nullptr : add(multiply(t, options.pos_weight - 1), 1);
    return reduced(add(rest, weight ? multiply(weight, softplus) : softplus), options.reduction);
  });
}

Tensor cross_entropy(Operand logits, Operand labels, const CrossEntropyOptions& options) {
  return call("cross_entropy", logits.site(), [&] {
    check_part("label smoothing", options.label_smoothing);
    check_not_negative("z_loss", options.z_loss);
    Node* scores = in_32_bits(node_of(logits));
    Node* wanted = node_of(labels, DType::s32);
    const int64_t axis = softmax_axis(scores, {});
    need_integer(wanted, "labels");
    if (wanted->dims() != Dims(scores->dims().begin(), scores->dims().end() - 1))
      call_error("labels {} do not fit logits {}; labels have the logits' dims without the last",
                 describe(wanted), describe(scores));
    if (options.check_labels) check_classes(wanted, scores->dim(axis), options, logits.site());
    Node* losses = token_losses(scores, wanted, axis, options);
    if (!options.ignore_index) return reduced(losses, options.reduction);
    Node* const none =
        scalar_node(static_cast<double>(*options.ignore_index), true, wanted->shape.dtype);
    Node* const counts = hlo::compare(wanted, broadcast_node(none, wanted->dims()), Direction::ne);
    losses = hlo::select(counts, losses, splat_like(losses, 0));
    if (options.reduction != Reduction::mean) return reduced(losses, options.reduction);
    Node* const number = sum_of_all(hlo::convert(counts, DType::s32));
    Node* const divisor = hlo::binary(Opcode::maximum, number, splat_like(number, 1));
    return tensor_of(divide(sum_of_all(losses), hlo::convert(divisor, losses->shape.dtype)));
  });
}

}  // namespace gspmd
