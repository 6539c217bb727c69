#pragma once

// Parts of arrays: NumPy's indexing, read and written, and reads at places that are tensors.

#include <concepts>
#include <optional>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/api/reductions.h"
#include "gspmd/base/export.h"

namespace gspmd {

struct NewAxis {};                     // a new dim of size 1
inline constexpr NewAxis newaxis{};    // x(newaxis, 0)
struct Ellipsis {};                    // all of the dims that no other index is for
inline constexpr Ellipsis ellipsis{};  // x(ellipsis, 0); at the end where it is not written

// Elements start, start + step, ... before stop, as start:stop:step in Python: negative places
// count from the end, those outside are cut off, and absent ones reach to the end.
struct Range {
  std::optional<int64_t> start = {}, stop = {};  // the first, and the first not taken
  int64_t step = 1;                              // not 0; negative: backwards
};
// x(range(1, 5, 2)) is x[1:5:2], x(range(2, {})) x[2:], x(range({}, {}, -1)) x[::-1].
inline Range range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1) {
  return {start, stop, step};
}

// One of the indices between the parentheses of x(...): a number, which drops its dim; a range or
// `all`; newaxis or ellipsis; a tensor or array of integers, as NumPy's advanced indices, where a
// number is one too: they broadcast together, and their dims come where they stand, or first where
// something stands between them. Made implicitly at the call, so it knows the user's line.
class Index {
 public:
  enum class Kind : uint8_t { number, range, new_axis, dots, places };  // which of them

  // --- Implicit, so that all of them may be written
  template <std::integral T>
  Index(T number, Site site = Site::here())
      : kind_(Kind::number), number_(static_cast<int64_t>(number)), site_(site) {}
  Index(Range range, Site site = Site::here()) : kind_(Kind::range), range_(range), site_(site) {}
  Index(All, Site site = Site::here()) : kind_(Kind::range), site_(site) {}
  Index(NewAxis, Site site = Site::here()) : kind_(Kind::new_axis), site_(site) {}
  Index(Ellipsis, Site site = Site::here()) : kind_(Kind::dots), site_(site) {}
  Index(const Tensor& places, Site site = Site::here())
      : kind_(Kind::places), places_(places, site), site_(site) {}
  Index(const Array& places, Site site = Site::here())
      : kind_(Kind::places), places_(places, site), site_(site) {}

  // --- What it is, and its value: number() of a number, range() of a range, places() of places
  Kind kind() const { return kind_; }
  int64_t number() const { return number_; }
  const Range& range() const { return range_; }
  const Operand& places() const { return places_; }
  const Site& site() const { return site_; }  // the user's line

 private:
  Kind kind_;
  int64_t number_ = 0;
  Range range_;
  Operand places_ = Operand(0, Site());
  Site site_;
};

namespace detail {
GSPMD_API Tensor indexed(const Tensor& x, std::vector<Index> indices, Site site);
}  // namespace detail

template <class... More>
Tensor Tensor::operator()(const Index& first, const More&... more) const {
  return detail::indexed(*this, {first, Index(more, first.site())...}, first.site());
}

// A part of x, to be read or replaced: at(x, 0).set(1.) is x with ones in row 0, as x.at[0].set(1.)
// in JAX. Values broadcast to the part. Places outside are clamped in reads and left out in writes;
// of equal places in one write, set() takes any, the others take all.
class GSPMD_API At {
 public:
  // What at() makes.
  At(Operand x, std::vector<Index> indices);

  Tensor get() const;  // as x(...)
  // --- All of x, where the part is what the function's name says of it and the value
  Tensor set(Operand value) const;
  Tensor add(Operand value) const;
  Tensor subtract(Operand value) const;
  Tensor multiply(Operand value) const;
  Tensor divide(Operand value) const;
  Tensor min(Operand value) const;
  Tensor max(Operand value) const;

 private:
  Operand x_;
  std::vector<Index> indices_;
};
// The part of x at the indices, which are as those of x(...).
template <class... Indices>
At at(Operand x, const Indices&... indices) {
  const Site site = x.site();
  return At(std::move(x), {Index(indices, site)...});
}

// Which dim take() reads along.
struct TakeOptions {
  int64_t axis = 0;  // the dim that the indices' dims replace
};
// The slices at `indices` along a dim: [v,m], [b,s] -> [b,s,m]. Indices outside are clamped,
// negative ones too.
GSPMD_API Tensor take(Operand x, Operand indices, const TakeOptions& options = {});
// Element (i, ..., indices[i, ..., k], ..., j): as many dims as x, which broadcast but for `axis`.
// Negative indices count from the end; those outside are clamped.
GSPMD_API Tensor take_along_axis(Operand x, Operand indices, int64_t axis = -1);

// The part of these sizes at `starts`, integer scalars, moved so that it lies inside.
GSPMD_API Tensor dynamic_slice(Operand x, std::vector<Operand> starts, Dims sizes);
// x with `update` in the place of the part of its size at `starts`, moved so that it lies inside.
GSPMD_API Tensor dynamic_update_slice(Operand x, Operand update, std::vector<Operand> starts);

}  // namespace gspmd
