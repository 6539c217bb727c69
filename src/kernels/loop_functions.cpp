#include "kernels/loop_functions.h"

#include "gspmd/base/error.h"
#include "kernels/loop_families.h"
#include "kernels/loop_widen.h"

namespace gspmd {

LoopFunction find_loop_function(LoopOp op, DType input, DType result) {
  const bool rounds = op == LoopOp::round_to_bf16 || op == LoopOp::round_to_f16;
  if (rounds || is_half_dtype(input) || is_half_dtype(result)) return half_loop(op, input, result);
  if (op == LoopOp::shorten) return short_loop(input);
  if (is_narrow_loop_dtype(input) || is_narrow_loop_dtype(result))
    return narrow_loop(op, input, result);
  if (op == LoopOp::convert) return convert_loop(input, result);
  if (op >= LoopOp::reduce_sum) return reduce_loop(op, input);
  for (const auto family : {wide_loop, math_loop, number_loop})
    if (const LoopFunction function = family(op, input)) return function;
  return nullptr;
}

FoldRows find_fold_rows(LoopOp reduce, DType input) {
  return is_half_dtype(input) ? half_fold_rows(reduce, input) : number_fold_rows(reduce, input);
}

LoopOp combining_op(LoopOp reduce) {
  switch (reduce) {
    case LoopOp::reduce_sum:
      return LoopOp::add;
    case LoopOp::reduce_product:
      return LoopOp::multiply;
    case LoopOp::reduce_max:
      return LoopOp::maximum;
    case LoopOp::reduce_min:
      return LoopOp::minimum;
    case LoopOp::reduce_and:
      return LoopOp::and_;
    case LoopOp::reduce_or:
      return LoopOp::or_;
    case LoopOp::reduce_xor:
      return LoopOp::xor_;
    default:
      internal_error("loop program: op {} is no reduce", static_cast<int>(reduce));
  }
}

bool has_loop_functions(DType dtype) {
  switch (dtype) {
    case DType::pred:
    case DType::s32:
    case DType::s64:
    case DType::u32:
    case DType::u64:
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
      return true;
    default:
      return false;
  }
}

bool is_loop_dtype(DType dtype) { return has_loop_functions(dtype) || is_narrow_loop_dtype(dtype); }

namespace {

template <class T>
void spread(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t n,
            uint32_t) {
  T* r = reinterpret_cast<T*>(out);
  const T x = *reinterpret_cast<const T*>(a);
  for (int64_t i = 0; i < n; ++i) r[i] = x;
}

}  // namespace

LoopFunction spread_function(int64_t element_size) {
  if (element_size == 1) return spread<uint8_t>;
  if (element_size == 2) return spread<uint16_t>;
  return element_size == 4 ? spread<uint32_t> : spread<uint64_t>;
}

}  // namespace gspmd
