// Reductions, windows, sorts, scans and random numbers as users of the field expect them completed.

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace propagate_field_combine_test {
namespace {

const char* const kMore = R"(pair { x = f32[] parameter(0)
 i = s32[] parameter(1)
 y = f32[] parameter(2)
 j = s32[] parameter(3)
 m = f32[] maximum(x, y)
 k = s32[] minimum(i, j)
 ROOT t = (f32[], s32[]) tuple(m, k) }
less { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT s = pred[] compare(x, y), direction=LT }
less2 { x = f32[] parameter(0)
 y = f32[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 ROOT s = pred[] compare(x, y), direction=LT }
step { x = f32[8,4] parameter(0)
 c = f32[8,4] parameter(1)
 s = f32[8,4] add(x, c)
 ROOT t = (f32[8,4], f32[8,4]) tuple(s, s) }
)";

std::string of(const std::string& s) { return s.empty() ? s : ", sharding=" + s; }

std::string completed_as(const std::string& body, const std::string& node,
                         const PropagateOptions& options = {}) {
  INFO(body);
  return sharding_text(*completed(body, options, kMore), node);
}

}  // namespace

TEST_CASE("completion of reductions: kept dims keep their tiles, reduced ones become copies") {
  const auto body = [](const std::string& dims, const std::string& shape, const std::string& in,
                       const std::string& out = "") {
    return "a = f32[8,12,4] parameter(0)" + of(in) + "\n z = f32[] constant(0)\n r = f32" + shape +
           " reduce(a, z), dimensions={" + dims + "}, to_apply=sum\n c = f32" + shape + " copy(r)" +
           of(out) + "\n ROOT out = f32" + shape + " copy(c)";
  };
  CHECK(completed_as(body("1", "[8,4]", "{devices=[2,2,2]<=[8]}"), "r") ==
        "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}");
  CHECK(completed_as(body("1,2", "[8]", "{devices=[1,2,2]<=[4]}"), "r") == "{replicated}");
  CHECK(completed_as(body("0,1,2", "[]", "{devices=[2,2,2]<=[8]}"), "r") == "{replicated}");
  CHECK(completed_as(body("0", "[12,4]", "{devices=[1,2,2]<=[4]}"), "r") == "{devices=[2,2]<=[4]}");
  CHECK(completed_as(body("1", "[8,4]", "{devices=[1,2,2,2]<=[8] last_tile_dims={manual}}"), "r") ==
        "{devices=[1,2,2,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}");
  PropagateOptions open;
  open.allow_parameters = {true};
  CHECK(completed_as(body("1", "[8,4]", "", "{devices=[2,2]<=[4]}"), "a", open) ==
        "{devices=[2,1,2]<=[4]}");
  CHECK(completed_as(body("0,1,2", "[]", "", "{replicated}"), "a", open) == "{replicated}");
  CHECK(completed_as(body("1", "[8,4]", "{devices=[2,1,2]<=[4]}"), "r", without_spmd()) ==
        "{devices=[2,2]<=[4]}");
  CHECK(completed_as(body("1", "[8,4]", "{devices=[2,2,1]<=[4]}"), "r", without_spmd()) ==
        "{replicated}");
}

