// Products of two operands as users of the field expect them completed (docs/spec/completion.md 6).

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

struct Row {
  const char* what;
  const char* body;
  const char* node;
  const char* sharding;
};

void check(const std::vector<Row>& rows, const PropagateOptions& options = {}) {
  for (const Row& row : rows) {
    INFO(row.what << "\n" << row.body);
    CHECK(completes(row.body, row.node, options) == row.sharding);
  }
}

// A dot of a and b with contracting dims (1) and (0), read by a copy.
std::string dot_of(const std::string& a, const std::string& b, const std::string& out = "") {
  const auto of = [](const std::string& s) { return s.empty() ? s : ", sharding=" + s; };
  return "a = f32[64,32] parameter(0)" + of(a) + "\n b = f32[32,48] parameter(1)" + of(b) +
         "\n d = f32[64,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         " c = f32[64,48] copy(d)" +
         of(out) + "\n ROOT out = f32[64,48] copy(c)";
}

}  // namespace

TEST_CASE("completion of dots: free dims of both operands meet in the result") {
  struct Case {
    const char *a, *b, *result;
  };
  const Case cases[] = {
      {"{devices=[2,1]<=[2]}", "", "{devices=[2,1]<=[2]}"},
      {"", "{devices=[1,2]<=[2]}", "{devices=[1,2]<=[2]}"},
      {"{devices=[1,2]<=[2]}", "", "{replicated}"},
      {"", "{devices=[2,1]<=[2]}", "{replicated}"},
      {"{devices=[2,2]<=[4]}", "", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      {"{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
       "{devices=[2,2,2]<=[2,2,2]T(1,2,0) last_tile_dim_replicate}",
       "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}"},
      // Both want the same devices: the operand with more bytes goes first.
      {"{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
       "{devices=[1,2,4]<=[8] last_tile_dim_replicate}",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{replicated}", "{devices=[1,4]<=[4]}", "{devices=[1,4]<=[4]}"},
      {"{replicated}", "{replicated}", "{replicated}"},
      {"{devices=[2,1,2]<=[4] last_tile_dims={manual}}", "",
       "{devices=[2,1,2]<=[4] last_tile_dims={manual}}"},
      {"{devices=[1,2,2]<=[4] last_tile_dims={manual}}", "",
       "{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}"},
  };
  for (const Case& c : cases) {
    INFO(c.a << " x " << c.b);
    CHECK(completes(dot_of(c.a, c.b), "d") == c.result);
  }
}

TEST_CASE("completion of dots: the result and the other operand tell an operand its layout") {
  CHECK(completes(dot_of("", "", "{devices=[4,2]<=[8]}"), "d") == "{devices=[4,2]<=[8]}");
  PropagateOptions open;
  open.allow_parameters = {true};
  CHECK(completes(dot_of("", "", "{devices=[4,2]<=[8]}"), "a", open) ==
        "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  CHECK(completes(dot_of("", "", "{devices=[4,2]<=[8]}"), "b", open) ==
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  // The contracting dim of b tells a, once the result has a say at all.
  CHECK(completes(dot_of("", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
                         "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"),
                  "a", open) == "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
}

TEST_CASE("completion of dots: of two layouts the one that the reader has wins") {
  const auto body = [](const std::string& a, const std::string& b, const std::string& reader) {
    return "a = f32[64,32] parameter(0), sharding=" + a +
           "\n b = f32[128,32] parameter(1), sharding=" + b +
           "\n d = f32[64,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
           " t = f32[128,64] transpose(d), dimensions={1,0}\n"
           " m = f32[8,16,64] reshape(t)\n"
           " n = f32[8,16,64] negate(m)\n"
           " ROOT out = f32[8,16,64] copy(n), sharding=" +
           reader;
  };
  const std::string rows = "{devices=[4,1]<=[4]}", b_rows = "{devices=[4,1]<=[4]}";
  CHECK(completes(body(rows, b_rows, "{devices=[1,1,4]<=[4]}"), "d") == "{devices=[4,1]<=[4]}");
  CHECK(completes(body(rows, b_rows, "{devices=[4,1,1]<=[4]}"), "d") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("completion of dots: batch dims pass through both operands") {
  const std::string tail =
      "\n d = f32[8,64,128] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
      "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n ROOT out = f32[8,64,128] copy(d)";
  const std::string a = "a = f32[8,64,32] parameter(0)", b = "\n b = f32[8,128,32] parameter(1)";
  CHECK(completes(a + ", sharding={devices=[2,2,1]<=[4]}" + b + tail, "d") ==
        "{devices=[2,2,1]<=[4]}");
  CHECK(completes(a + b + ", sharding={devices=[2,2,1]<=[4]}" + tail, "d") ==
        "{devices=[2,1,2]<=[4]}");
  PropagateOptions open;
  open.allow_parameters = {true};
  CHECK(completes(a + ", sharding={devices=[2,2,1]<=[4]}" + b + tail, "b", open) ==
        "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
}

TEST_CASE("completion of convolutions: split window dims follow the input of a small kernel") {
  check({
      {"2d", R"(x = f32[5,16,12,13] parameter(0), sharding={devices=[2,2,2,1]<=[8]}
 k = f32[3,3,13,17] parameter(1)
 c = f32[5,16,12,17] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
 ROOT out = f32[5,16,12,17] copy(c))",
       "c", "{devices=[2,2,2,1]<=[8]}"},
      {"other dim numbers", R"(x = f32[8,16,64] parameter(0), sharding={devices=[1,2,1]<=[2]}
 k = f32[8,2,64] parameter(1)
 c = f32[3,64,64] convolution(x, k), window={size=2 stride=5}, dim_labels=f0b_i0o->0bf
 ROOT out = f32[3,64,64] copy(c))",
       "c", "{devices=[2,1,1]<=[2]}"},
      {"dilated", R"(x = f32[8,64,64,12] parameter(0), sharding={devices=[1,4,1,1]<=[4]}
 k = f32[3,3,12,16] parameter(1)
 c = f32[8,40,40,16] convolution(x, k), window={size=3x3 rhs_dilate=12x12}, dim_labels=b01f_01io->b01f
 ROOT out = f32[8,40,40,16] copy(c))",
       "c", "{devices=[1,4,1,1]<=[4]}"},
      {"third dim covered by a small window",
       R"(x = bf16[32,32,8,7,16] parameter(0), sharding={devices=[4,1,1,1,1]<=[4]}
 k = bf16[3,3,3,16,24] parameter(1)
 c = bf16[16,16,3,7,24] convolution(x, k), window={size=3x3x3 stride=2x2x2 pad=1_1x1_1x0_0}, dim_labels=012bf_012io->012bf
 ROOT out = bf16[16,16,3,7,24] copy(c))",
       "c", "{devices=[4,1,1,1,1]<=[4]}"},
      {"split features stop it",
       R"(x = f32[8,16,16,12] parameter(0), sharding={devices=[1,2,1,2]<=[4]}
 k = f32[3,3,12,16] parameter(1)
 c = f32[8,16,16,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
 ROOT out = f32[8,16,16,16] copy(c))",
       "c", "none"},
      {"a large kernel keeps the batch",
       R"(x = f32[16,32,16,32] parameter(0), sharding={devices=[2,2,2,2]<=[16]}
 k = f32[32,1,12,28] parameter(1)
 c = f32[16,32,5,5] convolution(x, k), window={size=12x28}, dim_labels=bf01_oi01->bf01, feature_group_count=32
 ROOT out = f32[16,32,5,5] copy(c))",
       "c", "{devices=[2,1,1,1,8]<=[16] last_tile_dim_replicate}"},
  });
}

TEST_CASE("completion of convolutions: whole window dims make an einsum") {
  check({
      {"data parallel", R"(x = f32[8,16,16,12] parameter(0), sharding={devices=[4,1,1,1]<=[4]}
 k = f32[3,3,12,16] parameter(1)
 c = f32[8,16,16,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
 ROOT out = f32[8,16,16,16] copy(c))",
       "c", "{devices=[4,1,1,1]<=[4]}"},
      {"output features of the kernel",
       R"(x = f32[8,16,16,12] parameter(0), sharding={devices=[1,1,1,2,2]<=[4] last_tile_dim_replicate}
 k = f32[3,3,12,16] parameter(1), sharding={devices=[1,1,2,2]<=[4]}
 c = f32[8,16,16,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
 ROOT out = f32[8,16,16,16] copy(c))",
       "c", "{devices=[1,1,1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"batch dim as a window", R"(x = f32[32,24,64] parameter(0), sharding={devices=[2,1,1]<=[2]}
 k = f32[32,96,64] parameter(1)
 c = f32[32,24,96] convolution(x, k), window={size=32 stride=31 lhs_dilate=32}, dim_labels=0bf_0oi->0bf
 ROOT out = f32[32,24,96] copy(c))",
       "c", "{devices=[2,1,1]<=[2]}"},
      {"free dim of the input as a window",
       R"(x = f32[32,24,64,128] parameter(0), sharding={devices=[1,2,1,2]<=[4]}
 k = f32[32,96,64,1] parameter(1)
 c = f32[32,24,96,128] convolution(x, k), window={size=32x1 stride=31x1 lhs_dilate=32x1}, dim_labels=0bf1_0oi1->0bf1
 ROOT out = f32[32,24,96,128] copy(c))",
       "c", "{devices=[1,2,1,2]<=[4]}"},
      {"free dim of the kernel as a window",
       R"(x = f32[32,24,64,1] parameter(0)
 k = f32[32,96,64,128] parameter(1), sharding={devices=[1,2,1,2]<=[4]}
 c = f32[32,24,96,128] convolution(x, k), window={size=32x128 stride=31x1 pad=0_0x127_127 lhs_dilate=32x1 rhs_reversal=0x1}, dim_labels=0bf1_0oi1->0bf1
 ROOT out = f32[32,24,96,128] copy(c))",
       "c", "{devices=[1,1,2,2]<=[4]}"},
      {"contracting dim as a window",
       R"(x = f32[32,24,64,128] parameter(0), sharding={devices=[1,2,1,2]<=[4]}
 k = f32[32,96,64,128] parameter(1)
 c = f32[32,24,96,1] convolution(x, k), window={size=32x128 stride=31x1 lhs_dilate=32x1}, dim_labels=0bf1_0oi1->0bf1
 ROOT out = f32[32,24,96,1] copy(c))",
       "c", "{devices=[1,2,1,1,2]<=[4] last_tile_dim_replicate}"},
      {"no window dims at all", R"(x = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}
 k = f32[8,24] parameter(1)
 c = f32[16,24] convolution(x, k), dim_labels=bf_io->bf
 ROOT out = f32[16,24] copy(c))",
       "c", "{devices=[4,1]<=[4]}"},
  });
}

