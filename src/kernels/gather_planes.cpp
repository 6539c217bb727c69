// Rows of features and taps of images whose positions are contiguous. What the positions of a
// vector read is found once for all of them: neighbours mostly, every other one where the stride is
// two, elements here and there at the end of a line or an image. What is outside of the image is
// masked out.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather_planes.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.
#include <algorithm>

#include "gspmd/base/shape.h"
#include "kernels/convolution_planes.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
constexpr size_t kMostLanes = HWY_MAX_BYTES / sizeof(float);

// Whether loads leave memory alone where their mask is off; elsewhere Highway loads all of a
// vector.
constexpr bool kMasksLoads = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

constexpr int32_t kOutside = -(int32_t{1} << 30);

// How the columns of a vector lie in x: side by side, every other element, or anyhow.
enum class Lie { beside, alternate, anyhow };

// The columns of a vector: what they read at tap 0 from the image of the first one on, and, along
// each axis and for each tap, which of them read inside of their image.
struct VectorOfColumns {
  Lie lie;
  alignas(64) int32_t index[kMostLanes];
  alignas(64) int32_t inside[kDirectAxes][kMostPlaneTaps][kMostLanes];
};

// As many vectors as make a line of the cache.
constexpr int64_t kTogether = 64 / HWY_MAX_BYTES;

struct GroupOfColumns {
  int64_t first_image = 0;
  bool inside[kDirectAxes][kMostPlaneTaps];  // all of its columns
  VectorOfColumns vectors[kTogether];
};

// Where a column reads at tap 0.
struct Place {
  int64_t image;
  int64_t at[kDirectAxes];  // index of the position along each axis
};

Place place_of(const Planes& e, int64_t column) {
  Place place{column / e.positions(), {}};
  int64_t rest = column % e.positions();
  for (size_t a = kDirectAxes; a-- > 0; rest /= e.axes[a].positions)
    place.at[a] = rest % e.axes[a].positions;
  return place;
}

void step_on(const Planes& e, Place& place) {
  size_t a = kDirectAxes;
  while (a > 0 && ++place.at[a - 1] == e.axes[a - 1].positions) place.at[--a] = 0;
  if (a == 0) ++place.image;
}

Lie lie_of(const int32_t* index, int64_t lanes) {
  bool beside = true, alternate = lanes > 1;
  for (int64_t l = 1; l < lanes; ++l) {
    beside = beside && index[l] == index[0] + l;
    alternate = alternate && index[l] == index[0] + 2 * l;
  }
  return beside ? Lie::beside : alternate ? Lie::alternate : Lie::anyhow;
}

// The columns from `place` on, `count` of them; those behind are nowhere inside.
void find_columns(const Planes& e, int64_t first_image, int64_t count, Place& place,
                  VectorOfColumns& columns) {
  const Ints d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) int32_t at[kDirectAxes][kMostLanes];
  for (int64_t l = 0; l < lanes; ++l, step_on(e, place)) {
    int64_t index = (place.image - first_image) * e.x_image;
    for (size_t a = 0; a < kDirectAxes; ++a) {
      const int64_t from = place.at[a] * e.axes[a].stride - e.axes[a].pad;
      index += from * e.axes[a].x_step;
      at[a][l] = static_cast<int32_t>(l < count ? from : kOutside);
    }
    columns.index[l] = static_cast<int32_t>(index);
  }
  columns.lie = lie_of(columns.index, lanes);
  for (size_t a = 0; a < kDirectAxes; ++a) {
    const auto begin = hn::Set(d, -1), end = hn::Set(d, static_cast<int32_t>(e.axes[a].input));
    auto from = hn::Load(d, at[a]);
    const auto step = hn::Set(d, static_cast<int32_t>(e.axes[a].dilation));
    for (int64_t k = 0; k < e.axes[a].taps; ++k, from = hn::Add(from, step))
      hn::Store(hn::VecFromMask(d, hn::And(hn::Gt(from, begin), hn::Lt(from, end))), d,
                columns.inside[a][k]);
  }
}

// What lies at x + offset + index[lane] where a lane is inside, which is all ones there, and else
// zero; x itself may be read.
template <Lie kLie>
GSPMD_INLINE hn::Vec<Floats> read(const float* x, int64_t offset, const int32_t* index,
                                  hn::Vec<Ints> inside) {
  const Floats d;
  const Ints di;
  if constexpr (kMasksLoads && kLie == Lie::beside) {
    return hn::MaskedLoad(hn::RebindMask(d, hn::MaskFromVec(inside)), d, x + offset + index[0]);
#if HWY_TARGET != HWY_SCALAR
  } else if constexpr (kMasksLoads && kLie == Lie::alternate) {
    const hn::Half<Ints> half;
    const hn::RepartitionToWide<Ints> wide;
    const auto even = hn::Set(wide, int64_t{0xffffffff});
    const auto mask = [&](auto part) HWY_ATTR {
      const auto both = hn::BitCast(di, hn::And(hn::PromoteTo(wide, part), even));
      return hn::RebindMask(d, hn::MaskFromVec(both));
    };
    const float* const from = x + offset + index[0];
    const auto lower = hn::MaskedLoad(mask(hn::LowerHalf(half, inside)), d, from);
    const auto upper = hn::MaskedLoad(mask(hn::UpperHalf(half, inside)), d, from + hn::Lanes(d));
    return hn::ConcatEven(d, upper, lower);
#endif
  } else {
    const auto mask = hn::MaskFromVec(inside);
    const auto places = hn::IfThenElseZero(
        mask, hn::Add(hn::Load(di, index), hn::Set(di, static_cast<int32_t>(offset))));
    return hn::IfThenElseZero(hn::RebindMask(d, mask), hn::GatherIndex(d, x, places));
  }
}

