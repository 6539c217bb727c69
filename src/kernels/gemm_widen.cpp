#include <algorithm>

#include "kernels/gemm_product.h"
#include "kernels/lines.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

class WidenedProduct final : public GemmProduct {
 public:
  WidenedProduct(std::unique_ptr<GemmProduct> product, DType operand, DType result,
                 const GemmExtents& e, bool b_is_wide)
      : product_(std::move(product)),
        extents_(e),
        b_is_wide_(b_is_wide),
        read_(find_loop_function(LoopOp::convert, operand, DType::f32)),
        round_(is_half_dtype(result) ? find_loop_function(LoopOp::convert, DType::f32, result)
                                     : nullptr) {}

  int64_t scratch_bytes() const override {
    return a_bytes() + b_bytes() + c_bytes() + product_->scratch_bytes();
  }

  void run(const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    std::byte* const wide_a = scratch;
    std::byte* const wide_b = wide_a + a_bytes();
    std::byte* const wide_c = wide_b + b_bytes();
    std::byte* const rest = wide_c + c_bytes();
    read_(wide_a, a, nullptr, nullptr, extents_.rows * extents_.k, 0);
    const GemmExtents& e = extents_;
    if (!b_is_wide_)
      each_line(e.b_transposed ? e.n : e.k, e.b_transposed ? e.k : e.n, e.b_step(),
                [&](int64_t dense, int64_t at, int64_t count) {
                  read_(wide_b + dense * 4, b + at * 2, nullptr, nullptr, count, 0);
                });
    product_->run(wide_a, b_is_wide_ ? b : wide_b, round_ != nullptr ? wide_c : c, rest);
    if (round_ != nullptr)
      each_line(e.rows, e.n, e.c_step(), [&](int64_t dense, int64_t at, int64_t count) {
        round_(c + at * 2, wide_c + dense * 4, nullptr, nullptr, count, 0);
      });
  }

 private:
  // f(elements before where lines are dense, and where they are not, elements): of each line, or of
  // all as one.
  template <class F>
  static void each_line(int64_t lines, int64_t length, int64_t step, const F& f) {
    if (step == length) return f(0, 0, lines * length);
    for (int64_t i = 0; i < lines; ++i) f(i * length, i * step, length);
  }

  int64_t a_bytes() const { return in_lines(extents_.rows * extents_.k * 4); }
  int64_t b_bytes() const { return b_is_wide_ ? 0 : in_lines(extents_.k * extents_.n * 4); }
  int64_t c_bytes() const {
    return round_ != nullptr ? in_lines(extents_.rows * extents_.n * 4) : 0;
  }

  std::unique_ptr<GemmProduct> product_;
  GemmExtents extents_;
  bool b_is_wide_;
  LoopFunction read_, round_;  // round_ is nullptr where the result is f32
};

}  // namespace

std::unique_ptr<GemmProduct> widened_product(std::unique_ptr<GemmProduct> product, DType operand,
                                             DType result, const GemmExtents& extents,
                                             bool b_is_wide) {
  return std::make_unique<WidenedProduct>(std::move(product), operand, result, extents, b_is_wide);
}

}  // namespace gspmd
