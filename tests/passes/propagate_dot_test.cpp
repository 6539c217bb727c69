// Products, look-ups and what decides between their operands (docs/spec/completion.md 6).

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

TEST_CASE("propagate: dot forward joins free dims and drops the summed one") {
  CHECK(completes(
            R"(x = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 w = f32[4,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT out = f32[8,6] copy(y))",
            "y") == "{devices=[2,2]<=[4]}");
  CHECK(completes(R"(x = f32[8,4] parameter(0), sharding={devices=[2,2]<=[4]}
 w = f32[4,6] parameter(1)
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT out = f32[8,6] copy(y))",
                  "y") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(R"(x = f32[4,8,6] parameter(0), sharding={devices=[2,2,1]<=[4]}
 w = f32[4,7,6] parameter(1)
 y = f32[4,8,7] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
 ROOT out = f32[4,8,7] copy(y))",
                  "y") == "{devices=[2,2,1]<=[4]}");
}

TEST_CASE("propagate: of two operands that disagree the larger wins") {
  const auto result = [](const char* lhs, const char* rhs) {
    return completes(fmt::format(R"(x = f32[{},8] parameter(0), sharding={{devices=[4,1]<=[4]}}
 w = f32[8,{}] parameter(1), sharding={{devices=[1,4]<=[4]}}
 y = f32[{},{}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 ROOT out = f32[{},{}] copy(y))",
                                 lhs, rhs, lhs, rhs, lhs, rhs),
                     "y");
  };
  CHECK(result("16", "32") == "{devices=[1,4]<=[4]}");
  CHECK(result("32", "16") == "{devices=[4,1]<=[4]}");
  CHECK(result("16", "16") == "{devices=[4,1]<=[4]}");
}

TEST_CASE("propagate: a reader further on breaks the tie of a dot") {
  CHECK(completes(R"(x = f32[32,8] parameter(0), sharding={devices=[4,1]<=[4]}
 w = f32[8,16] parameter(1), sharding={devices=[1,4]<=[4]}
 y = f32[32,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 z = f32[] constant(0)
 t = f32[34,16] pad(y, z), padding=1_1x0_0
 v = f32[16,34] transpose(t), dimensions={1,0}
 c = f32[16,34] copy(v), sharding={devices=[4,1]<=[4]}
 ROOT out = f32[16,34] copy(c))",
                  "y") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: dot backward, with what the other operand says of the summed dim") {
  const char* const body = R"(x = f32[8,4] iota(), iota_dimension=0
 w = f32[4,6] parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 c = f32[8,6] copy(y), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 ROOT out = f32[8,6] copy(c))";
  CHECK(completes(body, "x") == "{devices=[2,2]<=[4]}");
  CHECK(completes(R"(x = f32[8,4] iota(), iota_dimension=0
 w = f32[4,6] iota(), iota_dimension=0
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 c = f32[8,6] copy(y), sharding={devices=[2,2]<=[4]}
 ROOT out = f32[8,6] copy(c))",
                  "w") == "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
}

