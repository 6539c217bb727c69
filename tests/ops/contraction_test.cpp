#include <catch2/catch.hpp>

#include "gspmd/ops/builders.h"
#include "ops/evaluate_cases.h"

namespace gspmd::testing {

TEST_CASE("dot multiplies and sums over the contracting dims", "[dot]") {
  const std::string ab =
      "a = f32[2,3] constant({{1,2,3},{4,5,6}})\nb = f32[3,2] constant({{1,0},{0,1},{2,-1}})\n";
  const std::vector<EvaluateCase> cases = {
      {"matrix product",
       ab + "ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "f32[2,2] {{7,-1},{16,-1}}"},
      {"all dims",
       ab + "c = f32[2,3] transpose(b), dimensions={1,0}\nROOT r = f32[] dot(a, c), "
            "lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
       "f32[] 6"},
      {"batch",
       ab + "c = f32[2,3] transpose(b), dimensions={1,0}\nROOT r = f32[2] dot(a, c), "
            "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
            "rhs_contracting_dims={1}",
       "f32[2] {7,-1}"},
      {"nothing to sum",
       "a = f32[2,0] constant({{},{}})\nb = f32[0,3] constant({})\nROOT r = f32[2,3] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "f32[2,3] {{0,0,0},{0,0,0}}"},
      {"integers wrap",
       "a = s8[2] constant({100,100})\nROOT r = s8[] dot(a, a), lhs_contracting_dims={0}, "
       "rhs_contracting_dims={0}",
       "s8[] 32"},
      {"a wider result",
       "a = s8[2] constant({100,100})\nROOT r = s32[] dot(a, a), lhs_contracting_dims={0}, "
       "rhs_contracting_dims={0}",
       "s32[] 20000"},
      {"bf16 sums are rounded once",
       "a = bf16[3] constant({256,1,1})\nb = bf16[3] constant({1,1,1})\nROOT r = bf16[] dot(a, b), "
       "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
       "bf16[] 258"},
      {"a narrower result is rounded once",
       "a = f32[3] constant({256,1,1})\nb = f32[3] constant({1,1,1})\nROOT r = bf16[] dot(a, b), "
       "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
       "bf16[] 258"},
      {"integers by floats",
       "a = s8[2] constant({-3,5})\nb = bf16[2] constant({0.5,-0.25})\nROOT r = bf16[] dot(a, b), "
       "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
       "bf16[] -2.75"},
      {"floats by complex numbers",
       "a = f32[2] constant({2,-1})\nb = c64[2] constant({(1,2),(0,1)})\nROOT r = c64[] dot(a, b), "
       "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
       "c64[] (2,3)"},
      {"pred",
       "a = pred[2,2] constant({{1,0},{0,0}})\nROOT r = pred[2,2] dot(a, a), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "pred[2,2] {{1,0},{0,0}}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("reduce combines over dims from the initial value", "[reduce]") {
  const std::string a = "a = f32[2,3] constant({{1,2,3},{4,nan,6}})\nz = f32[] constant(10)\n";
  const std::vector<EvaluateCase> cases = {
      {"rows", a + "ROOT r = f32[2] reduce(a, z), dimensions={1}, to_apply=sum", "f32[2] {16,nan}"},
      {"columns", a + "ROOT r = f32[3] reduce(a, z), dimensions={0}, to_apply=product",
       "f32[3] {40,nan,180}"},
      {"no dims", a + "ROOT r = f32[2,3] reduce(a, z), dimensions={}, to_apply=sum",
       "f32[2,3] {{11,12,13},{14,nan,16}}"},
      {"max", a + "ROOT r = f32[3] reduce(a, z), dimensions={0}, to_apply=most",
       "f32[3] {10,nan,10}"},
      {"nothing",
       "a = f32[2,0] constant({{},{}})\nz = f32[] constant(-inf)\nROOT r = f32[2] reduce(a, z), "
       "dimensions={1}, to_apply=most",
       "f32[2] {-inf,-inf}"},
      {"integers wrap",
       "a = s32[2] constant({2147483647,1})\nz = s32[] constant(0)\nROOT r = s32[] reduce(a, z), "
       "dimensions={0}, to_apply=sum_s32",
       "s32[] -2147483648"},
      {"any",
       "a = pred[3] constant({0,1,0})\nz = pred[] constant(false)\nROOT r = pred[] reduce(a, z), "
       "dimensions={0}, to_apply=any",
       "pred[] true"},
      {"any computation",
       "a = f32[4] constant({1,2,3,4})\nz = f32[] constant(0)\nROOT r = f32[] reduce(a, z), "
       "dimensions={0}, to_apply=second",
       "f32[] 4"},
      {"where the largest is",
       "a = f32[2,3] constant({{1,7,3},{9,5,9}})\ni = s32[2,3] iota(), iota_dimension=1\nz = f32[] "
       "constant(-inf)\nk = s32[] constant(0)\nROOT r = (f32[2], s32[2]) reduce(a, i, z, k), "
       "dimensions={1}, to_apply=largest_at",
       "f32[2] {7,9} s32[2] {1,0}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("gather takes slices, its starts moved inside", "[index]") {
  const std::string t = "t = s32[4,2] constant({{1,2},{3,4},{5,6},{7,8}})\n";
  const std::vector<EvaluateCase> cases = {
      {"rows",
       t + "i = s32[3] constant({2,-5,99})\nROOT r = s32[3,2] gather(t, i), offset_dims={1}, "
           "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}",
       "s32[3,2] {{5,6},{1,2},{7,8}}"},
      {"elements",
       t + "i = s32[2,2] constant({{3,1},{0,1}})\nROOT r = s32[2] gather(t, i), offset_dims={}, "
           "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, "
           "slice_sizes={1,1}",
       "s32[2] {8,2}"},
      {"windows stay whole",
       t + "i = u8[2] constant({1,3})\nROOT r = s32[2,2,1] gather(t, i), offset_dims={1,2}, "
           "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2,1}",
       "s32[2,2,1] {{{3},{5}},{{5},{7}}}"},
      {"batching dims",
       t + "i = s32[4] constant({1,0,1,5})\nROOT r = s32[4] gather(t, i), offset_dims={}, "
           "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
           "start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}",
       "s32[4] {2,3,6,8}"},
      {"a scalar index",
       t + "i = s32[] constant(2)\nROOT r = s32[2] gather(t, i), offset_dims={0}, "
           "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,2}",
       "s32[2] {5,6}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("scatter combines updates, slices that do not fit are dropped whole", "[index]") {
  const std::string t = "t = f32[4,2] constant({{1,2},{3,4},{5,6},{7,8}})\n";
  const std::vector<EvaluateCase> cases = {
      {"add rows",
       t + "i = s32[4] constant({2,-1,4,2})\nu = f32[4,2] "
           "constant({{10,20},{1,1},{1,1},{30,40}})\nROOT r = f32[4,2] scatter(t, i, u), "
           "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
           "index_vector_dim=1, to_apply=sum",
       "f32[4,2] {{1,2},{3,4},{45,66},{7,8}}"},
      {"windows",
       t + "i = u64[2] constant({1,3})\nu = f32[2,2,2] "
           "constant({{{1,1},{1,1}},{{5,5},{5,5}}})\nROOT r = f32[4,2] scatter(t, i, u), "
           "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
           "index_vector_dim=1, to_apply=sum",
       "f32[4,2] {{1,2},{4,5},{6,7},{7,8}}"},
      {"overwrite in order",
       t + "i = s32[2] constant({1,1})\nu = f32[2,2] constant({{1,1},{9,9}})\nROOT r = f32[4,2] "
           "scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
           "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
       "f32[4,2] {{1,2},{9,9},{5,6},{7,8}}"},
      {"two operands",
       "t = f32[2] constant({1,5})\nk = s32[2] constant({0,0})\ni = s32[2] constant({0,1})\nu = "
       "f32[2] constant({3,3})\nv = s32[2] constant({7,8})\nROOT r = (f32[2], s32[2]) scatter(t, "
       "k, i, u, v), update_window_dims={}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=largest_at",
       "f32[2] {3,5} s32[2] {7,0}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("loops, calls and tuples run their computations", "[control]") {
  const std::string x = "x = f32[3,4] broadcast(o), dimensions={}\n";
  const std::string ones = "o = f32[] constant(1)\n" + x;
  const std::vector<EvaluateCase> cases = {
      {"while",
       ones +
           "n = s32[] constant(2)\nt = (s32[], f32[3,4]) tuple(n, x)\nw = (s32[], f32[3,4]) "
           "while(t), condition=below_ten, body=next\nROOT r = s32[] get-tuple-element(w), index=0",
       "s32[] 11"},
      {"while that never runs",
       ones +
           "n = s32[] constant(10)\nt = (s32[], f32[3,4]) tuple(n, x)\nw = (s32[], f32[3,4]) "
           "while(t), condition=below_ten, body=next\nROOT r = s32[] get-tuple-element(w), index=0",
       "s32[] 10"},
      {"call",
       ones + "c = f32[3,4] call(x, x), to_apply=scaled_sum\nROOT r = f32[1,1] slice(c), "
              "slice={[0:1], [0:1]}",
       "f32[1,1] {{3}}"},
      {"fusion",
       ones + "c = f32[3,4] fusion(x, x), kind=kLoop, calls=scaled_sum\nROOT r = f32[1,1] "
              "slice(c), slice={[2:3], [3:4]}",
       "f32[1,1] {{3}}"},
      {"opt-barrier", "a = s32[2] constant({1,2})\nROOT r = s32[2] opt-barrier(a)", "s32[2] {1,2}"},
      {"nested tuples",
       "a = s32[2] constant({1,2})\nb = s32[] constant(3)\nt = (s32[2], s32[]) tuple(a, b)\nROOT r "
       "= ((s32[2], s32[]), s32[]) tuple(t, b)",
       "s32[2] {1,2} s32[] 3 s32[] 3"},
      {"Sharding",
       "a = s32[2] constant({1,2})\nROOT r = s32[2] custom-call(a), "
       "custom_call_target=\"Sharding\", sharding={replicated}",
       "s32[2] {1,2}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("calls that nest too deeply are refused, not run into the end of the stack",
          "[control]") {
  const auto nested = [](int depth) {
    Module module;
    Computation* callee = nullptr;
    for (int i = 0; i < depth; ++i) {
      Computation* const c = module.add_computation("c");
      Node* const x = hlo::parameter(*c, 0, Shape(DType::f32, {}));
      c->set_root(callee == nullptr ? hlo::unary(Opcode::negate, x)
                                    : emit(*c, Opcode::call, {x}, {}, {}, {callee}));
      callee = c;
    }
    const Value one{Array::scalar(1.0f), {}, false};
    return evaluate(*callee, {&one, 1}).array.item();
  };
  CHECK(nested(400) == -1);
  CHECK_THROWS_WITH(nested(100000), Catch::Contains("calls nest more than 500 deep"));
}

}  // namespace gspmd::testing
