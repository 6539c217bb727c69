// Programs along an order: prefixes, sorts, choices.

#include <fmt/format.h>

#include "passes/combiners.h"
#include "passes/conformance_programs.h"

namespace gspmd::testing {
namespace {

const char* const kComputations = R"(
least_s32 { a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT s = s32[] minimum(a, b) }
times_s32 { a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT s = s32[] multiply(a, b) }
any { a = pred[] parameter(0)
 b = pred[] parameter(1)
 ROOT s = pred[] or(a, b) }
all { a = pred[] parameter(0)
 b = pred[] parameter(1)
 ROOT s = pred[] and(a, b) }
xor_u32 { a = u32[] parameter(0)
 b = u32[] parameter(1)
 ROOT s = u32[] xor(a, b) }
second_of { a = f32[] parameter(0)
 ROOT b = f32[] parameter(1) }
wide_sum { a = bf16[] parameter(0)
 b = bf16[] parameter(1)
 c = f32[] convert(a)
 d = f32[] convert(b)
 e = f32[] add(c, d)
 ROOT s = bf16[] convert(e) }
both_sums { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = f32[] parameter(2)
 d = f32[] parameter(3)
 e = f32[] add(a, c)
 f = f32[] add(b, d)
 ROOT s = (f32[], f32[]) tuple(e, f) }
below { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = pred[] compare(a, b), direction=LT }
more { a = f32[] parameter(0)
 b = f32[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 ROOT s = pred[] compare(a, b), direction=GT }
first_less { a = s32[] parameter(0)
 b = s32[] parameter(1)
 c = f32[] parameter(2)
 d = f32[] parameter(3)
 ROOT s = pred[] compare(a, b), direction=LT }
running { x = f32[4] parameter(0)
 c = f32[4] parameter(1)
 s = f32[4] add(c, x)
 d = f32[4] multiply(s, x)
 ROOT r = (f32[4], f32[4]) tuple(d, s) }
decayed { x = f32[4] parameter(0)
 c = f32[4] parameter(1)
 h = f32[] constant(-1)
 b = f32[4] broadcast(h), dimensions={}
 m = f32[4] multiply(c, b)
 s = f32[4] add(m, x)
 ROOT r = (f32[4], f32[4]) tuple(c, s) }
centred { x = f32[4] parameter(0)
 c = f32[4] parameter(1)
 z = f32[] constant(0)
 t = f32[] reduce(x, z), dimensions={0}, to_apply=sum
 b = f32[4] broadcast(t), dimensions={}
 m = f32[4] subtract(b, x)
 s = f32[4] subtract(m, c)
 ROOT r = (f32[4], f32[4]) tuple(m, s) }
counted { x = f32[4] parameter(0)
 c = f32[] parameter(1)
 o = f32[] constant(1)
 n = f32[] add(c, o)
 b = f32[4] broadcast(n), dimensions={}
 y = f32[4] multiply(x, b)
 ROOT r = (f32[4], f32[]) tuple(y, n) }
affine { a = s32[3] parameter(0)
 b = s32[3] parameter(1)
 c = s32[3] parameter(2)
 d = s32[3] parameter(3)
 e = s32[3] multiply(a, c)
 f = s32[3] multiply(a, d)
 g = s32[3] add(f, b)
 h = s32[3] subtract(g, c)
 ROOT r = (s32[3], s32[3], s32[3], s32[3]) tuple(h, d, e, g) }
matrices { a = s32[3,2,2] parameter(0)
 c = s32[3,2,2] parameter(1)
 p = s32[3,2,2] dot(a, c), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
 q = s32[3,2,2] add(p, a)
 ROOT r = (s32[3,2,2], s32[3,2,2]) tuple(q, p) }
last { ROOT a = s32[3] parameter(0)
 c = s32[3] parameter(1) }
)";

std::string cumulative(const std::string& type, const std::string& dims, const std::string& window,
                       const std::string& start, const std::string& apply,
                       const std::string& result = "") {
  return fmt::format(
      "a = {0}[{1}] parameter(0)\n i = {0}[] constant({3})\n ROOT r = {0}[{5}] reduce-window(a, "
      "i), window={{{2}}}, to_apply={4}",
      type, dims, window, start, apply, result.empty() ? dims : result);
}

std::vector<Program> windows() {
  return {
      {"cumulative sum", cumulative("f32", "13,3", "size=13x1 pad=12_0x0_0", "0", "sum")},
      {"cumulative sum with a start", cumulative("f32", "3,9", "size=1x9 pad=0_0x8_0", "5", "sum")},
      {"cumulative sum from behind",
       cumulative("f32", "13,3", "size=13x1 pad=0_12x0_0", "0", "sum")},
      {"cumulative maximum", cumulative("f32", "16", "size=16 pad=15_0", "-inf", "most")},
      {"cumulative minimum from behind",
       cumulative("s32", "11,2", "size=11x1 pad=0_10x0_0", "2147483647", "least_s32")},
      {"cumulative product", cumulative("s32", "2,17", "size=1x17 pad=0_0x16_0", "1", "times_s32")},
      {"cumulative or", cumulative("pred", "12", "size=12 pad=11_0", "false", "any")},
      {"cumulative and from behind", cumulative("pred", "12", "size=12 pad=0_11", "true", "all")},
      {"cumulative sum of all before", cumulative("f32", "12", "size=12 pad=12_-1", "0", "sum")},
      {"cumulative sum of all behind", cumulative("f32", "12", "size=12 pad=-1_12", "0", "sum")},
      {"cumulative sum in a longer window",
       cumulative("f32", "10", "size=16 pad=15_0", "0", "sum")},
      {"cumulative sum that goes on behind the end",
       cumulative("f32", "10", "size=20 pad=19_3", "0", "sum", "13")},
      {"cumulative sum over two dims",
       cumulative("f32", "9,10", "size=9x10 pad=8_0x0_9", "3", "sum")},
      {"cumulative sum beside a window",
       cumulative("f32", "10,9", "size=10x3 pad=9_0x1_1", "0", "sum")},
      {"sums of long windows", cumulative("f32", "16", "size=11 pad=10_0", "0", "sum")},
      {"cumulative xor", cumulative("u32", "13", "size=13 pad=12_0", "0", "xor_u32")},
      {"cumulative argmax",
       "a = f32[3,10] parameter(0)\n p = s32[3,10] iota(), iota_dimension=1\n i = f32[] "
       "constant(-inf)\n j = s32[] constant(2147483647)\n r = (f32[3,10], s32[3,10]) "
       "reduce-window(a, p, i, j), window={size=1x10 pad=0_0x9_0}, to_apply=largest\n v = "
       "f32[3,10] "
       "get-tuple-element(r), index=0\n k = s32[3,10] get-tuple-element(r), index=1\n ROOT t = "
       "(f32[3,10], s32[3,10]) tuple(v, k)"},
      {"associative scan by slices and pads",
       "a = f32[8] parameter(0)\n z = f32[] constant(0)\n e = f32[4] slice(a), slice={[0:8:2]}\n o "
       "= f32[4] slice(a), slice={[1:8:2]}\n s = f32[4] add(e, o)\n e2 = f32[2] slice(s), "
       "slice={[0:4:2]}\n o2 = f32[2] slice(s), slice={[1:4:2]}\n s2 = f32[2] add(e2, o2)\n f = "
       "f32[1] slice(s2), slice={[0:1]}\n l = f32[1] slice(s2), slice={[1:2]}\n fl = f32[1] add(f, "
       "l)\n p0 = f32[2] concatenate(f, fl), dimensions={0}\n h = f32[1] slice(p0), "
       "slice={[0:1]}\n t = f32[1] slice(s), slice={[2:3]}\n ht = f32[1] add(h, t)\n b = f32[1] "
       "slice(s), slice={[0:1]}\n ev = f32[2] concatenate(b, ht), dimensions={0}\n pe = f32[4] "
       "pad(ev, z), padding=0_1_1\n po = f32[4] pad(p0, z), padding=1_0_1\n p1 = f32[4] add(pe, "
       "po)\n h1 = f32[3] slice(p1), slice={[0:3]}\n t1 = f32[3] slice(a), slice={[2:8:2]}\n m1 = "
       "f32[3] add(h1, t1)\n b1 = f32[1] slice(a), slice={[0:1]}\n ev1 = f32[4] concatenate(b1, "
       "m1), dimensions={0}\n pe1 = f32[8] pad(ev1, z), padding=0_1_1\n po1 = f32[8] pad(p1, z), "
       "padding=1_0_1\n ROOT r = f32[8] add(pe1, po1)"},
  };
}

std::vector<Program> scans() {
  const auto scan = [](const std::string& flags) {
    return "a = f32[13,4] parameter(0)\n c = f32[4] parameter(1)\n ROOT r = (f32[13,4], f32[4]) "
           "scan(a, c), dimensions={0}, num_carries=1, " +
           flags;
  };
  const auto affine = [](const std::string& flags) {
    return "a = s32[3,11] parameter(0)\n b = s32[3,11] parameter(1)\n c = s32[3] parameter(2)\n d "
           "= s32[3] parameter(3)\n ROOT r = (s32[3,11], s32[3,11], s32[3], s32[3]) scan(a, b, c, "
           "d), dimensions={1}, num_carries=2, to_apply=affine" +
           flags;
  };
  const std::string matrices =
      "a = s32[9,3,2,2] parameter(0)\n c = s32[3,2,2] parameter(1)\n ROOT r = (s32[9,3,2,2], "
      "s32[3,2,2]) scan(a, c), dimensions={0}, num_carries=1, is_associative=true, "
      "to_apply=matrices";
  return {
      {"scan of sums", scan("to_apply=running")},
      {"scan of sums from behind", scan("is_reverse=true, to_apply=running")},
      {"scan of sums said to be in order", scan("is_associative=false, to_apply=running")},
      {"scan with decay", scan("to_apply=decayed")},
      {"scan with sums over the step", scan("to_apply=centred")},
      {"scan of affine maps", affine(", is_associative=true")},
      {"scan of affine maps from behind", affine(", is_associative=true, is_reverse=true")},
      {"scan of affine maps in order", affine("")},
      {"scan of products of matrices", matrices},
      {"scan for the last carry",
       "a = s32[3,10] parameter(0)\n c = s32[3] parameter(1)\n ROOT r = s32[3] scan(a, c), "
       "dimensions={1}, num_carries=1, is_associative=true, to_apply=last"},
      {"scan without carries that meet",
       "a = f32[12,4] parameter(0)\n c = f32[] parameter(1)\n ROOT r = (f32[12,4], f32[]) scan(a, "
       "c), dimensions={0}, num_carries=1, to_apply=counted"},
  };
}

std::vector<Program> choices() {
  return {
      {"sort",
       "a = f32[6,13] parameter(0)\n ROOT r = f32[6,13] sort(a), dimensions={1}, "
       "to_apply=below"},
      {"sort of one dim",
       "a = f32[13] parameter(0)\n ROOT r = f32[13] sort(a), dimensions={0}, "
       "to_apply=below"},
      {"stable sort of pairs",
       "a = s32[4,3,9] parameter(0)\n b = f32[4,3,9] parameter(1)\n r = (s32[4,3,9], f32[4,3,9]) "
       "sort(a, b), dimensions={2}, is_stable=true, to_apply=first_less\n x = s32[4,3,9] "
       "get-tuple-element(r), index=0\n y = f32[4,3,9] get-tuple-element(r), index=1\n ROOT t = "
       "(s32[4,3,9], f32[4,3,9]) tuple(x, y)"},
      {"argmax",
       "a = f32[5,11] parameter(0)\n p = s32[5,11] iota(), iota_dimension=1\n i = f32[] "
       "constant(-inf)\n j = s32[] constant(2147483647)\n r = (f32[5], s32[5]) reduce(a, p, i, j), "
       "dimensions={1}, to_apply=largest\n ROOT k = s32[5] get-tuple-element(r), index=1"},
      {"argmax over two dims",
       "a = f32[5,3,7] parameter(0)\n p = s32[5,3,7] parameter(1)\n i = f32[] constant(-inf)\n j = "
       "s32[] constant(2147483647)\n ROOT r = (f32[3], s32[3]) reduce(a, p, i, j), "
       "dimensions={0,2}, to_apply=largest"},
      {"argmax from a start that counts",
       "a = f32[5,11] parameter(0)\n p = s32[5,11] parameter(1)\n i = f32[] constant(2)\n j = "
       "s32[] "
       "parameter(2)\n ROOT r = (f32[5], s32[5]) reduce(a, p, i, j), dimensions={1}, "
       "to_apply=largest"},
      {"reduction by xor",
       "a = u32[6,9] parameter(0)\n i = u32[] constant(0)\n ROOT r = u32[6] reduce(a, i), "
       "dimensions={1}, to_apply=xor_u32"},
      {"reduction that keeps the last",
       "a = f32[6,9] parameter(0)\n i = f32[] constant(0)\n ROOT r = f32[6] reduce(a, i), "
       "dimensions={1}, to_apply=second_of"},
      {"reduction by add of rounded values",
       "a = bf16[6,9] parameter(0)\n i = bf16[] constant(0)\n ROOT r = bf16[9] reduce(a, i), "
       "dimensions={0}, to_apply=wide_sum"},
      {"sum and sum of squares",
       "a = f32[6,9] parameter(0)\n b = f32[6,9] multiply(a, a)\n i = f32[] constant(0)\n ROOT r = "
       "(f32[9], f32[9]) reduce(a, b, i, i), dimensions={0}, to_apply=both_sums"},
      {"topk",
       "a = f32[3,17] parameter(0)\n r = (f32[3,2], s32[3,2]) topk(a), k=2, largest=true\n "
       "ROOT v = f32[3,2] get-tuple-element(r), index=0"},
      {"topk by sort and slice",
       "a = f32[3,16] parameter(0)\n p = s32[3,16] iota(), iota_dimension=1\n s = (f32[3,16], "
       "s32[3,16]) sort(a, p), dimensions={1}, is_stable=true, to_apply=more\n v = f32[3,16] "
       "get-tuple-element(s), index=0\n k = s32[3,16] get-tuple-element(s), index=1\n v2 = "
       "f32[3,2] "
       "slice(v), slice={[0:3], [0:2]}\n k2 = s32[3,2] slice(k), slice={[0:3], [0:2]}\n ROOT t = "
       "(f32[3,2], s32[3,2]) tuple(v2, k2)"},
  };
}

}  // namespace

std::vector<Program> order_programs() {
  std::vector<Program> all = windows();
  for (const auto& more : {scans(), choices()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string order_computations() { return std::string(kLargest) + kComputations; }

}  // namespace gspmd::testing
