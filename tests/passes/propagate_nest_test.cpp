// Completion by loop nests on forms where it could differ from rules per op.

#include <catch2/catch.hpp>

#include "passes/propagate_check.h"

namespace gspmd::testing {
namespace {

// Three updates of one scatter; the sharding of its indices.
std::string indices_of(const std::string& u, const std::string& v, const std::string& w) {
  const auto module = completed(
      "x = f32[64] parameter(0)\ny = f32[64] parameter(1)\nz = f32[64] parameter(2)\n"
      "given = s32[8,8,1] parameter(3)\ni = s32[8,8,1] negate(given)\n"
      "u = f32[8,8] parameter(4), sharding=" +
          u + "\nv = f32[8,8] parameter(5), sharding=" + v +
          "\nw = f32[8,8] parameter(6), sharding=" + w +
          "\ns = (f32[64],f32[64],f32[64]) scatter(x,y,z,i,u,v,w), update_window_dims={}, "
          "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, "
          "to_apply=three, sharding={{replicated},{replicated},{replicated}}\n"
          "ROOT out = f32[64] get-tuple-element(s), index=0",
      {},
      "three { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n "
      "d = f32[] parameter(3)\n e = f32[] parameter(4)\n f = f32[] parameter(5)\n "
      "ROOT t = (f32[],f32[],f32[]) tuple(d,e,f) }");
  return sharding_text(*module, "i");
}

TEST_CASE("indices hear all updates of a scatter, or the first where they disagree") {
  const std::string rows = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
  const std::string columns = "{devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}";
  CHECK(indices_of(rows, columns, columns) == "{devices=[2,2,1,2]<=[8] last_tile_dim_replicate}");
  CHECK(indices_of(rows, columns, "{devices=[8,1]<=[4,2]T(1,0)}") ==
        "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}");
  CHECK(indices_of(columns, rows, "{devices=[1,8]<=[4,2]T(1,0)}") ==
        "{devices=[1,2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
  CHECK(indices_of("{replicated}", "{devices=[1,1,2,4]<=[8] last_tile_dims={manual,replicated}}",
                   "{replicated}") ==
        "{devices=[1,1,1,2,4]<=[8] last_tile_dims={manual, replicated}}");
}

TEST_CASE("subgroups that an op hands on keep their spelling") {
  const std::string given = "{devices=[2,1,2,2]<=[8] last_tile_dims={replicated, manual}}";
  const auto module = completed("x = f32[8,16] parameter(0), sharding=" + given +
                                "\nn = f32[8,16] negate(x)\n"
                                "s = f32[8,8] slice(n), slice={[0:8],[0:8]}\n"
                                "m = f32[8,8] negate(s)\nROOT out = f32[8,8] copy(m)");
  CHECK(sharding_text(*module, "s") == given);
  CHECK(sharding_text(*module, "m") == given);
}

TEST_CASE("what a user left open of a product is filled by its operands") {
  const auto module = completed(
      "x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "y = f32[16,8] parameter(1), sharding={replicated}\n"
      "d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "sharding={mesh['a'=4], [{?},{?}]}\nROOT out = f32[8,8] negate(d)");
  CHECK(find_node(*module, "d")->sharding->tiles(0) == 4);
}

TEST_CASE("an index that counts along a dim needs slices of one element there, kept or not") {
  const std::string body =
      "x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "i = s32[8,1] iota(), iota_dimension=0\n"
      "g = f32[8,1,16] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}\n"
      "ROOT out = f32[8,1,16] negate(g)";
  CHECK(completes(body, "g") == "{devices=[4,1,1]<=[4]}");
}

TEST_CASE("numbers that wrap around do not count along a dim") {
  const std::string body =
      "x = f32[300,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "i = u8[300,1] iota(), iota_dimension=0\n"
      "g = f32[300,16] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}\n"
      "ROOT out = f32[300,16] negate(g)";
  CHECK(completes(body, "g") == "none");
}

TEST_CASE("a concatenation of thousands completes as fast as it is long") {
  std::string body, names;
  for (int i = 0; i < 4000; ++i) {
    const std::string n = std::to_string(i);
    body +=
        "p" + n + " = f32[2,4] parameter(" + n + ")\nn" + n + " = f32[2,4] negate(p" + n + ")\n";
    names += (i == 0 ? "n" : ", n") + n;
  }
  body += "c = f32[8000,4] concatenate(" + names + "), dimensions={0}\n";
  body += "ROOT out = f32[8000,4] copy(c), sharding={devices=[1,4]<=[4]}";
  CHECK(completes(body, "n3999") == "{devices=[1,4]<=[4]}");
}

}  // namespace
}  // namespace gspmd::testing