// One row of the columns of a group. `kLie`: of all of them; kMixed: each its own.
template <Lie kLie, bool kMixed>
GSPMD_INLINE void gather_row(const GroupOfColumns& group, const int64_t (&tap)[kDirectAxes],
                             const float* x, int64_t offset, int64_t vectors, float* row) {
  const Floats d;
  const Ints di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t v = 0; v < vectors; ++v, row += lanes) {
    const VectorOfColumns& c = group.vectors[v];
    const auto inside =
        hn::And(hn::And(hn::Load(di, c.inside[0][tap[0]]), hn::Load(di, c.inside[1][tap[1]])),
                hn::Load(di, c.inside[2][tap[2]]));
    if (!kMixed || c.lie == kLie)
      hn::StoreU(read<kLie>(x, offset, c.index, inside), d, row);
    else if (c.lie == Lie::beside)
      hn::StoreU(read<Lie::beside>(x, offset, c.index, inside), d, row);
    else
      hn::StoreU(read<Lie::anyhow>(x, offset, c.index, inside), d, row);
  }
}

// The rows of features and taps, `wide` floats apart.
template <Lie kLie, bool kMixed>
void gather_rows_of(const Planes& e, const GroupOfColumns& group, int64_t features, const float* x,
                    int64_t wide, int64_t vectors, float* row) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto& axes = e.axes;
  int64_t tap[kDirectAxes];
  for (int64_t i = 0; i < features; ++i, x += e.x_feature)
    for (tap[0] = 0; tap[0] < axes[0].taps; ++tap[0])
      for (tap[1] = 0; tap[1] < axes[1].taps; ++tap[1]) {
        const bool line_inside = kLie == Lie::beside && !kMixed && vectors == kTogether &&
                                 group.inside[0][tap[0]] && group.inside[1][tap[1]];
        int64_t offset =
            tap[0] * axes[0].dilation * axes[0].x_step + tap[1] * axes[1].dilation * axes[1].x_step;
        for (tap[2] = 0; tap[2] < axes[2].taps;
             ++tap[2], offset += axes[2].dilation * axes[2].x_step, row += wide) {
          if (line_inside && group.inside[2][tap[2]]) {
            for (int64_t v = 0; v < kTogether; ++v)
              hn::StoreU(hn::LoadU(d, x + offset + group.vectors[v].index[0]), d, row + v * lanes);
          } else {
            gather_row<kLie, kMixed>(group, tap, x, offset, vectors, row);
          }
        }
      }
}

// Which taps all columns of the group read inside of their images.
void find_inside(const Planes& e, int64_t vectors, GroupOfColumns& group) {
  const Ints d;
  for (size_t a = 0; a < kDirectAxes; ++a)
    for (int64_t k = 0; k < e.axes[a].taps; ++k) {
      auto all = hn::Set(d, -1);
      for (int64_t v = 0; v < std::min(vectors, kTogether); ++v)
        all = hn::And(all, hn::Load(d, group.vectors[v].inside[a][k]));
      group.inside[a][k] = hn::AllTrue(d, hn::MaskFromVec(all));
    }
}

void gather(const Planes& e, const PlaneBlock& block, const float* x, const PlaneStrips& strips,
            float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  const int64_t step = std::min(kTogether, strips.wide / lanes) * lanes;
  GroupOfColumns group;
  for (int64_t c = 0; c < block.count; c += step) {
    Place place = place_of(e, block.first + c);
    group.first_image = place.image;
    const int64_t vectors = ceil_div(std::min(step, block.count - c), lanes);
    bool alike = true;
    for (int64_t v = 0; v < vectors; ++v) {
      find_columns(e, group.first_image, block.count - c - v * lanes, place, group.vectors[v]);
      alike = alike && group.vectors[v].lie == group.vectors[0].lie;
    }
    find_inside(e, vectors, group);
    const float* const from = x + group.first_image * e.x_image + block.feature * e.x_feature;
    float* const row = to + c / strips.wide * strips.strip + c % strips.wide;
    const auto run = !alike                                ? gather_rows_of<Lie::alternate, true>
                     : group.vectors[0].lie == Lie::beside ? gather_rows_of<Lie::beside, false>
                     : group.vectors[0].lie == Lie::alternate
                         ? gather_rows_of<Lie::alternate, false>
                         : gather_rows_of<Lie::anyhow, false>;
    run(e, group, block.features, from, strips.wide, vectors, row);
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