TEST_CASE("completion of reductions: several inputs share one layout") {
  const auto body = [](const std::string& a, const std::string& b, const std::string& out = "") {
    return "a = f32[28,10] parameter(0)" + of(a) + "\n b = s32[28,10] parameter(1)" + of(b) +
           "\n z = f32[] constant(0)\n i = s32[] constant(0)\n"
           " r = (f32[28], s32[28]) reduce(a, b, z, i), dimensions={1}, to_apply=pair\n"
           " e = f32[28] get-tuple-element(r), index=0\n"
           " c = f32[28] copy(e)" +
           of(out) + "\n ROOT out = f32[28] copy(c)";
  };
  CHECK(completed_as(body("{devices=[2,1]<=[2]}", ""), "r") ==
        "{{devices=[2]<=[2]}, {devices=[2]<=[2]}}");
  CHECK(completed_as(body("", "{devices=[2,1]<=[2]}"), "r") ==
        "{{devices=[2]<=[2]}, {devices=[2]<=[2]}}");
  CHECK(completed_as(body("{manual}", "{manual}"), "r") == "{{manual}, {manual}}");
  PropagateOptions open;
  open.allow_parameters = {true};
  CHECK(completed_as(body("", "", "{devices=[4]<=[4]}"), "a", open) == "{devices=[4,1]<=[4]}");
  // The other input tells what the result cannot.
  CHECK(completed_as(body("", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}",
                          "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"),
                     "a", open) == "{devices=[2,2]<=[2,2]T(1,0)}");
}

TEST_CASE("completion of reduce-window: positions stay with the input unless it is dilated") {
  const auto body = [](const std::string& in, const std::string& window, const std::string& shape,
                       const std::string& out = "") {
    return "p = f32[13,17] parameter(0)\n a = f32[13,17] copy(p)" + of(in) +
           "\n z = f32[] constant(0)\n r = f32" + shape + " reduce-window(a, z), window={" +
           window + "}, to_apply=sum\n c = f32" + shape + " copy(r)" + of(out) +
           "\n ROOT out = f32" + shape + " copy(c)";
  };
  PropagateOptions open;
  open.allow_parameters = {true};
  const std::string two = "{devices=[2,1]<=[2]}";
  CHECK(completed_as(body(two, "size=3x2 stride=1x1 pad=1_1x0_1", "[13,17]"), "r") == two);
  CHECK(completed_as(body(two, "size=3x2 stride=2x2 pad=1_1x0_1", "[7,9]"), "r") == two);
  CHECK(completed_as(body("", "size=3x2 stride=1x1 pad=1_1x0_1", "[13,17]", two), "a") == two);
  CHECK(completed_as(body(two, "size=2x1 rhs_dilate=2x1", "[11,17]"), "r") == "none");
  CHECK(completed_as(body(two, "size=3x2 pad=1_1x0_1", "[13,17]"), "r", without_spmd()) == two);
}

TEST_CASE("completion of select-and-scatter: the data's layout, both ways") {
  const auto body = [](const std::string& in, const std::string& out = "") {
    return "a = f32[8,6,6] parameter(0)" + of(in) +
           "\n s = f32[8,3,3] parameter(1)\n z = f32[] constant(0)\n"
           " g = f32[8,6,6] select-and-scatter(a, s, z), window={size=1x2x2 stride=1x2x2}, "
           "select=less, scatter=sum\n c = f32[8,6,6] copy(g)" +
           of(out) + "\n ROOT out = f32[8,6,6] copy(c)";
  };
  PropagateOptions open;
  open.allow_parameters = {true};
  const std::string s = "{devices=[2,2,1]<=[4]}";
  CHECK(completed_as(body(s), "g") == s);
  CHECK(completed_as(body("", s), "a", open) == s);
}

TEST_CASE("completion of sorts: a split sorted dim goes on only where it can move away") {
  const auto body = [](const std::string& shape, const std::string& in) {
    return "a = f32" + shape + " parameter(0)" + of(in) + "\n r = f32" + shape +
           " sort(a), dimensions={1}, to_apply=less\n ROOT out = f32" + shape + " copy(r)";
  };
  CHECK(completed_as(body("[16,32]", "{devices=[4,1]<=[4]}"), "r") == "{devices=[4,1]<=[4]}");
  CHECK(completed_as(body("[16,32]", "{devices=[1,8]<=[8]}"), "r") == "{devices=[1,8]<=[8]}");
  CHECK(completed_as(body("[17,32]", "{devices=[1,8]<=[8]}"), "r") == "none");
  CHECK(completed_as(body("[16,32]", "{replicated}"), "r") == "{replicated}");
  const std::string two = R"(a = f32[16,32] parameter(0), sharding={devices=[4,1]<=[4]}
 b = s32[16,32] iota(), iota_dimension=1
 r = (f32[16,32], s32[16,32]) sort(a, b), dimensions={1}, to_apply=less2
 e = f32[16,32] get-tuple-element(r), index=0
 ROOT out = f32[16,32] copy(e))";
  CHECK(completed_as(two, "r") == "{{devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}}");
  CHECK(completed_as(two, "b") == "{devices=[4,1]<=[4]}");
}

