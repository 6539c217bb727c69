#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "ir/hlo_lines.h"

namespace gspmd {
namespace {

struct Field {
  std::string line;
  std::string (*read)(const Attributes& attrs);
  std::string wanted;
};

std::string text(const Dims& dims) { return fmt::format("{}", fmt::join(dims, ",")); }

std::string flags(const Attributes& a) {
  return fmt::format("{}{}{}", int{a.triangular->left_side}, int{a.triangular->lower},
                     int{a.triangular->unit_diagonal});
}

std::string window(const Attributes& a) {
  std::string result;
  for (const WindowDim& d : a.window)
    result += fmt::format("{}|{}|{}|{}|{}|{}|{};", d.size, d.stride, d.pad_low, d.pad_high,
                          d.base_dilation, d.window_dilation, int{d.reversal});
  return result;
}

std::string labels(const Attributes& a) {
  const ConvDims& c = *a.conv;
  return fmt::format("{} {} {}; {} {} {}; {} {} {}; {} {}", c.input_batch, c.input_feature,
                     text(c.input_spatial), c.kernel_input_feature, c.kernel_output_feature,
                     text(c.kernel_spatial), c.output_batch, c.output_feature,
                     text(c.output_spatial), c.feature_group_count, c.batch_group_count);
}

std::string scan(const Attributes& a) {
  const std::optional<bool>& associative = a.scalar->is_associative;
  return fmt::format("{} {} {} {}", text(a.dimensions), a.scalar->is_reverse,
                     associative ? (*associative ? "yes" : "no") : "unknown",
                     a.scalar->num_carries);
}

void check_fields(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    CAPTURE(field.line);
    const auto module = parse_module(hlo_prelude() + field.line);
    CHECK(field.read(module->entry()->root()->attrs) == field.wanted);
  }
}

}  // namespace

TEST_CASE("every attribute of products and windows lands in the field of its name") {
  check_fields({
      {"%r = f32[4,6] dot(f32[4,5] %a, f32[5,6] %b), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={0}, algorithm=dot_f32",
       [](const Attributes& a) {
         return text(a.dot->lhs_contracting) + "|" + text(a.dot->rhs_contracting) + "|" +
                a.scalar->algorithm;
       },
       "1|0|dot_f32"},
      {"%r = f32[2,4,6] dot(f32[2,4,5] %a, f32[5,2,6] %b), lhs_batch_dims={0}, "
       "lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
       [](const Attributes& a) {
         return text(a.dot->lhs_batch) + "|" + text(a.dot->lhs_contracting) + "|" +
                text(a.dot->rhs_batch) + "|" + text(a.dot->rhs_contracting);
       },
       "0|2|1|0"},
      {"%r = f32[6,4] ragged-dot(f32[6,5] %a, f32[2,5,4] %b, s32[2] %g), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
       [](const Attributes& a) {
         return text(a.ragged->lhs_ragged) + "|" + text(a.ragged->rhs_group) + "|" +
                text(a.dot->lhs_contracting) + "|" + text(a.dot->rhs_contracting);
       },
       "0|0|1|1"},
  });
}

TEST_CASE("every attribute of decompositions, sorts and scans lands in the field of its name") {
  const std::string solve = "%r = f32[4,4] triangular-solve(f32[4,4] %a, f32[4,4] %b), ";
  const std::string scan_line =
      "%r = (f32[4], f32[]) scan(f32[4] %a, f32[] %i), to_apply=%step, num_carries=1, ";
  check_fields({
      {solve + "left_side=true", flags, "100"},
      {solve + "lower=true", flags, "010"},
      {solve + "unit_diagonal=true", flags, "001"},
      {solve + "transpose_a=ADJOINT", [](const Attributes& a) { return a.triangular->transpose_a; },
       "ADJOINT"},
      {"%r = f32[4,4] cholesky(f32[4,4] %a), lower=true", flags, "010"},
      {scan_line + "dimensions={0}", scan, "0 false unknown 1"},
      {scan_line + "dimensions={0}, is_reverse=true", scan, "0 true unknown 1"},
      {scan_line + "dimensions={0}, is_associative=true", scan, "0 false yes 1"},
      {scan_line + "dimensions={0}, is_associative=false", scan, "0 false no 1"},
      {"%r = f32[4] sort(f32[4] %a), dimensions={0}, is_stable=true, to_apply=%less2",
       [](const Attributes& a) {
         return fmt::format("{} {}", text(a.dimensions), a.scalar->is_stable);
       },
       "0 true"},
      {"%r = (f32[2,3], s32[2,3]) topk(f32[2,8] %a), k=3, largest=false",
       [](const Attributes& a) { return fmt::format("{} {}", a.scalar->k, a.scalar->largest); },
       "3 false"},
      {"%r = f32[4] reduce-precision(f32[4] %a), exponent_bits=5, mantissa_bits=10",
       [](const Attributes& a) {
         return fmt::format("{} {}", a.scalar->exponent_bits, a.scalar->mantissa_bits);
       },
       "5 10"},
      {"%r = (f32[2,3], f32[3], f32[3]) batch-norm-training(f32[2,3] %a, f32[3] %s, f32[3] %o), "
       "epsilon=0.5, feature_index=1",
       [](const Attributes& a) { return fmt::format("{} {}", a.scalar->epsilon, a.index); },
       "0.5 1"},
      {"%r = c64[4,5] fft(f32[4,8] %a), fft_type=RFFT, fft_length={8}",
       [](const Attributes& a) { return a.scalar->fft_type + " " + text(a.dimensions); }, "RFFT 8"},
      {"%r = f32[4] rng(f32[] %a, f32[] %b), distribution=rng_normal",
       [](const Attributes& a) { return a.scalar->distribution; }, "rng_normal"},
      {"%r = (u64[2], u32[4]) rng-bit-generator(u64[2] %a), algorithm=rng_three_fry",
       [](const Attributes& a) { return a.scalar->algorithm; }, "rng_three_fry"},
      {"%r = u64[2] rng-get-and-update-state(), delta=7",
       [](const Attributes& a) { return fmt::format("{}", a.scalar->delta); }, "7"},
  });
}

TEST_CASE("every field of a window and every label of a convolution lands in its place") {
  check_fields({
      {"%r = f32[4,17] reduce-window(f32[8,12] %a, f32[] %z), window={size=2x3 stride=2x1 "
       "pad=1_0x3_-1 "
       "lhs_dilate=1x2 rhs_dilate=2x4 rhs_reversal=0x1}, to_apply=%sum",
       window, "2|2|1|0|1|2|0;3|1|3|-1|2|4|1;"},
      {"%r = f32[6,2,6] convolution(f32[8,2,4] %a, f32[2,6,3] %k), window={size=3}, "
       "dim_labels=0bf_io0->0bf, feature_group_count=2",
       labels, "1 2 0; 0 1 2; 1 2 0; 2 1"},
      {"%r = f32[2,4,6] convolution(f32[4,1,8] %a, f32[4,1,3] %k), window={size=3}, "
       "dim_labels=bf0_oi0->bf0, batch_group_count=2",
       labels, "0 1 2; 1 0 2; 0 1 2; 1 2"},
      {"%r = f32[2,6,5,16] convolution(f32[2,8,7,3] %a, f32[3,3,3,16] %k), window={size=3x3}, "
       "dim_labels=b10f_01io->b10f",
       labels, "0 3 2,1; 2 3 0,1; 0 3 2,1; 1 1"},
  });
}

}  // namespace gspmd
