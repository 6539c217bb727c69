#include "kernels/loop_short_rows.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>

#include "gspmd/kernels/strided_copy.h"
#include "kernels/lines.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

constexpr int64_t kShortRow = 64;             // elements; longer ones are rows of vectors
constexpr int64_t kLeastShortRows = 1 << 14;  // elements of a loop that is worth it
constexpr int64_t kMostLaidOut = 1 << 15;     // elements of all that is laid out
constexpr size_t kMostOperands = 64;

// What folds of the type are taken in, to be rounded or wrapped once.
DType folded_in(DType dtype) {
  if (is_half_dtype(dtype)) return DType::f32;
  return is_narrow_loop_dtype(dtype) && is_integer(dtype) ? DType::s32 : dtype;
}

bool is_fold(LoopOp op) { return op >= LoopOp::reduce_sum; }

// What a fold may start from: x op it is x.
template <class T>
T identity_number(LoopOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case LoopOp::reduce_sum:
      return std::is_floating_point_v<T> ? T(-0.0) : T(0);
    case LoopOp::reduce_product:
      return T(1);
    case LoopOp::reduce_max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case LoopOp::reduce_min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case LoopOp::reduce_and:
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return static_cast<T>(~T(0));
      return T(1);
    default:
      return T(0);  // or, xor
  }
}

Array identity_of(LoopOp op, DType dtype) {
  Array identity(dtype, Dims{});
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<T>) identity.data<T>()[0] = identity_number<T>(op);
  });
  return identity;
}

// An operand as the loop reads it, each element of the last two dims.
struct LaidOut {
  int64_t operand = 0, offset = 0, elements = 1;
  StridedCopy copy;
};

class ShortRows {
 public:
  explicit ShortRows(const LoopProgram& program) : p_(program) {}

  // False where nothing is to be done, or the program is not of this form.
  bool build() {
    for (const LoopValue& x : p_.values)
      if (x.op == LoopOp::operand && x.strides.size() != rank()) return false;
    drop_ones();
    while (rank() > 2 && last_two_are_one()) merge_last_two();
    if (rank() < 2 || !p_.outputs.size()) return false;
    n_ = p_.dims.back();
    m_ = p_.dims[rank() - 2];
    int64_t elements = 1;
    for (const int64_t size : p_.dims) elements = saturating_multiply(elements, size);
    if (n_ >= kShortRow || elements < kLeastShortRows) return false;
    if (is_reduced(rank() - 1) != is_reduced(rank() - 2)) {
      // Along the last dim alone there is nothing to come before.
      if (!is_reduced(rank() - 1) || std::count(p_.reduced.begin(), p_.reduced.end(), true) == 1 ||
          !only_folds())
        return false;
      splits_ = true;
    }
    if (!merge_streams() || (!laid_out_.size() && !splits_)) return false;
    int64_t more = 0;
    for (const LaidOut& one : laid_out_) more += one.elements;
    if (more > kMostLaidOut || more > elements / 64) return false;
    merge_dims();
    return operands_ + laid_out_.size() + p_.outputs.size() <= kMostOperands;
  }

  PreparedKernel prepare(const LoopOptions& options) const {
    PreparedKernel kernel = prepare_loop(p_, options);
    if (!kernel.run) return {};
    lay_out_first(kernel);
    return splits_ ? then_along_rows(std::move(kernel), options) : kernel;
  }

 private:
  size_t rank() const { return p_.dims.size(); }
  bool is_reduced(size_t d) const { return !p_.reduced.empty() && p_.reduced[d]; }
  static bool is_stream(const LoopValue& x) {
    return x.op == LoopOp::operand || x.op == LoopOp::iota;
  }

