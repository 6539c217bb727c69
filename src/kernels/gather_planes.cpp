// Rows of features and taps of images whose positions are contiguous. What a tap reads for the
// positions of a vector is found once for all features: mostly neighbours, of which those outside
// of the image are masked out, else (strides, the end of a line) elements here and there.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather_planes.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include "kernels/convolution_planes.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
constexpr size_t kMostLanes = HWY_MAX_BYTES / sizeof(float);

// The columns of a vector: where tap 0 reads along each axis, and how far the image is from that of
// the first one. Columns behind the end of a block read before every image.
struct Places {
  alignas(64) int32_t at[kDirectAxes][kMostLanes];
  alignas(64) int32_t image[kMostLanes];
  int64_t first_image = 0;
};

constexpr int32_t kOutside = -(int32_t{1} << 30);

void find_places(const Planes& e, int64_t column, int64_t count, Places& places) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  const int64_t positions = e.positions();
  int64_t image = column / positions, rest = column % positions;
  places.first_image = image;
  int64_t index[kDirectAxes];
  for (size_t a = kDirectAxes; a-- > 0; rest /= e.axes[a].positions)
    index[a] = rest % e.axes[a].positions;
  for (int64_t l = 0; l < lanes; ++l) {
    places.image[l] = static_cast<int32_t>((image - places.first_image) * e.x_image);
    for (size_t a = 0; a < kDirectAxes; ++a)
      places.at[a][l] = static_cast<int32_t>(index[a] * e.axes[a].stride - e.axes[a].pad);
    if (l >= count) places.at[0][l] = kOutside;
    size_t a = kDirectAxes;
    while (a > 0 && ++index[a - 1] == e.axes[a - 1].positions) index[--a] = 0;
    if (a == 0) ++image;
  }
}

// One row of a vector's columns for each feature, `step` floats apart.
template <class Read>
GSPMD_INLINE void each_feature(const Planes& e, int64_t features, const float* x, float* to,
                               int64_t step, Read&& read) {
  const Floats d;
  for (int64_t i = 0; i < features; ++i, x += e.x_feature, to += step) hn::StoreU(read(x), d, to);
}

// What the tap reads for the columns of a vector; `x`: of the first feature.
void gather_tap(const Planes& e, const Places& places, const int64_t (&tap)[kDirectAxes],
                int64_t features, const float* x, float* to, int64_t step) {
  const Floats d;
  const Ints di;
  auto index = hn::Load(di, places.image);
  auto inside = hn::Eq(index, index);
  for (size_t a = 0; a < kDirectAxes; ++a) {
    const Planes::Axis& axis = e.axes[a];
    const auto at = hn::Add(hn::Load(di, places.at[a]),
                            hn::Set(di, static_cast<int32_t>(tap[a] * axis.dilation)));
    inside = hn::And(inside, hn::And(hn::Gt(at, hn::Set(di, -1)),
                                     hn::Lt(at, hn::Set(di, static_cast<int32_t>(axis.input)))));
    index = hn::Add(index, hn::Mul(at, hn::Set(di, static_cast<int32_t>(axis.x_step))));
  }
  const auto mask = hn::RebindMask(d, inside);
  if (hn::AllFalse(d, mask))
    return each_feature(e, features, x, to, step,
                        [&](const float*) HWY_ATTR { return hn::Zero(d); });
  // The place of lane 0 as any lane inside has it, if they all are neighbours.
  const auto origin = hn::Sub(index, hn::Iota(di, 0));
  alignas(64) int32_t origins[kMostLanes];
  hn::Store(origin, di, origins);
  const int64_t first = origins[static_cast<size_t>(hn::FindFirstTrue(d, mask))];
  const auto elsewhere = hn::Ne(origin, hn::Set(di, static_cast<int32_t>(first)));
  if (!hn::AllFalse(di, hn::And(elsewhere, inside))) {
    const auto places_inside = hn::IfThenElseZero(inside, index);
    return each_feature(e, features, x, to, step, [&](const float* p) HWY_ATTR {
      return hn::IfThenElseZero(mask, hn::GatherIndex(d, p, places_inside));
    });
  }
  if (hn::AllTrue(d, mask))
    return each_feature(e, features, x + first, to, step,
                        [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); });
  each_feature(e, features, x, to, step,
               [&](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p + first); });
}

void gather(const Planes& e, const PlaneBlock& block, const float* x, const PlaneStrips& strips,
            float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  const int64_t taps = e.taps();
  Places places;
  for (int64_t c = 0; c < block.count; c += lanes) {
    find_places(e, block.first + c, block.count - c, places);
    const float* const from = x + places.first_image * e.x_image + block.feature * e.x_feature;
    float* row = to + c / strips.wide * strips.strip + c % strips.wide;
    int64_t tap[kDirectAxes];
    for (tap[0] = 0; tap[0] < e.axes[0].taps; ++tap[0])
      for (tap[1] = 0; tap[1] < e.axes[1].taps; ++tap[1])
        for (tap[2] = 0; tap[2] < e.axes[2].taps; ++tap[2], row += strips.wide)
          gather_tap(e, places, tap, block.features, from, row, taps * strips.wide);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
namespace {
HWY_EXPORT(gather);
}  // namespace

void gather_planes(const Planes& planes, const PlaneBlock& block, const float* x,
                   const PlaneStrips& strips, float* to) {
  HWY_DYNAMIC_DISPATCH(gather)(planes, block, x, strips, to);
}

}  // namespace gspmd
#endif
