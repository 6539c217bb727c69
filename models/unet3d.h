#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/normed_conv.h"

namespace gspmd::models {

// A U-Net of volumes (Cicek et al. 2016), b,d,h,w,c to a class for each voxel. On the way down a
// level is two 3x3x3 convolutions, and a maximum over 2x2x2 leads to the next, which has twice the
// features; on the way up a convolution of 2x2x2 that doubles every dim, and two 3x3x3 convolutions
// of that beside what the level made on the way down.
struct UNet3dConfig {
  int64_t levels = 3;
  int64_t features = 8;  // of the first level
  int64_t depth = 32, height = 32, width = 32, channels = 1;
  int64_t classes = 2;  // 0 is the background
  // As those of ResNetConfig.
  int64_t norm_groups = 1;
  double norm_momentum = 0.9;
  DType dtype = DType::f32;
};

// UserError: a size below 1, fewer than 2 classes, a depth, height or width that the levels do not
// halve evenly, a dtype other than f32 and f64.
void check(const UNet3dConfig& config);

template <class T>
struct UNet3dParams {
  std::vector<std::vector<NormedConv<T>>> down;  // two of each level
  std::vector<Conv<T>> grow;                     // 2,2,2,in,out; from each level to the one above
  std::vector<std::vector<NormedConv<T>>> up;    // two of each level but the last
  Conv<T> head;                                  // 1,1,1,features,classes
  GSPMD_FIELDS(down, grow, up, head)
};

UNet3dParams<Shape> parameter_shapes(const UNet3dConfig& config);

// A U-Net as a trainer sees it. A batch is `volumes`, [b,d,h,w,c] of the config's dtype, and
// `masks`, s32[b,d,h,w]. The loss is the mean cross entropy and 1 less the Dice coefficient of the
// probabilities over the batch (Milletari et al. 2016), a mean over the classes but the background;
// metric `dice`, that coefficient. State: the running averages of the norms. Evaluation, by the
// running averages: `loss`, cross entropy in nats per voxel; `accuracy`, the share of voxels;
// `dice` of what is most probable, 2 |P and M| / (|P| + |M|), of each volume and class but the
// background, 1 where neither has a voxel. Annotated by the layout: the volumes, what every level
// is given, what every convolution makes, the features of every parameter, the masks.
class UNet3d : public Model {
 public:
  // UserError as check() and ImageSplit.
  UNet3d(const UNet3dConfig& config, const Mesh& mesh, const ImageLayout& layout);

  const UNet3dConfig& config() const { return config_; }
  // By the statistics of the volumes: {logits b,d,h,w,classes, new running averages}.
  std::pair<Tensor, Leaves<Tensor>> train(const UNet3dParams<Tensor>& params,
                                          const Leaves<Tensor>& running,
                                          const Tensor& volumes) const;
  // By the running averages.
  Tensor logits(const UNet3dParams<Tensor>& params, const Leaves<Tensor>& running,
                const Tensor& volumes) const;

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

 private:
  Tensor pass(ConvolutionPass& convolve, const UNet3dParams<Tensor>& params,
              const Tensor& volumes) const;
  Tensor grow(const Conv<Tensor>& layer, const Tensor& x) const;
  BatchNormOptions norm() const;

  UNet3dConfig config_;
  ImageSplit split_;
};

}  // namespace gspmd::models