TEST_CASE("completion of convolutions: einsums pass layouts back, real windows do not") {
  PropagateOptions open;
  open.allow_parameters = {true};
  const std::string einsum = R"(x = f32[32,24,64] parameter(0)
 k = f32[32,96,64] parameter(1)
 c = f32[32,24,96] convolution(x, k), window={size=32 stride=31 lhs_dilate=32}, dim_labels=0bf_0oi->0bf, sharding={devices=[2,1,2]<=[4]}
 ROOT out = f32[32,24,96] copy(c))";
  CHECK(completes(einsum, "x", open) == "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(einsum, "k", open) == "{devices=[2,2,1]<=[4]}");
  const std::string window = R"(x = f32[8,16,12] parameter(0)
 k = f32[3,12,16] parameter(1)
 c = f32[8,16,16] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, sharding={devices=[2,2,1]<=[4]}
 ROOT out = f32[8,16,16] copy(c))";
  CHECK(completes(window, "x", open) == "none");
}

TEST_CASE("completion of products without SPMD: the most specific operand, without merging") {
  check(
      {
          {"split contracting dims",
           R"(x = f32[8,16,16,12] parameter(0), sharding={devices=[1,1,1,2]<=[2]}
 k = f32[3,3,12,16] parameter(1)
 c = f32[8,16,16,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
 ROOT out = f32[8,16,16,16] copy(c))",
           "c", "{replicated}"},
          {"a dot with two layouts", R"(a = f32[64,32] parameter(0), sharding={devices=[2,1]<=[2]}
 b = f32[32,48] parameter(1), sharding={devices=[1,4]<=[4]}
 d = f32[64,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT out = f32[64,48] copy(d))",
           "d", "{devices=[2,1]<=[2]}"},
          {"a split window dim", R"(x = f32[5,16,13] parameter(0), sharding={devices=[1,4,1]<=[4]}
 k = f32[3,13,17] parameter(1)
 c = f32[5,16,17] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
 ROOT out = f32[5,16,17] copy(c))",
           "c", "{devices=[1,4,1]<=[4]}"},
      },
      without_spmd());
}
