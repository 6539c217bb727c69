#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/normed_conv.h"

namespace gspmd::models {

// basic: two 3x3 convolutions. bottleneck: 1x1, 3x3, and 1x1 to four times the features.
enum class ResidualKind : uint8_t { basic, bottleneck };
// full: 7x7 of stride 2 and a maximum over 3x3 of stride 2. small: 3x3 of stride 1.
enum class Stem : uint8_t { full, small };

// A residual network (He et al. 2015) of images b,h,w,c. Every stage but the first halves height
// and width, rounded up, and doubles the features; a bottleneck's stride is that of its 3x3.
struct ResNetConfig {
  ResidualKind kind = ResidualKind::basic;
  std::vector<int64_t> blocks = {2, 2, 2, 2};  // of each stage
  int64_t features = 64;                       // of the stem and the first stage
  Stem stem = Stem::full;
  int64_t height = 224, width = 224, channels = 3;
  int64_t classes = 1000;
  // Parts of the batch that batch norm takes its statistics of: as many as the devices that split
  // it, or any divisor of the rows.
  int64_t norm_groups = 1;
  double norm_momentum = 0.9;
  double label_smoothing = 0;
  // Blocks begin as what they add to: the scales of their last norms are zeros (Goyal et al. 2017).
  bool identity_blocks = false;
  DType dtype = DType::f32;
};

ResNetConfig resnet18();  // 11,689,512 parameters
ResNetConfig resnet50();  // 25,557,032

// UserError: a size below 1, no stage, a dtype other than f32 and f64.
void check(const ResNetConfig& config);

template <class T>
struct ResidualParams {
  std::vector<NormedConv<T>> convs;
  std::optional<NormedConv<T>> shortcut;  // 1x1, where stride or features change
  GSPMD_FIELDS(convs, shortcut)
};

template <class T>
struct ResNetParams {
  NormedConv<T> stem;
  std::vector<std::vector<ResidualParams<T>>> stages;  // blocks of each
  Linear<T> head;                                      // features of the last stage, classes
  GSPMD_FIELDS(stem, stages, head)
};

ResNetParams<Shape> parameter_shapes(const ResNetConfig& config);

// A ResNet as a trainer sees it. A batch is `images`, [b,h,w,c] of the config's dtype, and
// `labels`, s32[b]. State: the running averages of the norms. Metric: `accuracy` of the batch.
// Evaluation, by the running averages: `loss`, nats without smoothing; `accuracy`; `top5`, the
// share of labels among the five best. Annotated by the layout: the images, what every block is
// given, the features of every parameter, the logits.
class ResNet : public Model {
 public:
  // UserError as check() and ImageSplit.
  ResNet(const ResNetConfig& config, const Mesh& mesh, const ImageLayout& layout);

  const ResNetConfig& config() const { return config_; }
  // By the statistics of the images: {logits b,classes, new running averages}.
  std::pair<Tensor, Leaves<Tensor>> train(const ResNetParams<Tensor>& params,
                                          const Leaves<Tensor>& running,
                                          const Tensor& images) const;
  // By the running averages.
  Tensor logits(const ResNetParams<Tensor>& params, const Leaves<Tensor>& running,
                const Tensor& images) const;

  Leaves<Shape> parameter_shapes() const override;
  Leaves<Array> initial_parameters(uint32_t seed) const override;
  Leaves<Shape> state_shapes() const override;
  Leaves<Array> initial_state() const override;
  Leaves<Shape> batch_shapes(int64_t rows) const override;
  Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                      const Leaves<Tensor>& batch) const override;
  Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                          const Leaves<Tensor>& batch, const Tensor& weight) const override;
  double training_flops(int64_t rows) const override;
  double kept_activations(int64_t rows) const override;

 private:
  Tensor pass(ConvolutionPass& convolve, const ResNetParams<Tensor>& params,
              const Tensor& images) const;
  BatchNormOptions norm() const;

  ResNetConfig config_;
  ImageSplit split_;
};

// A convolution of a ResNet, for counting: one image makes out_height * out_width * out numbers.
struct ConvSize {
  int64_t kernel = 1, stride = 1, in = 1, out = 1;
  int64_t height = 1, width = 1;          // of what it reads
  int64_t out_height = 1, out_width = 1;  // of what it makes
};
std::vector<ConvSize> convolution_sizes(const ResNetConfig& config);  // in order of the parameters

}  // namespace gspmd::models