TEST_CASE("propagate: the other operand of a dot decides where it splits more") {
  CHECK(completes(R"(x = f32[8,4] iota(), iota_dimension=0
 w = f32[4,6] parameter(0), sharding={devices=[4,1]<=[4]}
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 c = f32[8,6] copy(y), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 ROOT out = f32[8,6] copy(c))",
                  "x") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: gather carries batch dims of the indices and whole dims of the operand") {
  const std::string lookup =
      R"(r = f32[8,16] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}
 )";
  CHECK(
      completes(
          "t = f32[10,16] parameter(0)\n i = s32[8] parameter(1), sharding={devices=[4]<=[4]}\n " +
              lookup + "ROOT out = f32[8,16] copy(r)",
          "r") == "{devices=[4,1]<=[4]}");
  CHECK(completes("t = f32[10,16] parameter(0), sharding={devices=[2,2]<=[4]}\n i = s32[8] "
                  "parameter(1)\n " +
                      lookup + "ROOT out = f32[8,16] copy(r)",
                  "r") == "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  CHECK(completes("t = f32[10,16] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[8] "
                  "parameter(1)\n " +
                      lookup + "ROOT out = f32[8,16] copy(r)",
                  "r") == "none");
  CHECK(completes(
            "t = f32[10,16] parameter(0), sharding={devices=[1,2,2]<=[2,2]T(1,0) "
            "last_tile_dim_replicate}\n"
            " i = s32[8] parameter(1), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}\n " +
                lookup + "ROOT out = f32[8,16] copy(r)",
            "r") == "{devices=[2,2]<=[4]}");
  const std::string backward =
      "t = f32[10,16] iota(), iota_dimension=0\n i = s32[8] iota(), iota_dimension=0\n " + lookup +
      R"(c = f32[8,16] copy(r), sharding={devices=[2,2]<=[4]}
 ROOT out = f32[8,16] copy(c))";
  CHECK(completes(backward, "t") == "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  CHECK(completes(backward, "i") == "{devices=[2,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(backward, "t", without_spmd()) == "none");
}

TEST_CASE("propagate: gather and scatter with batching dims") {
  const std::string body =
      R"(t = f32[6,9,4] parameter(0), sharding={devices=[2,1,1,2]<=[4] last_tile_dim_replicate}
 i = s32[6,5,1] iota(), iota_dimension=0
 r = f32[6,5,4] gather(t, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,4}
 ROOT out = f32[6,5,4] copy(r))";
  CHECK(completes(body, "r") == "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(body, "i") == "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
  const std::string scatter = R"(t = f32[6,9,4] iota(), iota_dimension=0
 i = s32[6,5,1] parameter(0), sharding={devices=[2,1,1,2]<=[4] last_tile_dim_replicate}
 u = f32[6,5,4] iota(), iota_dimension=0
 r = f32[6,9,4] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=sum
 ROOT out = f32[6,9,4] copy(r))";
  CHECK(completes(scatter, "r") == "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(scatter, "t") == "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(scatter, "u") == "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
}

TEST_CASE("propagate: scatter follows its operand, and its updates where they span a dim") {
  const auto scatter = [](const char* t, const char* i, const char* u, const char* node,
                          PropagateOptions options = {}) {
    return completes(fmt::format(R"(t = f32[10,16] {}
 i = s32[8] {}
 u = f32[8,16] {}
 r = f32[10,16] scatter(t, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum
 ROOT out = f32[10,16] copy(r))",
                                 t, i, u),
                     node, options);
  };
  const char* const plain = "iota(), iota_dimension=0";
  const char* const rows = "parameter(0), sharding={devices=[4,1]<=[4]}";
  const char* const columns =
      "parameter(0), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
  CHECK(scatter(rows, plain, plain, "r") == "{devices=[4,1]<=[4]}");
  CHECK(scatter(plain, plain, rows, "r") == "none");
  CHECK(scatter(plain, plain, columns, "r") ==
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  CHECK(scatter(plain, plain, columns, "t") ==
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  // Indices and updates agree on which updates there are, once the result has a layout.
  CHECK(scatter(columns, "parameter(1), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}",
                plain, "u") == "{devices=[2,2]<=[4]}");
  CHECK(scatter(columns, plain, "parameter(1), sharding={devices=[4,1]<=[4]}", "i") ==
        "{devices=[4]<=[4]}");
  CHECK(scatter(rows, plain, plain, "r", without_spmd()) == "{replicated}");
}

TEST_CASE("propagate: looking up row i for position i is one loop") {
  // Indices (i, k[i,j]) into t: dim 0 of the operand is dim 0 of the indices.
  const std::string body = R"(t = f32[8,9,4] TABLE
 n = s32[8,5,1] iota(), iota_dimension=0
 k = s32[8,5,1] parameter(0)
 i = s32[8,5,2] concatenate(n, k), dimensions={2}
 r = f32[8,5,4] gather(t, i), offset_dims={2}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1,4}
 c = f32[8,5,4] copy(r)RESULT
 ROOT out = f32[8,5,4] copy(c))";
  const auto with = [&](std::string table, std::string result, const char* node,
                        PropagateOptions options = {}) {
    std::string text = body;
    text.replace(text.find("TABLE"), 5, table);
    text.replace(text.find("RESULT"), 6, result);
    return completes(text, node, options);
  };
  const std::string given = "parameter(1), sharding={devices=[4,1,1]<=[4]}";
  CHECK(with(given, "", "r") == "{devices=[4,1,1]<=[4]}");
  CHECK(with(given, "", "i") == "{devices=[4,1,1]<=[4]}");
  CHECK(with(given, "", "r", without_spmd()) == "none");
  CHECK(with("iota(), iota_dimension=0", ", sharding={devices=[2,1,2]<=[4]}", "t") ==
        "{devices=[2,1,2]<=[4]}");
}
