#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "gspmd/ops/builders.h"
#include "kernels/extreme_places.h"
#include "ops/common/numeric.h"
#include "ops/reduce/called_reduce.h"
#include "ops/reduce/combiner_structure.h"

namespace gspmd {
namespace {

constexpr int64_t kPlaceColumns = 1024;  // lines beside each other that are looked through at once

// Whether places grow from row to row, in each of `count` lines.
template <class T>
bool grow(const T* places, int64_t length, int64_t step, int64_t count) {
  bool all = true;
  for (int64_t k = 1; k < length && all; ++k)
    for (int64_t j = 0; j < count; ++j) all &= places[(k - 1) * step + j] < places[k * step + j];
  return all;
}

// A reduce of values and their places along one dim: lines of `length` elements, `inner` beside
// each other.
class PlaceSearch {
 public:
  PlaceSearch(const Node& node, const ExtremePlace& wanted)
      : wanted_(wanted),
        called_(node),
        value_(node.operand(0)->shape.dtype),
        place_(node.operand(1)->shape.dtype) {
    const Dims& dims = node.operand(0)->dims();
    const int64_t along = node.attrs.dimensions[0];
    for (int64_t d = 0; d < std::ssize(dims); ++d)
      (d < along ? outer_ : d == along ? length_ : inner_) *= dims[static_cast<size_t>(d)];
    const Node& places = *node.operand(1);
    grows_ = places.is(Opcode::iota) && places.attrs.index == along;
    columns_ = std::min(inner_, kPlaceColumns);
    blocks_ = (inner_ + columns_ - 1) / columns_;
  }

  int64_t units() const { return outer_ * blocks_; }
  int64_t length() const { return length_; }

  // Units `first` to `last`.
  void run(const KernelArgs& args, int64_t first, int64_t last) const {
    std::vector<int64_t> places(static_cast<size_t>(columns_));
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t outer = unit / blocks_, column = unit % blocks_ * columns_;
      const int64_t count = std::min(columns_, inner_ - column);
      const int64_t result = outer * inner_ + column, element = outer * length_ * inner_ + column;
      if (!grows_ && !places_grow(args, element, count)) {
        called_.run(args, result, result + count);
        continue;
      }
      find_extreme_places(value_, wanted_.greatest,
                          {args.operands[0] + element * dtype_size(value_), length_, count, inner_},
                          places.data());
      for (int64_t j = 0; j < count; ++j)
        if (const int64_t at = element + j + places[static_cast<size_t>(j)] * inner_;
            meets_other_zero(args, element + j, at))
          called_.run(args, result + j, result + j + 1);
        else
          put(args, result + j, at);
    }
  }

 private:
  bool places_grow(const KernelArgs& args, int64_t element, int64_t count) const {
    return visit_place([&](auto tag) {
      using T = decltype(tag);
      const T* all = reinterpret_cast<const T*>(args.operands[1]);
      return grow(all + element, length_, inner_, count);
    });
  }

  // Whether the extreme, at `at`, is a zero and one of the other sign is in its line too: which of
  // them the combiner hands on, it alone knows.
  bool meets_other_zero(const KernelArgs& args, int64_t first, int64_t at) const {
    if (!is_floating(value_)) return false;
    const int64_t size = dtype_size(value_);
    const auto bits_at = [&](int64_t element) {
      uint64_t bits = 0;
      std::memcpy(&bits, args.operands[0] + element * size, static_cast<size_t>(size));
      return bits;
    };
    const uint64_t sign = uint64_t{1} << (8 * size - 1), found = bits_at(at);
    if ((found & ~sign) != 0) return false;
    for (int64_t k = 0; k < length_; ++k)
      if (bits_at(first + k * inner_) == (found ^ sign)) return true;
    return false;
  }

  // The pair of the element, or the initial one where that comes before it.
  void put(const KernelArgs& args, int64_t result, int64_t element) const {
    const auto size = static_cast<size_t>(dtype_size(value_));
    const std::byte* value = args.operands[0] + element * dtype_size(value_);
    const bool ties = std::memcmp(value, args.operands[2], size) == 0;
    std::memcpy(args.results[0] + result * dtype_size(value_), value, size);
    visit_place([&](auto tag) {
      using T = decltype(tag);
      T place = reinterpret_cast<const T*>(args.operands[1])[element];
      const T initial = *reinterpret_cast<const T*>(args.operands[3]);
      if (ties && (initial < place || !wanted_.least_place)) place = initial;
      reinterpret_cast<T*>(args.results[1])[result] = place;
      return true;
    });
  }

  template <class F>
  bool visit_place(const F& f) const {
    switch (place_) {
      case DType::s32:
        return f(int32_t{});
      case DType::u32:
        return f(uint32_t{});
      case DType::u64:
        return f(uint64_t{});
      default:
        return f(int64_t{});
    }
  }

  ExtremePlace wanted_;
  CalledReduce called_;  // where places do not grow
  DType value_, place_;
  bool grows_ = false;  // known without looking
  int64_t outer_ = 1, length_ = 1, inner_ = 1;
  int64_t columns_ = 1, blocks_ = 1;  // of a unit; units beside each other
};

// Nothing comes before it but what equals it.
bool is_least_wanted(const Node& initial, bool greatest) {
  if (!initial.is(Opcode::constant)) return false;
  const DType dtype = initial.shape.dtype;
  Array least(dtype, Dims{});
  least.set(0, combiner_identity(greatest ? Combiner::max : Combiner::min, dtype));
  const auto bytes = initial.attrs.literal.bytes();
  return std::equal(bytes.begin(), bytes.end(), least.bytes().begin(), least.bytes().end());
}

bool is_place_dtype(DType dtype) {
  return dtype == DType::s32 || dtype == DType::s64 || dtype == DType::u32 || dtype == DType::u64;
}

}  // namespace

PreparedKernel prepare_extreme_place(const Node& reduce) {
  if (reduce.operands().size() != 4 || reduce.attrs.dimensions.size() != 1) return {};
  const Node& x = *reduce.operand(0);
  if (!has_extreme_places(x.shape.dtype) || !is_place_dtype(reduce.operand(1)->shape.dtype))
    return {};
  const std::optional<ExtremePlace> wanted = extreme_place_of(*reduce.called[0]);
  if (!wanted || !is_least_wanted(*reduce.operand(2), wanted->greatest)) return {};
  const auto search = std::make_shared<PlaceSearch>(reduce, *wanted);
  if (search->units() == 0 || search->length() == 0 ||
      search->length() > std::numeric_limits<int32_t>::max())
    return {};
  PreparedKernel kernel;
  const int64_t elements = x.shape.elements_count();
  kernel.parts = std::clamp<int64_t>(elements >> 15, 1, std::min<int64_t>(search->units(), 16));
  kernel.cost = 0.2 * static_cast<double>(elements);
  kernel.run = [search, parts = kernel.parts](const KernelArgs& args) {
    const int64_t units = search->units();
    search->run(args, args.part * units / parts, (args.part + 1) * units / parts);
  };
  return kernel;
}

}  // namespace gspmd
