// Reductions by computations without a name, over split dims: equal bits whatever the combiner
// does, and in two levels where its structure allows that.

#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

// `combiner` makes %r of %a and %b.
std::string combiner(const std::string& type, const std::string& lines) {
  return fmt::format("join {{ a = {0}[] parameter(0)\n b = {0}[] parameter(1)\n{1} }}\n", type,
                     lines);
}

bool reduces_twice(const std::string& computation, const std::string& entry, int64_t devices) {
  const auto module = parse_module("HloModule m\n" + computation + "ENTRY e {\n" + entry + "\n}\n");
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::string difference = difference_when_partitioned(*module, devices, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = devices;
  const CompiledModule compiled = run_pipeline(*module, options);
  int64_t reductions = 0;
  for (const auto& node : compiled.uncombined->entry()->nodes())
    reductions += node->is(Opcode::reduce);
  return reductions == 2;
}

std::string reduction(const std::string& type, const std::string& start, int64_t size) {
  return fmt::format(
      "a = {0}[6,{2}] parameter(0), sharding={{devices=[1,4]<=[4]}}\n i = {0}[] constant({1})\n "
      "ROOT r = {0}[6] reduce(a, i), dimensions={{1}}, to_apply=join",
      type, start, size);
}

const char* const kLargestPair = R"(join { a = f32[] parameter(0)
 i = s32[] parameter(1)
 b = f32[] parameter(2)
 j = s32[] parameter(3)
 g = pred[] compare(a, b), direction=GT
 v = f32[] select(g, a, b)
 k = s32[] select(g, i, j)
 ROOT r = (f32[], s32[]) tuple(v, k) }
)";

std::string largest_pairs(const std::string& dims, const std::string& sharding) {
  return fmt::format(
      "a = f32[3,4,9] parameter(0), sharding={{{1}}}\n p = s32[3,4,9] parameter(1), "
      "sharding={{{1}}}\n s = f32[] constant(1)\n t = s32[] parameter(2)\n ROOT r = "
      "(f32[{2}], s32[{2}]) reduce(a, p, s, t), dimensions={{{0}}}, to_apply=join",
      dims, sharding, dims == "2" ? "3,4" : "3");
}

}  // namespace

TEST_CASE("combiners whose order or grouping may matter reduce at one place", "[order]") {
  const auto at_one_place = [](const std::string& type, const std::string& lines,
                               const std::string& start) {
    INFO(lines);
    CHECK_FALSE(reduces_twice(combiner(type, lines), reduction(type, start, 9), 4));
  };
  at_one_place("s32",
               " s = s32[] add(a, b)\n l = s32[] constant(-3)\n h = s32[] constant(5)\n ROOT r = "
               "s32[] clamp(l, s, h)",
               "0");
  at_one_place(
      "s32",
      " m = s32[] abs(a)\n t = s32[] constant(2)\n g = pred[] compare(m, t), direction=GT\n "
      "s = s32[] add(a, b)\n ROOT r = s32[] select(g, a, s)",
      "0");
  at_one_place("s32",
               " t = s32[] constant(3)\n g = pred[] compare(a, t), direction=GE\n s = s32[] "
               "maximum(a, b)\n ROOT r = s32[] select(g, t, s)",
               "-9");
  at_one_place("f32", " ROOT r = f32[] subtract(a, b)", "0");
  at_one_place(
      "s8",
      " c = s32[] convert(a)\n d = s32[] convert(b)\n s = s32[] multiply(c, d)\n k = s32[] "
      "constant(3)\n t = s32[] divide(s, k)\n ROOT r = s8[] convert(t)",
      "1");
}

