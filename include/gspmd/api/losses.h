#pragma once

// Losses: how far predictions are from targets.

#include <optional>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// What becomes of the losses of the elements, or tokens.
enum class Reduction : uint8_t { mean, sum, none };

// Options of losses that need no others.
struct LossOptions {
  Reduction reduction = Reduction::mean;  // over all elements
};
// (prediction - target)^2; shapes broadcast. As torch.nn.functional's.
GSPMD_API Tensor mse_loss(Operand prediction, Operand target, const LossOptions& options = {});

// Where huber_loss() becomes a line.
struct HuberOptions {
  double delta = 1;                       // more than 0
  Reduction reduction = Reduction::mean;  // over all elements
};
// e^2 / 2 of differences e within delta, else delta * (|e| - delta / 2). As torch.nn.functional's.
GSPMD_API Tensor huber_loss(Operand prediction, Operand target, const HuberOptions& options = {});

// Weights of binary_cross_entropy_with_logits().
struct BinaryCrossEntropyOptions {
  double pos_weight = 1;                  // of targets that are 1, 0 or more
  double label_smoothing = 0;             // targets t become t (1 - s) + s / 2; 0 to 1
  Reduction reduction = Reduction::mean;  // over all elements
};
// -t log sigmoid(x) - (1 - t) log(1 - sigmoid(x)) of targets t between 0 and 1, floating, without
// overflow for any x; shapes broadcast. As torch.nn.functional's.
GSPMD_API Tensor binary_cross_entropy_with_logits(Operand logits, Operand targets,
                                                  const BinaryCrossEntropyOptions& options = {});

// What cross_entropy() adds, leaves out and returns.
struct CrossEntropyOptions {
  // Part s of the probability that is given to all classes alike: Szegedy et al. 2015; 0 to 1.
  double label_smoothing = 0;
  // Adds z_loss * logsumexp(logits)^2, which keeps logits near normalised; 0 or more. PaLM,
  // Chowdhery et al. 2022: 1e-4.
  double z_loss = 0;
  // Tokens of this label count nowhere, as those of padding.
  std::optional<int64_t> ignore_index = {};
  Reduction reduction = Reduction::mean;  // over the tokens that count; 0 where there is none
  // Ends the run with an ExecutionError where a label is no class and not ignored, as
  // debug_check(): it names the line, the device and the token.
  bool check_labels = false;
};
// -log softmax(logits)[label] of each token: logits [..., v], labels [...] integers 0, ..., v - 1;
// NaN for other labels. In f32 where the logits have 16 bits, and so is the loss. Three reductions
// over v: maximum (no gradient), sum of exponentials, the picked logit; one more with smoothing. As
// torch.nn.functional's, with classes in the last dim.
GSPMD_API Tensor cross_entropy(Operand logits, Operand labels,
                               const CrossEntropyOptions& options = {});

}  // namespace gspmd