  void drop_ones() {
    for (size_t d = rank(); d-- > 0;) {
      if (p_.dims[d] != 1) continue;
      const auto at = static_cast<std::ptrdiff_t>(d);
      p_.dims.erase(p_.dims.begin() + at);
      if (!p_.reduced.empty()) p_.reduced.erase(p_.reduced.begin() + at);
      for (LoopValue& x : p_.values) {
        if (x.op == LoopOp::iota && x.operand >= static_cast<int64_t>(d)) count_without(x, d);
        if (is_stream(x) && !x.strides.empty()) x.strides.erase(x.strides.begin() + at);
      }
      for (LoopOutput& o : p_.outputs)
        if (!o.strides.empty()) o.strides.erase(o.strides.begin() + at);
    }
  }

  // An iota over the dims without d, of one element.
  static void count_without(LoopValue& x, size_t d) {
    if (!x.strides.empty() || x.operand > static_cast<int64_t>(d)) {
      x.operand -= x.operand > static_cast<int64_t>(d);
      return;
    }
    x.op = LoopOp::constant;  // it counts along d: once
    x.constant = Array::full(Shape(x.dtype, {}), static_cast<double>(x.offset));
    x.operand = x.offset = 0;
  }

  // Planes of images are rows: the channels before them come next.
  bool last_two_are_one() const {
    if (is_reduced(rank() - 1) != is_reduced(rank() - 2)) return false;
    const auto fits = [&](const Dims& strides) {
      return strides.empty() || strides[rank() - 2] == strides[rank() - 1] * p_.dims.back();
    };
    for (const LoopValue& x : p_.values) {
      if (x.op == LoopOp::iota &&
          (!x.strides.empty() || x.operand + 2 >= static_cast<int64_t>(rank())))
        return false;
      if (x.op == LoopOp::operand && !fits(x.strides)) return false;
    }
    return std::all_of(p_.outputs.begin(), p_.outputs.end(),
                       [&](const LoopOutput& o) { return fits(o.strides); });
  }
  void merge_last_two() {
    const auto merge = [&](Dims& strides) {
      if (!strides.empty()) strides.erase(strides.end() - 2);
    };
    for (LoopValue& x : p_.values)
      if (x.op == LoopOp::operand) merge(x.strides);
    for (LoopOutput& o : p_.outputs) merge(o.strides);
    p_.dims[rank() - 2] *= p_.dims.back();
    p_.dims.pop_back();
    if (!p_.reduced.empty()) p_.reduced.pop_back();
  }