TEST_CASE("completion of scans: outputs follow inputs, carries one step of them") {
  const auto body = [](const std::string& in, const std::string& init) {
    return "a = f32[8,16,4] parameter(0)" + of(in) + "\n i = f32[8,4] parameter(1)" + of(init) +
           "\n r = (f32[8,16,4], f32[8,4]) scan(a, i), dimensions={1}, num_carries=1, "
           "to_apply=step\n e = f32[8,16,4] get-tuple-element(r), index=0\n"
           " ROOT out = f32[8,16,4] copy(e)";
  };
  CHECK(completed_as(body("{devices=[2,1,2]<=[4]}", ""), "r") ==
        "{{devices=[2,1,2]<=[4]}, {devices=[2,2]<=[4]}}");
  CHECK(completed_as(body("{devices=[1,4,1]<=[4]}", ""), "r") ==
        "{{devices=[1,4,1]<=[4]}, {replicated}}");
  CHECK(completed_as(body("", "{devices=[4,1]<=[4]}"), "r") ==
        "{{replicated}, {devices=[4,1]<=[4]}}");
  PropagateOptions open;
  open.allow_parameters = {true};
  CHECK(completed_as(body("{devices=[2,1,2]<=[4]}", ""), "i", open) == "{devices=[2,2]<=[4]}");
}

TEST_CASE("completion of random numbers: bounds only say which devices, seeds are whole") {
  const std::string rng = R"(lo = f32[] parameter(0), sharding={replicated}
 hi = f32[] constant(1)
 r = f32[8,4] rng(lo, hi), distribution=rng_uniform
 m = f32[8,4] negate(r), sharding={devices=[4,1]<=[4]}
 ROOT out = f32[8,4] copy(m))";
  CHECK(completed_as(rng, "r") == "{devices=[4,1]<=[4]}");
  CHECK(completed_as(rng, "r", without_spmd()) == "none");
  const std::string bits = R"(s = u64[2] parameter(0)
 n = u64[2] copy(s)
 r = (u64[2], u32[8,4]) rng-bit-generator(n), algorithm=rng_default
 b = u32[8,4] get-tuple-element(r), index=1
 m = u32[8,4] not(b), sharding={devices=[4,1]<=[4]}
 ROOT out = u32[8,4] copy(m))";
  CHECK(completed_as(bits, "r") == "{{replicated}, {devices=[4,1]<=[4]}}");
  CHECK(completed_as(bits, "n") == "{replicated}");
}

TEST_CASE("completion of ops that cannot be split: replicated beside replicated operands only") {
  const auto body = [](const std::string& in) {
    return "a = f32[8,8] parameter(0)" + of(in) +
           "\n r = f32[8,8] cholesky(a), lower=true\n m = f32[8,8] negate(r)\n"
           " ROOT out = f32[8,8] copy(m)";
  };
  CHECK(completed_as(body("{replicated}"), "r") == "{replicated}");
  CHECK(completed_as(body("{devices=[4,1]<=[4]}"), "r") == "none");
  const std::string back = R"(a = f32[8,8] parameter(0)
 n = f32[8,8] negate(a)
 r = f32[8,8] cholesky(n), lower=true, sharding={devices=[4,1]<=[4]}
 ROOT out = f32[8,8] copy(r))";
  CHECK(completed_as(back, "n") == "{devices=[4,1]<=[4]}");
}

}  // namespace propagate_field_combine_test