TEST_CASE("what is grouped as one likes reduces in two levels, from any initial value", "[order]") {
  const auto twice = [](const std::string& type, const std::string& lines, const char* start) {
    INFO(lines);
    for (const int64_t size : {5, 8, 9}) {  // of 5 the last part is empty
      CAPTURE(size);
      CHECK(reduces_twice(combiner(type, lines), reduction(type, start, size), 4));
    }
  };
  twice("u32", " ROOT r = u32[] xor(a, b)", "5");
  twice("f32", " ROOT r = f32[] copy(b)", "7");  // the last one
  twice("f32", " ROOT r = f32[] copy(a)", "7");  // the initial value
  twice("s32", " g = pred[] compare(a, b), direction=GE\n ROOT r = s32[] select(g, a, b)", "2");
  twice("bf16",
        " c = f32[] convert(a)\n d = f32[] convert(b)\n e = f32[] add(c, d)\n ROOT r = bf16[] "
        "convert(e)",
        "3");
}

TEST_CASE("of equal values the same one is chosen in parts", "[order]") {
  // The last of the largest: parts may be runs of the order only.
  CHECK(reduces_twice(kLargestPair, largest_pairs("2", "devices=[1,1,4]<=[4]"), 4));
  CHECK(reduces_twice(kLargestPair, largest_pairs("1,2", "devices=[1,4,1]<=[4]"), 4));
  CHECK_FALSE(reduces_twice(kLargestPair, largest_pairs("1,2", "devices=[1,1,4]<=[4]"), 4));
}

TEST_CASE("a reduction by any computation on some of the devices is right on all", "[order]") {
  CHECK(reduces_twice(combiner("u8", " ROOT r = u8[] xor(a, b)"),
                      "a = u8[4,3] parameter(0), sharding={devices=[2,1]<=[2]}\n i = u8[] "
                      "constant(0)\n ROOT r = u8[3] reduce(a, i), dimensions={0}, to_apply=join",
                      6));
  CHECK(reduces_twice(combiner("u8", " ROOT r = u8[] xor(a, b)"),
                      "a = u8[2,8] parameter(0), sharding={devices=[4,1]3,1,0,4}\n i = u8[] "
                      "constant(0)\n ROOT r = u8[8] reduce(a, i), dimensions={0}, to_apply=join",
                      8));
}

// No flags say which elements there are: what is outside of a dim is neutral. Of 5 the last part is
// empty.
TEST_CASE("several values that are joined each by itself reduce in two levels, by their ops",
          "[order]") {
  const std::string joins = R"(join { a = s32[] parameter(0)
 b = f32[] parameter(1)
 c = u8[] parameter(2)
 d = s32[] parameter(3)
 e = f32[] parameter(4)
 f = u8[] parameter(5)
 s = s32[] add(d, a)
 m = f32[] maximum(b, e)
 n = u8[] and(c, f)
 ROOT r = (s32[], f32[], u8[]) tuple(s, m, n) }
)";
  for (const int64_t size : {5, 8, 9}) {
    CAPTURE(size);
    const std::string entry = fmt::format(
        "a = s32[6,{0}] parameter(0), sharding={{devices=[1,4]<=[4]}}\n b = f32[6,{0}] "
        "parameter(1), sharding={{devices=[1,4]<=[4]}}\n c = u8[6,{0}] parameter(2), "
        "sharding={{devices=[1,4]<=[4]}}\n i = s32[] constant(7)\n j = f32[] constant(-3)\n k = "
        "u8[] constant(253)\n ROOT r = (s32[6], f32[6], u8[6]) reduce(a, b, c, i, j, k), "
        "dimensions={{1}}, to_apply=join",
        size);
    CHECK(reduces_twice(joins, entry, 4));
    PipelineOptions options;
    options.num_devices = 4;
    const auto module = parse_module("HloModule m\n" + joins + "ENTRY e {\n" + entry + "\n}\n");
    const CompiledModule compiled = run_pipeline(*module, options);
    for (const auto& node : compiled.uncombined->entry()->nodes())
      if (node->is(Opcode::reduce)) CHECK(node->operands().size() == 6);
  }
}