  // Whether all results are folds over every reduced dim, each from a value of one element.
  bool only_folds() const {
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
      const LoopOutput& output = p_.outputs[o];
      const LoopValue& fold = value(output.value);
      if (!is_fold(fold.op) || !output.reduced || !output.strides.empty()) return false;
      if (output.result >= 0 && output.result != static_cast<int64_t>(o)) return false;
      const DType wide = folded_in(fold.dtype);
      if (is_narrow_loop_dtype(wide) || value(fold.a).dtype != fold.dtype) return false;
      const LoopValue& initial = value(fold.b);
      if (initial.op != LoopOp::constant &&
          (initial.op != LoopOp::operand ||
           std::any_of(initial.strides.begin(), initial.strides.end(),
                       [](int64_t s) { return s != 0; })))
        return false;
    }
    // None behind another one.
    std::vector<bool> follows;
    for (const LoopValue& x : p_.values) {
      bool any = false;
      for (const int input : {x.a, x.b, x.c}) any |= input >= 0 && follows[size_t(input)];
      if (any) return false;
      follows.push_back(is_fold(x.op));
    }
    return std::count(follows.begin(), follows.end(), true) == std::ssize(p_.outputs);
  }
  const LoopValue& value(int v) const { return p_.values[static_cast<size_t>(v)]; }

  // Gives each stream one stride for the last two dims; operands that have two are laid out.
  bool merge_streams() {
    for (const LoopValue& x : p_.values)
      if (x.op == LoopOp::operand)
        operands_ = std::max(operands_, static_cast<size_t>(x.operand) + 1);
    for (LoopValue& x : p_.values) {
      if (!is_stream(x)) continue;
      if (x.op == LoopOp::iota) {
        if (!x.strides.empty() || x.operand + 2 >= static_cast<int64_t>(rank())) return false;
        continue;
      }
      const int64_t outer = x.strides[rank() - 2], inner = x.strides[rank() - 1];
      if (outer == inner * n_) {
        x.strides.pop_back();
        x.strides.back() = inner;
      } else {
        lay_out(x);
      }
    }
    for (LoopOutput& o : p_.outputs) {
      if (o.strides.empty()) continue;
      if (o.strides[rank() - 2] != o.strides[rank() - 1] * n_) return false;
      o.strides.erase(o.strides.end() - 2);
    }
    return true;
  }

  void lay_out(LoopValue& x) {
    LaidOut made{x.operand, x.offset, 1, {dtype_size(x.dtype), {}, {}, {}}};
    Dims strides(rank() - 1, 0);
    for (size_t d = 0; d < rank(); ++d) {
      if (d + 2 < rank() && x.strides[d] == 0) continue;
      made.copy.dims.push_back(p_.dims[d]);
      made.copy.source.push_back(x.strides[d]);
    }
    made.copy.target = row_major_strides(made.copy.dims);
    for (size_t d = 0, kept = 0; d + 2 < rank(); ++d)
      if (x.strides[d] != 0) strides[d] = made.copy.target[kept++];
    strides.back() = 1;
    for (const int64_t size : made.copy.dims)
      made.elements = saturating_multiply(made.elements, size);
    made.copy = simplified(made.copy);
    x.operand = static_cast<int64_t>(operands_ + laid_out_.size());
    x.offset = 0;
    x.strides = std::move(strides);
    laid_out_.push_back(std::move(made));
  }

  void merge_dims() {
    whole_ = p_;  // for what comes behind: its folds, their starts
    p_.dims.pop_back();
    p_.dims.back() = m_ * n_;
    if (p_.reduced.empty()) return;
    p_.reduced.pop_back();
    if (!splits_) return;
    p_.reduced.back() = false;
    std::vector<LoopValue> values;  // an identity in front
    for (const LoopOutput& output : p_.outputs) {
      const LoopValue& fold = value(output.value);
      values.push_back({LoopOp::constant, folded_in(fold.dtype)});
      values.back().constant = identity_of(fold.op, folded_in(fold.dtype));
    }
    const int shift = static_cast<int>(values.size());
    for (LoopValue x : p_.values) {
      for (int* input : {&x.a, &x.b, &x.c})
        if (*input >= 0) *input += shift;
      values.push_back(std::move(x));
    }
    for (size_t o = 0; o < p_.outputs.size(); ++o) {  // folds once more, behind all they read
      LoopValue fold = values[static_cast<size_t>(p_.outputs[o].value + shift)];
      fold.b = static_cast<int>(o);
      if (const DType wide = folded_in(fold.dtype); wide != fold.dtype) {
        values.push_back({LoopOp::convert, wide, fold.a});
        fold.a = static_cast<int>(values.size()) - 1;
        fold.dtype = wide;
      }
      values.push_back(std::move(fold));
      p_.outputs[o].value = static_cast<int>(values.size()) - 1;
    }
    p_.values = std::move(values);
  }

  // Puts in front of each part of `kernel` what it reads laid out.
  void lay_out_first(PreparedKernel& kernel) const {
    if (laid_out_.empty()) return;
    const int64_t first = in_lines(kernel.scratch_bytes);
    int64_t bytes = first;
    for (const LaidOut& one : laid_out_) bytes += in_lines(one.elements * one.copy.element_size);
    kernel.scratch_bytes = bytes;
    const auto around = [&](std::function<void(const KernelArgs&)> run) {
      return [run = std::move(run), first, list = laid_out_,
              count = operands_](const KernelArgs& args) {
        std::array<const std::byte*, kMostOperands> operands;
        std::copy_n(args.operands, count, operands.begin());
        std::byte* to = args.scratch + first;
        for (size_t i = 0; i < list.size(); ++i) {
          const int64_t size = list[i].copy.element_size;
          run_copy(list[i].copy, args.operands[list[i].operand] + list[i].offset * size, to);
          operands[count + i] = to;
          to += in_lines(list[i].elements * size);
        }
        KernelArgs laid = args;
        laid.operands = operands.data();
        run(laid);
      };
    };
    kernel.run = around(std::move(kernel.run));
    if (kernel.prepare) kernel.prepare = around(std::move(kernel.prepare));
  }

  // The folds along the last dim of what `kernel` leaves.
  PreparedKernel then_along_rows(PreparedKernel kernel, const LoopOptions& options) const {
    if (kernel.prepare) return {};
    LoopProgram rows;
    int64_t count = 1;
    for (size_t d = 0; d < rank(); ++d)
      if (!p_.reduced[d]) {
        rows.dims.push_back(p_.dims[d]);
        count *= p_.dims[d];
      }
    rows.dims.back() = m_;
    rows.dims.push_back(n_);
    rows.reduced.assign(rows.dims.size(), false);
    rows.reduced.back() = true;
    std::vector<int64_t> at;  // of each result in the shared memory
    int64_t bytes = 0;
    for (size_t o = 0; o < whole_.outputs.size(); ++o) {
      const LoopValue& fold = whole_.values[static_cast<size_t>(whole_.outputs[o].value)];
      LoopValue initial = whole_.values[static_cast<size_t>(fold.b)];
      if (initial.op == LoopOp::operand) initial.strides.assign(rows.dims.size(), 0);
      const DType dtype = folded_in(fold.dtype);
      const auto put = [&](LoopValue x) {
        rows.values.push_back(std::move(x));
        return static_cast<int>(rows.values.size()) - 1;
      };
      int from = put(std::move(initial));
      if (dtype != fold.dtype) from = put({LoopOp::convert, dtype, from});
      const int all = put({LoopOp::operand, dtype});
      rows.values.back().operand = static_cast<int64_t>(operands_ + o);
      rows.values.back().strides = row_major_strides(rows.dims);
      int result = put({fold.op, dtype, all, from});
      if (dtype != fold.dtype) result = put({LoopOp::convert, fold.dtype, result});
      rows.outputs.push_back({result, true});
      at.push_back(bytes);
      bytes += in_lines(count * dtype_size(dtype));
    }
    PreparedKernel last = prepare_loop(rows, options);
    if (!last.run || last.prepare) return {};
    last.prepare_parts = kernel.parts;
    last.shared_bytes = bytes;
    last.cost += kernel.cost;
    last.scratch_bytes = std::max(last.scratch_bytes, kernel.scratch_bytes);
    last.prepare = [run = std::move(kernel.run), at](const KernelArgs& args) {
      std::array<std::byte*, kMostOperands> results;
      for (size_t o = 0; o < at.size(); ++o) results[o] = args.shared + at[o];
      KernelArgs first = args;
      first.results = results.data();
      run(first);
    };
    last.run = [run = std::move(last.run), at, count_of = operands_](const KernelArgs& args) {
      std::array<const std::byte*, kMostOperands> operands;
      std::copy_n(args.operands, count_of, operands.begin());
      for (size_t o = 0; o < at.size(); ++o) operands[count_of + o] = args.shared + at[o];
      KernelArgs behind = args;
      behind.operands = operands.data();
      run(behind);
    };
    return last;
  }

  LoopProgram p_, whole_;
  int64_t m_ = 1, n_ = 1;  // the last two dims
  size_t operands_ = 0;    // of the program as given
  bool splits_ = false;    // along the last dim, but not along the one before
  std::vector<LaidOut> laid_out_;
};

}  // namespace

PreparedKernel prepare_short_rows(const LoopProgram& program, const LoopOptions& options) {
  ShortRows rows(program);
  return rows.build() ? rows.prepare(options) : PreparedKernel{};
}

}  // namespace gspmd
