// Gather, scatter, dynamic slices and what joins or moves elements, as users of the field expect.

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace propagate_field_index_test {
namespace {

std::string of(const std::string& s) { return s.empty() ? s : ", sharding=" + s; }

PropagateOptions open_parameters() {
  PropagateOptions options;
  options.allow_parameters = {true};
  return options;
}

// Rows of a table [9,16] looked up by [8] indices.
std::string look_up(const std::string& table, const std::string& indices,
                    const std::string& out = "") {
  return "t = f32[9,16] parameter(0)" + of(table) + "\n i = s32[8] parameter(1)" + of(indices) +
         "\n g = f32[8,16] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
         "start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}\n c = f32[8,16] copy(g)" +
         of(out) + "\n ROOT out = f32[8,16] copy(c)";
}

// Position (i, j) of an [8,4,6] operand looked up at position (i, j).
std::string diagonal(const std::string& operand, const std::string& indices,
                     const std::string& out = "") {
  return "t = f32[8,4,6] parameter(0)" + of(operand) +
         "\n i = s32[1,8,4] iota(), iota_dimension=1\n j = s32[1,8,4] iota(), iota_dimension=2\n"
         " k = s32[2,8,4] concatenate(i, j), dimensions={0}" +
         of(indices) +
         "\n g = f32[8,4,6] gather(t, k), offset_dims={2}, collapsed_slice_dims={0,1}, "
         "start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1,6}\n c = f32[8,4,6] copy(g)" +
         of(out) + "\n ROOT out = f32[8,4,6] copy(c)";
}

std::string scatter_of(const std::string& table, const std::string& indices,
                       const std::string& updates, const std::string& out = "") {
  return "t = f32[9,16] parameter(0)" + of(table) + "\n i = s32[8] parameter(1)" + of(indices) +
         "\n u = f32[8,16] parameter(2)" + of(updates) +
         "\n g = f32[9,16] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
         "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
         " c = f32[9,16] copy(g)" +
         of(out) + "\n ROOT out = f32[9,16] copy(c)";
}

}  // namespace

TEST_CASE("completion of gathers: index batch dims and whole slices") {
  CHECK(completes(look_up("", "{devices=[4]<=[4]}"), "g") == "{devices=[4,1]<=[4]}");
  CHECK(completes(look_up("{devices=[1,4]<=[4]}", ""), "g") == "{devices=[1,4]<=[4]}");
  CHECK(completes(look_up("{devices=[3,1]<=[3]}", ""), "g") == "none");
  CHECK(completes(look_up("{devices=[1,2,2]<=[4] last_tile_dim_replicate}",
                          "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"),
                  "g") == "{devices=[2,2]<=[2,2]T(1,0)}");
  CHECK(completes(look_up("", "{replicated}"), "g") == "{replicated}");
  CHECK(completes(look_up("", "", "{devices=[2,2]<=[4]}"), "i", open_parameters()) ==
        "{devices=[2,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(look_up("", "", "{devices=[2,2]<=[4]}"), "t", open_parameters()) ==
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
}

TEST_CASE("completion of gathers without SPMD: the indices only") {
  PropagateOptions options = without_spmd();
  CHECK(completes(look_up("", "{devices=[4]<=[4]}"), "g", options) == "{devices=[4,1]<=[4]}");
  CHECK(completes(look_up("{devices=[1,4]<=[4]}", ""), "g", options) == "none");
  options.allow_parameters = {true};
  CHECK(completes(look_up("", "", "{devices=[4,1]<=[4]}"), "i", options) == "{devices=[4]<=[4]}");
  CHECK(completes(look_up("", "", "{devices=[4,1]<=[4]}"), "t", options) == "none");
}

TEST_CASE("completion of gathers: look-ups of a position at itself") {
  const std::string s = "{devices=[2,2,1]<=[4]}";
  CHECK(completes(diagonal(s, ""), "g") == s);
  CHECK(completes(diagonal("{devices=[2,2,2]<=[8]}", ""), "g") == "{devices=[2,2,2]<=[8]}");
  CHECK(completes(diagonal("", "{devices=[1,2,2]<=[4]}"), "g") == s);
  CHECK(completes(diagonal("", "", s), "t", open_parameters()) == s);
  CHECK(completes(diagonal("", "", s), "k") == "{devices=[1,2,2]<=[4]}");
  CHECK(completes(diagonal(s, ""), "g", without_spmd()) == "none");
  // The result tells the indices what the operand told it.
  CHECK(completes(diagonal(s, ""), "k") == "{devices=[1,2,2]<=[4]}");
}

TEST_CASE("completion of gathers: positions that a loop hands on unchanged") {
  const char* const loop = R"(
cond { p = (s32[], f32[8,6], s32[8]) parameter(0)
 n = s32[] get-tuple-element(p), index=0
 k = s32[] constant(5)
 ROOT r = pred[] compare(n, k), direction=LT }
body { p = (s32[], f32[8,6], s32[8]) parameter(0)
 n = s32[] get-tuple-element(p), index=0
 one = s32[] constant(1)
 next = s32[] add(n, one)
 t = f32[8,6] get-tuple-element(p), index=1
 i = s32[8] get-tuple-element(p), index=2
 g = f32[8,6] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
 ROOT r = (s32[], f32[8,6], s32[8]) tuple(next, g, i) }
)";
  const auto body = [](const std::string& indices) {
    return "z = s32[] constant(0)\n t = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}\n" +
           indices +
           " s = (s32[], f32[8,6], s32[8]) tuple(z, t, i)\n"
           " w = (s32[], f32[8,6], s32[8]) while(s), condition=cond, body=body\n"
           " e = f32[8,6] get-tuple-element(w), index=1\n ROOT out = f32[8,6] copy(e)";
  };
  CHECK(sharding_text(*completed(body(" i = s32[8] iota(), iota_dimension=0\n"), {}, loop), "g") ==
        "{devices=[4,1]<=[4]}");
}

TEST_CASE("completion of scatters: operands, whole slices, and batch dims of the updates") {
  CHECK(completes(scatter_of("{devices=[3,1]<=[3]}", "", ""), "g") == "{devices=[3,1]<=[3]}");
  CHECK(completes(scatter_of("", "", "{devices=[1,4]<=[4]}"), "g") == "{devices=[1,4]<=[4]}");
  CHECK(completes(scatter_of("", "", "{devices=[4,1]<=[4]}"), "g") == "none");
  CHECK(completes(scatter_of("", "", "{devices=[4,1]<=[4]}"), "i", open_parameters()) == "none");
  CHECK(completes(scatter_of("{replicated}", "", "{devices=[4,1]<=[4]}"), "i", open_parameters()) ==
        "{devices=[4]<=[4]}");
  CHECK(completes(scatter_of("", "{devices=[4]<=[4]}", ""), "u", open_parameters()) == "none");
  CHECK(completes(scatter_of("", "{devices=[4]<=[4]}", "", "{devices=[3,1]<=[3]}"), "u",
                  open_parameters()) == "{devices=[4,1]<=[4]}");
  CHECK(completes(scatter_of("", "", "", "{devices=[1,4]<=[4]}"), "t", open_parameters()) ==
        "{devices=[1,4]<=[4]}");
  CHECK(completes(scatter_of("", "", "", "{devices=[1,4]<=[4]}"), "u", open_parameters()) ==
        "{devices=[1,4]<=[4]}");
  CHECK(completes(scatter_of("", "{devices=[2,2]<=[4] last_tile_dim_replicate}", "",
                             "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"),
                  "u", open_parameters()) == "{devices=[2,2]<=[4]}");
  CHECK(completes(scatter_of("{devices=[3,1]<=[3]}", "", ""), "g", without_spmd()) ==
        "{replicated}");
}

TEST_CASE("completion of dynamic slices: cut dims are whole, the others pass") {
  const auto slice = [](const std::string& in, const std::string& out = "") {
    return "a = f32[8,6] parameter(0)" + of(in) +
           "\n n = s32[] parameter(1)\n"
           " z = s32[] constant(0)\n d = f32[8,2] dynamic-slice(a, z, n), "
           "dynamic_slice_sizes={8,2}\n c = f32[8,2] copy(d)" +
           of(out) + "\n ROOT out = f32[8,2] copy(c)";
  };
  CHECK(completes(slice("{devices=[2,2]<=[4]}"), "d") ==
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(slice("{devices=[1,2]<=[2]}"), "d") == "{replicated}");
  CHECK(completes(slice("", "{devices=[2,2]<=[4]}"), "a", open_parameters()) ==
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  const auto update = [](const std::string& in, const std::string& part,
                         const std::string& out = "") {
    return "a = f32[8,6] parameter(0)" + of(in) + "\n u = f32[8,2] parameter(1)" + of(part) +
           "\n n = s32[] parameter(2)\n z = s32[] constant(0)\n"
           " d = f32[8,6] dynamic-update-slice(a, u, z, n)\n c = f32[8,6] copy(d)" +
           of(out) + "\n ROOT out = f32[8,6] copy(c)";
  };
  CHECK(completes(update("{devices=[2,2]<=[4]}", ""), "d") == "{devices=[2,2]<=[4]}");
  CHECK(completes(update("", "{devices=[2,2]<=[4]}"), "d") ==
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(update("", "", "{devices=[2,2]<=[4]}"), "a", open_parameters()) ==
        "{devices=[2,2]<=[4]}");
  CHECK(completes(update("", "", "{devices=[2,2]<=[4]}"), "u", open_parameters()) ==
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
}

TEST_CASE("completion of concatenations: one layout for all, pieces without SPMD") {
  const auto body = [](const std::string& a, const std::string& out) {
    return "a = f32[4,8] parameter(0)" + of(a) +
           "\n b = f32[4,24] parameter(1)\n n = f32[4,8] negate(a)\n m = f32[4,24] negate(b)\n"
           " j = f32[4,32] concatenate(n, m), dimensions={1}\n c = f32[4,32] copy(j)" +
           of(out) + "\n ROOT out = f32[4,32] copy(c)";
  };
  const std::string s = "{devices=[1,4]<=[4]}";
  CHECK(completes(body(s, ""), "j") == s);
  CHECK(completes(body("", s), "n") == s);
  CHECK(completes(body("", s), "n", without_spmd()) == "none");
  CHECK(completes(body("", s), "m", without_spmd()) == "{devices=[1,3]1,2,3}");
  CHECK(completes(body("", "{devices=[2,1]<=[2]}"), "m", without_spmd()) == "{devices=[2,1]<=[2]}");
  // Too many devices to list those of a piece.
  CHECK(completes(body("", "{devices=[1,4194304]<=[4194304]}"), "m", without_spmd()) == "none");
}

TEST_CASE("completion of reshapes: size-one dims, merges, splits and what is left over") {
  struct Case {
    const char *from, *in, *to, *out;
  };
  const Case cases[] = {
      {"[110,1]", "{devices=[2,1]<=[2]}", "[10,11]", "{devices=[2,1]<=[2]}"},
      {"[6,4,5]", "{devices=[6,2,1]<=[12]}", "[2,3,20]", "{devices=[2,3,2]<=[12]}"},
      {"[6,4,5]", "{devices=[6,2,1]<=[12]}", "[6,20]", "{devices=[6,2]<=[12]}"},
      {"[14,32]", "{devices=[4,4]<=[16]}", "[7,2,2,16]",
       "{devices=[1,1,2,2,4]<=[4,4]T(1,0) last_tile_dim_replicate}"},
      {"[12,8]", "{devices=[2,4]<=[8]}", "[8,12]",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"[6,2,5]", "{devices=[2,1,5]<=[10]}", "[4,3,5]", "{devices=[2,1,5]<=[10]}"},
      {"[1,3,3]", "{devices=[2,1,1,2]<=[4] last_tile_dims={manual}}", "[3,1,3,1]",
       "{devices=[1,1,1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}"},
      {"[4,4]", "{devices=[2,2]<=[4]}", "[16]", "{devices=[2,2]<=[4] last_tile_dim_replicate}"},
      {"[2,8]", "{devices=[2,2]<=[4]}", "[16]", "{devices=[4]<=[4]}"},
      {"[16]", "{devices=[8]<=[8]}", "[4,4]", "{devices=[4,2]<=[8]}"},
      {"[5,8]", "{devices=[2,2]<=[4]}", "[5,2,4]", "{devices=[2,2,1]<=[4]}"},
  };
  for (const Case& c : cases) {
    INFO(c.from << " " << c.in << " to " << c.to);
    const std::string body = std::string("a = f32") + c.from + " parameter(0), sharding=" + c.in +
                             "\n r = f32" + c.to + " reshape(a)\n ROOT out = f32" + c.to +
                             " copy(r)";
    CHECK(completes(body, "r") == c.out);
  }
}

TEST_CASE("completion of reverses: the devices run backwards, in SPMD only") {
  const std::string body = R"(a = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
 r = f32[4,8] reverse(a), dimensions={1}
 ROOT out = f32[4,8] copy(r))";
  CHECK(completes(body, "r") == "{devices=[2,2]1,0,3,2}");
  CHECK(completes(body, "r", without_spmd()) == "none");
  // Too many devices to list: the reversed dim is whole.
  const std::string many =
      R"(a = f32[4,4194304] parameter(0), sharding={devices=[2,2097152]<=[4194304]}
 r = f32[4,4194304] reverse(a), dimensions={1}
 ROOT out = f32[4,4194304] copy(r))";
  CHECK(completes(many, "r") == "{devices=[2,1,2097152]<=[4194304] last_tile_dim_replicate}");
}

TEST_CASE("completion of gathers: dims that operand and indices share by name, in both modes") {
  const auto body = [](const std::string& operand, const std::string& indices) {
    return "t = f32[4,9,16] parameter(0)" + of(operand) + "\n i = s32[4,8] parameter(1)" +
           of(indices) +
           "\n g = f32[4,8,16] gather(t, i), offset_dims={2}, collapsed_slice_dims={1}, "
           "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
           "index_vector_dim=2, slice_sizes={1,1,16}\n ROOT out = f32[4,8,16] copy(g)";
  };
  CHECK(completes(body("{devices=[2,1,1]<=[2]}", ""), "g") == "{devices=[2,1,1]<=[2]}");
  CHECK(completes(body("{devices=[2,1,2]<=[4]}", ""), "g") == "{devices=[2,1,2]<=[4]}");
  CHECK(completes(body("", "{devices=[2,2]<=[4]}"), "g") == "{devices=[2,2,1]<=[4]}");
  CHECK(completes(body("{devices=[2,1,2]<=[4]}", ""), "g", without_spmd()) ==
        "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
}

}  // namespace propagate_field_index_test
