#include "runtime/run_text.h"

namespace gspmd {
namespace {

// Every op's fast kernel against its reference kernel on small whole numbers: the bits agree.
struct Case {
  const char* parameters;
  const char* root;
};

std::string module_of(const Case& c) {
  return std::string(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
isum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
either { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }
odd { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b) ROOT r = f32[] add(c, b) }
ENTRY e {
)") + c.parameters +
         "\n ROOT root = " + c.root + "\n}\n";
}

const Case kCases[] = {
    // Gradients of kernels: places of the result that no window brings to the input.
    {"x = bf16[8,9,3,1]{3,2,1,0} parameter(0) y = bf16[9,3,6,1]{3,2,1,0} parameter(1)",
     "bf16[4,6,4,1] convolution(x, y), window={size=3x1 stride=3x1 pad=0_0x0_3 rhs_dilate=1x2}, "
     "dim_labels=bf01_i0o1->1fb0, batch_group_count=2"},
    {"x = bf16[6,7,1]{2,1,0} parameter(0) y = bf16[7,6,1]{2,1,0} parameter(1)",
     "bf16[3,6,2] convolution(x, y), window={size=1 pad=0_1 rhs_dilate=2 rhs_reversal=1}, "
     "dim_labels=bf0_io0->bf0, batch_group_count=2"},
    {"x = f32[3,5]{1,0} parameter(0)", "f32[3,5]{1,0} add(x, x)"},
    {"x = f64[300]{0} parameter(0)", "f64[300]{0} multiply(x, x)"},
    {"x = s8[7]{0} parameter(0)", "s8[7]{0} add(x, x)"},
    {"x = bf16[7]{0} parameter(0)", "bf16[7]{0} multiply(x, x)"},
    {"x = s32[40]{0} parameter(0) y = s32[40]{0} parameter(1)", "s32[40]{0} divide(x, y)"},
    {"x = s64[40]{0} parameter(0) y = s64[40]{0} parameter(1)", "s64[40]{0} remainder(x, y)"},
    {"x = u32[40]{0} parameter(0) y = u32[40]{0} parameter(1)", "u32[40]{0} shift-left(x, y)"},
    {"x = s32[40]{0} parameter(0) y = s32[40]{0} parameter(1)",
     "s32[40]{0} shift-right-arithmetic(x, y)"},
    {"x = s32[40]{0} parameter(0) y = s32[40]{0} parameter(1)",
     "s32[40]{0} shift-right-logical(x, y)"},
    {"x = u32[40]{0} parameter(0)", "f32[40]{0} convert(x)"},
    {"x = f32[40]{0} parameter(0)", "s32[40]{0} convert(x)"},
    {"x = f32[40]{0} parameter(0)", "pred[40]{0} convert(x)"},
    {"x = f32[40]{0} parameter(0)", "bf16[40]{0} convert(x)"},
    {"x = pred[40]{0} parameter(0) y = pred[40]{0} parameter(1)", "pred[40]{0} xor(x, y)"},
    {"x = pred[40]{0} parameter(0)", "pred[40]{0} not(x)"},
    {"p = pred[] parameter(0) x = f32[40]{0} parameter(1) y = f32[40]{0} parameter(2)",
     "f32[40]{0} select(p, x, y)"},
    {"l = f32[] parameter(0) x = f32[40]{0} parameter(1) h = f32[40]{0} parameter(2)",
     "f32[40]{0} clamp(l, x, h)"},
    {"x = f32[40]{0} parameter(0) y = f32[40]{0} parameter(1)",
     "pred[40]{0} compare(x, y), direction=LE"},
    {"x = f32[40]{0} parameter(0) y = f32[40]{0} parameter(1)",
     "pred[40]{0} compare(x, y), direction=GT, type=TOTALORDER"},
    {"x = f32[40]{0} parameter(0)", "f32[40]{0} sign(x)"},
    {"x = f32[40]{0} parameter(0)", "pred[40]{0} is-finite(x)"},
    {"x = f32[] parameter(0)", "f32[3,4]{1,0} broadcast(x), dimensions={}"},
    {"x = f32[3]{0} parameter(0)", "f32[2,3,4]{2,1,0} broadcast(x), dimensions={1}"},
    {"x = s16[3,5]{1,0} parameter(0)", "s16[3,2,5]{2,1,0} broadcast(x), dimensions={0,2}"},
    {"", "s32[3,4,2]{2,1,0} iota(), iota_dimension=1"},
    {"", "f32[3,300]{1,0} iota(), iota_dimension=1"},
    {"x = f32[2,3,4]{2,1,0} parameter(0)", "f32[4,2,3]{2,1,0} transpose(x), dimensions={2,0,1}"},
    {"x = f32[40,50]{1,0} parameter(0)", "f32[50,40]{1,0} transpose(x), dimensions={1,0}"},
    {"x = f64[20,33]{1,0} parameter(0)", "f64[33,20]{1,0} transpose(x), dimensions={1,0}"},
    {"x = pred[2,33,18]{2,1,0} parameter(0)",
     "pred[2,18,33]{2,1,0} transpose(x), dimensions={0,2,1}"},
    {"x = f32[4,5]{1,0} parameter(0)", "f32[4,5]{1,0} reverse(x), dimensions={0,1}"},
    {"x = f32[9,8]{1,0} parameter(0)", "f32[3,4]{1,0} slice(x), slice={[2:8:2], [1:5]}"},
    {"x = f32[3,2]{1,0} parameter(0) y = f32[3,5]{1,0} parameter(1)",
     "f32[3,7]{1,0} concatenate(x, y), dimensions={1}"},
    {"x = f32[3,2]{1,0} parameter(0) v = f32[] parameter(1)",
     "f32[6,4]{1,0} pad(x, v), padding=1_2x1_1"},
    {"x = f32[3,5]{1,0} parameter(0) v = f32[] parameter(1)",
     "f32[5,4]{1,0} pad(x, v), padding=0_0_1x-2_1"},
    {"x = f32[6,5]{1,0} parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)",
     "f32[2,3]{1,0} dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}"},
    {"x = f32[6,5]{1,0} parameter(0) u = f32[2,2]{1,0} parameter(1) i = s32[] parameter(2) j = "
     "s32[] parameter(3)",
     "f32[6,5]{1,0} dynamic-update-slice(x, u, i, j)"},
    {"x = f32[6,5]{1,0} parameter(0) i = s32[4,3]{1,0} parameter(1)",
     "f32[4,3,5]{2,1,0} gather(x, i), offset_dims={2}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=2, slice_sizes={1,5}"},
    {"x = f32[6,5]{1,0} parameter(0) i = s32[4,2]{1,0} parameter(1)",
     "f32[2,4,3]{2,1,0} gather(x, i), offset_dims={0,2}, collapsed_slice_dims={}, "
     "start_index_map={1,0}, index_vector_dim=1, slice_sizes={2,3}"},
    {"x = f32[6,5]{1,0} parameter(0) i = s32[7]{0} parameter(1) u = f32[7,5]{1,0} parameter(2)",
     "f32[6,5]{1,0} scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"},
    {"x = f32[6,5]{1,0} parameter(0) i = s32[7]{0} parameter(1) u = f32[2,7,3]{2,1,0} parameter(2)",
     "f32[6,5]{1,0} scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=most"},
    {"x = f32[4,6]{1,0} parameter(0) z = f32[] parameter(1)",
     "f32[4]{0} reduce(x, z), dimensions={1}, to_apply=sum"},
    {"x = f32[4,6]{1,0} parameter(0) z = f32[] parameter(1)",
     "f32[6]{0} reduce(x, z), dimensions={0}, to_apply=most"},
    {"x = f32[4,6,3]{2,1,0} parameter(0) z = f32[] parameter(1)",
     "f32[6]{0} reduce(x, z), dimensions={0,2}, to_apply=sum"},
    {"x = f32[4,6,3]{2,1,0} parameter(0) z = f32[] parameter(1)",
     "f32[] reduce(x, z), dimensions={0,1,2}, to_apply=sum"},
    {"x = f32[4,6,3]{2,1,0} parameter(0) z = f32[] parameter(1)",
     "f32[4]{0} reduce(x, z), dimensions={1,2}, to_apply=odd"},
    {"x = s32[3,400]{1,0} parameter(0) z = s32[] parameter(1)",
     "s32[3]{0} reduce(x, z), dimensions={1}, to_apply=isum"},
    {"x = pred[3,4]{1,0} parameter(0) z = pred[] parameter(1)",
     "pred[3]{0} reduce(x, z), dimensions={1}, to_apply=either"},
    {"x = f32[3,4]{1,0} parameter(0) y = f32[4,5]{1,0} parameter(1)",
     "f32[3,5]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"x = f32[2,7,3,4]{3,2,1,0} parameter(0) y = f32[2,6,3,4]{3,2,1,0} parameter(1)",
     "f32[2,3,7,6]{3,2,1,0} dot(x, y), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
     "lhs_contracting_dims={3}, rhs_contracting_dims={3}"},
    {"x = s32[3,4]{1,0} parameter(0) y = s32[4]{0} parameter(1)",
     "s32[3]{0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"x = bf16[3,4]{1,0} parameter(0) y = bf16[4]{0} parameter(1)",
     "f32[3]{0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"x = f32[0,4]{1,0} parameter(0) z = f32[] parameter(1)",
     "f32[4]{0} reduce(x, z), dimensions={0}, to_apply=sum"},
    {"x = f32[3,0]{1,0} parameter(0) y = f32[0,5]{1,0} parameter(1)",
     "f32[3,5]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"x = f32[0]{0} parameter(0)", "f32[0]{0} add(x, x)"},
    {"x = f32[2,3]{1,0} parameter(0)",
     "(f32[2,3]{1,0}, f32[6]{0}, s32[6]{0}) fusion(x), kind=kLoop, calls=three"},
};

}  // namespace

TEST_CASE("lower: each op's fast kernel has the bits of its reference kernel", "[lower]") {
  const std::string three = R"(
three {
  x = f32[2,3]{1,0} parameter(0)
  y = f32[2,3]{1,0} add(x, x)
  r = f32[6]{0} reshape(y)
  b = s32[6]{0} bitcast-convert(r)
  ROOT t = (f32[2,3]{1,0}, f32[6]{0}, s32[6]{0}) tuple(y, r, b)
}
)";
  for (const Case& c : kCases) {
    INFO(c.root);
    std::string text = module_of(c);
    text.insert(text.find("ENTRY"), three);
    expect_oracle(text, 1, {1, 2});
  }
}

TEST_CASE("lower: a fused product reads and writes through transposes", "[lower]") {
  expect_oracle(R"(HloModule m
f {
  x = f32[2,5,3,4]{3,2,1,0} parameter(1)
  y = f32[2,6,3,4]{3,2,1,0} parameter(0)
  xt = f32[2,3,5,4]{3,2,1,0} transpose(x), dimensions={0,2,1,3}
  xr = f32[6,5,4]{2,1,0} reshape(xt)
  yt = f32[2,3,4,6]{3,2,1,0} transpose(y), dimensions={0,2,3,1}
  yr = f32[6,4,6]{2,1,0} reshape(yt)
  d = f32[6,5,6]{2,1,0} dot(xr, yr), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  dr = f32[2,3,5,6]{3,2,1,0} reshape(d)
  ROOT dt = f32[2,5,3,6]{3,2,1,0} transpose(dr), dimensions={0,2,1,3}
}
ENTRY e {
  x = f32[2,5,3,4]{3,2,1,0} parameter(0)
  y = f32[2,6,3,4]{3,2,1,0} parameter(1)
  ROOT r = f32[2,5,3,6]{3,2,1,0} fusion(y, x), kind=kOutput, calls=f
}
)",
                1);
}

}  // namespace gspmd
