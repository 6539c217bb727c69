#include "ops/samples.h"

#include <fmt/format.h>

#include <cmath>

#include "gspmd/ir/text.h"

namespace gspmd::testing {
namespace {

// op(a, ...) on arrays of one type and shape.
struct Pointwise {
  Opcode opcode;
  int operands;
  const char* types;  // separated by blanks
  double low = -4;
  double high = 4;
  const char* result = nullptr;  // element type where it differs
  const char* attributes = "";
};

const Pointwise kPointwise[] = {
    {Opcode::abs, 1, "f32 s8 bf16"},
    {Opcode::ceil, 1, "f32 f16"},
    {Opcode::cosine, 1, "f32"},
    {Opcode::exponential, 1, "f32 bf16"},
    {Opcode::exponential_minus_one, 1, "f32"},
    {Opcode::floor, 1, "f32 bf16"},
    {Opcode::is_finite, 1, "f32", -4, 4, "pred"},
    {Opcode::log, 1, "f32", 0.5, 4},
    {Opcode::log_plus_one, 1, "f32", 0.5, 4},
    {Opcode::logistic, 1, "f32"},
    {Opcode::negate, 1, "f32 u16 s64"},
    {Opcode::not_, 1, "pred s32"},
    {Opcode::rsqrt, 1, "f32", 0.5, 4},
    {Opcode::sign, 1, "f32 s32"},
    {Opcode::sine, 1, "f32"},
    {Opcode::sqrt, 1, "f32", 0.5, 4},
    {Opcode::tanh, 1, "f32 f16"},
    {Opcode::copy, 1, "f32 pred"},
    {Opcode::convert, 1, "s32 f16", -4, 4, "f32"},
    {Opcode::convert, 1, "f32", -4, 4, "u8"},
    {Opcode::bitcast_convert, 1, "f32", -4, 4, "s32"},
    {Opcode::add, 2, "f32 s8 bf16 pred"},
    {Opcode::subtract, 2, "f32 u8"},
    {Opcode::multiply, 2, "f32 s16 f16 pred"},
    {Opcode::mulhi, 2, "s8 u16 s64"},
    {Opcode::divide, 2, "f32 s32 u32", 1, 4},
    {Opcode::remainder, 2, "f32 s32", 1, 4},
    {Opcode::power, 2, "f32 s32", 1, 3},
    {Opcode::maximum, 2, "f32 s64"},
    {Opcode::minimum, 2, "f32 u64"},
    {Opcode::and_, 2, "pred s32"},
    {Opcode::or_, 2, "pred u8"},
    {Opcode::xor_, 2, "pred u16"},
    {Opcode::shift_left, 2, "s32 u8", 0, 4},
    {Opcode::shift_right_arithmetic, 2, "s32 u8"},
    {Opcode::shift_right_logical, 2, "s32 u16"},
    {Opcode::compare, 2, "f32 s32", -4, 4, "pred", ", direction=LT"},
};

std::string pointwise_body(const Pointwise& row, const std::string& type) {
  std::string body;
  std::string operands;
  for (int i = 0; i < row.operands; ++i) {
    body += fmt::format("p{} = {}[3,5] parameter({})\n", i, type, i);
    operands += fmt::format("{}p{}", i ? ", " : "", i);
  }
  return body + fmt::format("ROOT r = {}[3,5] {}({}){}", row.result ? row.result : type,
                            opcode_name(row.opcode), operands, row.attributes);
}

std::vector<Sample> pointwise_samples() {
  std::vector<Sample> result;
  for (const Pointwise& row : kPointwise) {
    const std::string types = row.types;
    for (size_t begin = 0; begin < types.size();) {
      const size_t end = std::min(types.find(' ', begin), types.size());
      const std::string type = types.substr(begin, end - begin);
      result.push_back({row.opcode, fmt::format("{} {}", opcode_name(row.opcode), type),
                        pointwise_body(row, type), row.low, row.high});
      begin = end + 1;
    }
  }
  return result;
}

std::vector<Sample> source_and_control_samples() {
  return {
      {Opcode::parameter, "parameter", "ROOT r = f32[3,4] parameter(0)"},
      {Opcode::constant, "constant", "ROOT r = f32[2,4] constant({{1,2,3,4},{5,6,7,8}})"},
      {Opcode::partition_id, "partition-id", "ROOT r = u32[] partition-id()", -4, 4, 3},
      {Opcode::tuple, "tuple",
       "a = f32[3] parameter(0)\nb = s32[2] parameter(1)\nROOT r = (f32[3], s32[2]) tuple(a, b)"},
      {Opcode::tuple, "tuple of nothing", "ROOT r = () tuple()"},
      {Opcode::get_tuple_element, "get-tuple-element",
       "t = (f32[3], s32[2], f32[4]) parameter(0)\nROOT r = f32[4] get-tuple-element(t), index=2"},
      {Opcode::while_, "while",
       "t = (s32[], f32[3,4]) parameter(0)\nROOT r = (s32[], f32[3,4]) while(t), "
       "condition=below_ten, body=next"},
      {Opcode::call, "call",
       "a = f32[3,4] parameter(0)\nb = f32[3,4] parameter(1)\nROOT r = f32[3,4] call(a, b), "
       "to_apply=scaled_sum"},
      {Opcode::fusion, "fusion",
       "a = f32[3,4] parameter(0)\nb = f32[3,4] parameter(1)\nROOT r = f32[3,4] fusion(a, b), "
       "kind=kLoop, calls=scaled_sum"},
      {Opcode::optimization_barrier, "opt-barrier",
       "a = f32[3,4] parameter(0)\nROOT r = f32[3,4] opt-barrier(a)"},
      {Opcode::optimization_barrier, "opt-barrier of a tuple",
       "a = (f32[3], f32[2]) parameter(0)\nROOT r = (f32[3], f32[2]) opt-barrier(a)"},
      {Opcode::custom_call, "Sharding",
       "a = f32[3,4] parameter(0)\nROOT r = f32[3,4] custom-call(a), "
       "custom_call_target=\"Sharding\", sharding={replicated}"},
      {Opcode::select, "select",
       "p = pred[3,5] parameter(0)\na = f32[3,5] parameter(1)\nb = f32[3,5] parameter(2)\nROOT r = "
       "f32[3,5] select(p, a, b)",
       0, 1},
      {Opcode::select, "select by a scalar",
       "p = pred[] parameter(0)\na = s32[3,5] parameter(1)\nb = s32[3,5] parameter(2)\nROOT r = "
       "s32[3,5] select(p, a, b)"},
      {Opcode::clamp, "clamp",
       "l = f32[3,5] parameter(0)\nx = f32[3,5] parameter(1)\nh = f32[3,5] parameter(2)\nROOT r = "
       "f32[3,5] clamp(l, x, h)"},
      {Opcode::clamp, "clamp to scalars",
       "l = f32[] constant(-1)\nx = f32[3,5] parameter(0)\nh = f32[] parameter(1)\nROOT r = "
       "f32[3,5] clamp(l, x, h)"},
      {Opcode::bitcast_convert, "bitcast-convert to parts",
       "a = f32[3,5] parameter(0)\nROOT r = u8[3,5,4] bitcast-convert(a)"},
      {Opcode::bitcast_convert, "bitcast-convert of parts",
       "a = u16[3,5,2] parameter(0)\nROOT r = u32[3,5] bitcast-convert(a)"},
  };
}

std::vector<Sample> shape_samples() {
  return {
      {Opcode::reshape, "reshape merges",
       "a = f32[4,6,5] parameter(0)\nROOT r = f32[24,5] reshape(a)"},
      {Opcode::reshape, "reshape splits",
       "a = s8[3,24,5] parameter(0)\nROOT r = s8[3,2,12,5] reshape(a)"},
      {Opcode::reshape, "reshape mixes", "a = f32[6,4] parameter(0)\nROOT r = f32[8,3] reshape(a)"},
      {Opcode::reshape, "reshape moves a dim",
       "a = f32[2,3,2] parameter(0)\nROOT r = f32[4,3] reshape(a)"},
      {Opcode::reshape, "reshape adds ones",
       "a = f32[7,4] parameter(0)\nROOT r = f32[1,7,1,4] reshape(a)"},
      {Opcode::reshape, "reshape of nothing",
       "a = f32[0,4] parameter(0)\nROOT r = f32[2,0,3] reshape(a)"},
      {Opcode::broadcast, "broadcast",
       "a = f32[5,4] parameter(0)\nROOT r = f32[5,3,4] broadcast(a), dimensions={0,2}"},
      {Opcode::broadcast, "broadcast and transpose",
       "a = f32[5,4] parameter(0)\nROOT r = f32[4,3,5] broadcast(a), dimensions={2,0}"},
      {Opcode::broadcast, "broadcast a scalar",
       "a = bf16[] parameter(0)\nROOT r = bf16[5,3] broadcast(a), dimensions={}"},
      {Opcode::transpose, "transpose",
       "a = f32[5,4,6] parameter(0)\nROOT r = f32[6,5,4] transpose(a), dimensions={2,0,1}"},
      {Opcode::reverse, "reverse",
       "a = f32[4,3,5] parameter(0)\nROOT r = f32[4,3,5] reverse(a), dimensions={0,2}"},
      {Opcode::concatenate, "concatenate",
       "a = f32[5,3] parameter(0)\nb = f32[5,4] parameter(1)\nc = f32[5,0] parameter(2)\nROOT r = "
       "f32[5,7] concatenate(a, b, c), dimensions={1}"},
      {Opcode::concatenate, "concatenate of one",
       "a = u8[5,3] parameter(0)\nROOT r = u8[5,3] concatenate(a), dimensions={0}"},
      {Opcode::pad, "pad",
       "a = f32[6,5,3] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[6,11,2] pad(a, z), "
       "padding=0_0x1_1_1x-2_1"},
      {Opcode::slice, "slice",
       "a = f32[6,9] parameter(0)\nROOT r = f32[6,3] slice(a), slice={[0:6], [1:9:3]}"},
      {Opcode::dynamic_slice, "dynamic-slice",
       "a = f32[6,9] parameter(0)\ni = s32[] parameter(1)\nj = s32[] parameter(2)\nROOT r = "
       "f32[6,4] dynamic-slice(a, i, j), dynamic_slice_sizes={6,4}",
       -2, 8},
      {Opcode::dynamic_update_slice, "dynamic-update-slice",
       "a = f32[6,9] parameter(0)\nu = f32[6,4] parameter(1)\ni = u8[] parameter(2)\nj = u8[] "
       "parameter(3)\nROOT r = f32[6,9] dynamic-update-slice(a, u, i, j)",
       0, 9},
      {Opcode::iota, "iota", "ROOT r = s32[5,4] iota(), iota_dimension=0"},
      {Opcode::iota, "iota of floats", "ROOT r = f32[5,4] iota(), iota_dimension=1"},
  };
}

std::vector<Sample> contraction_samples() {
  return {
      {Opcode::dot, "dot",
       "a = f32[6,7] parameter(0)\nb = f32[7,8] parameter(1)\nROOT r = f32[6,8] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::dot, "dot with batch dims",
       "a = f32[4,6,3,5] parameter(0)\nb = f32[3,5,7,4] parameter(1)\nROOT r = f32[3,4,6,7] dot(a, "
       "b), lhs_batch_dims={2,0}, rhs_batch_dims={0,3}, lhs_contracting_dims={3}, "
       "rhs_contracting_dims={1}"},
      {Opcode::dot, "dot over two dims",
       "a = s32[3,4,6] parameter(0)\nb = s32[6,8,4] parameter(1)\nROOT r = s32[3,8] dot(a, b), "
       "lhs_contracting_dims={1,2}, rhs_contracting_dims={2,0}"},
      {Opcode::dot, "dot over two dims in another order",
       "a = f32[4,3,6] parameter(0)\nb = f32[6,8,4] parameter(1)\nROOT r = f32[3,8] dot(a, b), "
       "lhs_contracting_dims={2,0}, rhs_contracting_dims={0,2}"},
      {Opcode::dot, "dot over three dims",
       "a = f32[2,3,4,5] parameter(0)\nb = f32[3,4,2,6] parameter(1)\nROOT r = f32[5,6] dot(a, b), "
       "lhs_contracting_dims={0,1,2}, rhs_contracting_dims={2,0,1}"},
      {Opcode::dot, "outer product",
       "a = bf16[3] parameter(0)\nb = bf16[4] parameter(1)\nROOT r = f32[3,4] dot(a, b)"},
      {Opcode::dot, "dot of pred",
       "a = pred[3,4] parameter(0)\nb = pred[4,5] parameter(1)\nROOT r = pred[3,5] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::reduce, "reduce-sum",
       "a = f32[5,7,4] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[5,4] reduce(a, z), "
       "dimensions={1}, to_apply=sum"},
      {Opcode::reduce, "reduce-sum of two dims from a value",
       "a = f32[5,7,4] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[7] reduce(a, z), "
       "dimensions={0,2}, to_apply=sum"},
      {Opcode::reduce, "reduce-max",
       "a = f32[5,7] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[7] reduce(a, z), "
       "dimensions={0}, to_apply=most"},
      {Opcode::reduce, "reduce-min",
       "a = f32[5,7] parameter(0)\nz = f32[] constant(inf)\nROOT r = f32[5] reduce(a, z), "
       "dimensions={1}, to_apply=least"},
      {Opcode::reduce, "reduce-and",
       "a = pred[5,7] parameter(0)\nz = pred[] constant(true)\nROOT r = pred[5] reduce(a, z), "
       "dimensions={1}, to_apply=all"},
      {Opcode::reduce, "reduce of pairs",
       "a = f32[5,7] parameter(0)\ni = s32[5,7] iota(), iota_dimension=1\nz = f32[] "
       "constant(-inf)\nk = s32[] constant(0)\nROOT r = (f32[5], s32[5]) reduce(a, i, z, k), "
       "dimensions={1}, to_apply=largest_at"},
  };
}

std::vector<Sample> index_samples() {
  return {
      {Opcode::gather, "gather rows",
       "t = f32[10,6] parameter(0)\ni = s32[5,4] parameter(1)\nROOT r = f32[5,4,6] gather(t, i), "
       "offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
       "slice_sizes={1,6}",
       -2, 11},
      {Opcode::gather, "gather by two indices",
       "t = f32[6,5,4] parameter(0)\ni = u8[2,7] parameter(1)\nROOT r = f32[4,7] gather(t, i), "
       "offset_dims={0}, collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=0, "
       "slice_sizes={1,1,4}",
       0, 7},
      {Opcode::gather, "gather windows",
       "t = f32[6,8] parameter(0)\ni = s32[7,1] parameter(1)\nROOT r = f32[7,3,8] gather(t, i), "
       "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, "
       "slice_sizes={3,8}",
       -2, 8},
      {Opcode::gather, "gather with batching dims",
       "t = f32[6,9,4] parameter(0)\ni = s32[5,6,1] parameter(1)\nROOT r = f32[5,6,4] gather(t, "
       "i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
       "operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, "
       "slice_sizes={1,1,4}",
       -2, 11},
      {Opcode::scatter, "scatter-add rows",
       "t = f32[10,6] parameter(0)\ni = s32[5,4] parameter(1)\nu = f32[5,4,6] parameter(2)\nROOT r "
       "= f32[10,6] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=sum",
       -2, 11},
      {Opcode::scatter, "scatter-max by two indices",
       "t = f32[6,5,4] parameter(0)\ni = s32[7,2] parameter(1)\nu = f32[7,4] parameter(2)\nROOT r "
       "= f32[6,5,4] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0,1}, "
       "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=most",
       -1, 6},
      {Opcode::scatter, "scatter-add of windows",
       "t = f32[7,9] parameter(0)\ni = s32[5,2] parameter(1)\nu = f32[2,5,3] parameter(2)\nROOT r "
       "= f32[7,9] scatter(t, i, u), update_window_dims={0,2}, inserted_window_dims={}, "
       "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=sum",
       -1, 8},
      {Opcode::scatter, "scatter with batching dims",
       "t = f32[6,9,4] parameter(0)\ni = s32[6,5,1] parameter(1)\nu = f32[6,5,4] "
       "parameter(2)\nROOT r = f32[6,9,4] scatter(t, i, u), update_window_dims={2}, "
       "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
       "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=sum",
       -1, 10},
      {Opcode::scatter, "scatter that overwrites rows of its own",
       "t = f32[6,4] parameter(0)\ni = s32[3,1] constant({{1},{4},{7}})\nu = f32[3,4] "
       "parameter(1)\nROOT r = f32[6,4] scatter(t, i, u), update_window_dims={1}, "
       "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
       "unique_indices=true, to_apply=second"},
      {Opcode::scatter, "scatter that overwrites",
       "t = f32[10,6] parameter(0)\ni = s32[5,1] parameter(1)\nu = f32[5,6] parameter(2)\nROOT r = "
       "f32[10,6] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
       -1, 10},
      {Opcode::scatter, "scatter of pairs",
       "t = f32[6] parameter(0)\nk = s32[6] parameter(1)\ni = s32[5,1] parameter(2)\nu = f32[5] "
       "parameter(3)\nv = s32[5] parameter(4)\nROOT r = (f32[6], s32[6]) scatter(t, k, i, u, v), "
       "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
       "index_vector_dim=1, to_apply=largest_at",
       0, 6},
  };
}

std::vector<Sample> collective_samples() {
  const std::string a = "a = f32[4,6] parameter(0)\n";
  const std::string pairs = ", channel_id=1, replica_groups={{0,1},{2,3}}";
  return {
      {Opcode::all_reduce, "all-reduce",
       a + "ROOT r = f32[4,6] all-reduce(a)" + pairs + ", use_global_device_ids=true, to_apply=sum",
       -4, 4, 4},
      {Opcode::all_reduce, "all-reduce of two",
       a + "b = f32[3] parameter(1)\nROOT r = (f32[4,6], f32[3]) all-reduce(a, b), channel_id=1, "
           "replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=most",
       -4, 4, 4},
      {Opcode::all_gather, "all-gather",
       a + "ROOT r = f32[4,12] all-gather(a)" + pairs +
           ", dimensions={1}, use_global_device_ids=true",
       -4, 4, 4},
      {Opcode::reduce_scatter, "reduce-scatter",
       a + "ROOT r = f32[2,6] reduce-scatter(a)" + pairs +
           ", dimensions={0}, use_global_device_ids=true, to_apply=sum",
       -4, 4, 4},
      {Opcode::all_to_all, "all-to-all",
       a + "ROOT r = f32[4,6] all-to-all(a)" + pairs + ", dimensions={1}", -4, 4, 4},
      {Opcode::all_to_all, "all-to-all of a tuple",
       a + "b = f32[4,6] parameter(1)\nROOT r = (f32[4,6], f32[4,6]) all-to-all(a, b)" + pairs, -4,
       4, 4},
      {Opcode::collective_permute, "collective-permute",
       a + "ROOT r = f32[4,6] collective-permute(a), channel_id=1, "
           "source_target_pairs={{0,1},{1,2},{2,0}}",
       -4, 4, 4},
  };
}

}  // namespace

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> result = pointwise_samples();
    for (const auto& family : {source_and_control_samples(), shape_samples(), contraction_samples(),
                               index_samples(), collective_samples(), window_samples(),
                               order_samples(), matrix_samples(), number_samples()})
      result.insert(result.end(), family.begin(), family.end());
    return result;
  }();
  return all;
}

std::string with_entry(const std::string& body, int64_t num_partitions) {
  const auto binary = [](const char* name, const char* type, const char* op) {
    return fmt::format(
        "{0} {{\nx = {1}[] parameter(0)\ny = {1}[] parameter(1)\nROOT z = {1}[] {2}(x, y)\n}}\n",
        name, type, op);
  };
  return fmt::format("HloModule m, num_partitions={}\n", num_partitions) +
         binary("sum", "f32", "add") + binary("product", "f32", "multiply") +
         binary("most", "f32", "maximum") + binary("least", "f32", "minimum") +
         binary("sum_s32", "s32", "add") + binary("any", "pred", "or") +
         binary("all", "pred", "and") +
         R"(second {
x = f32[] parameter(0)
ROOT y = f32[] parameter(1)
}
largest_at {
a = f32[] parameter(0)
i = s32[] parameter(1)
b = f32[] parameter(2)
j = s32[] parameter(3)
p = pred[] compare(a, b), direction=GE
v = f32[] select(p, a, b)
k = s32[] select(p, i, j)
ROOT r = (f32[], s32[]) tuple(v, k)
}
below_ten {
s = (s32[], f32[3,4]) parameter(0)
n = s32[] get-tuple-element(s), index=0
ten = s32[] constant(10)
ROOT go = pred[] compare(n, ten), direction=LT
}
next {
s = (s32[], f32[3,4]) parameter(0)
n = s32[] get-tuple-element(s), index=0
x = f32[3,4] get-tuple-element(s), index=1
three = s32[] constant(3)
m = s32[] add(n, three)
y = f32[3,4] add(x, x)
ROOT t = (s32[], f32[3,4]) tuple(m, y)
}
scaled_sum {
a = f32[3,4] parameter(0)
b = f32[3,4] parameter(1)
c = f32[3,4] add(b, b)
ROOT d = f32[3,4] add(a, c)
}
)" + big_op_computations() +
         number_computations() + "ENTRY main {\n" + body + "\n}\n";
}

std::unique_ptr<Module> sample_module(const Sample& sample) {
  return parse_module(with_entry(sample.body, sample.devices), sample.name);
}

namespace {

// Real and imaginary parts one by one.
Array random_complex(const Shape& shape, double low, double high, Values values,
                     std::mt19937_64& random) {
  Shape parts(shape.dtype == DType::c64 ? DType::f32 : DType::f64, shape.dims);
  parts.dims.push_back(2);
  return Array(Shape(shape.dtype, shape.dims),
               random_array(parts, low, high, values, random).storage());
}

}  // namespace

Array random_array(const Shape& shape, double low, double high, Values values,
                   std::mt19937_64& random) {
  Array array(shape);
  if (is_complex(shape.dtype)) return random_complex(shape, low, high, values, random);
  const bool is_unsigned = is_unsigned_integer(shape.dtype) || shape.dtype == DType::pred;
  const double least = is_unsigned ? std::max(low, 0.0) : low;
  for (int64_t i = 0; i < array.size(); ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    if (shape.dtype == DType::pred) {
      array.set(i, unit < 0.5 ? 0 : 1);
    } else if (values == Values::uniform && is_floating(shape.dtype)) {
      array.set(i, least + unit * (high - least));
    } else {
      const double first = std::ceil(least);
      array.set(i, first + std::floor(unit * (std::floor(high) - first + 1)));
    }
  }
  return array;
}

Value random_value(const Shape& shape, double low, double high, Values values,
                   std::mt19937_64& random) {
  std::vector<Array> arrays;
  for (const Shape& leaf : leaf_shapes(shape))
    arrays.push_back(random_array(leaf, low, high, values, random));
  return pack(shape, arrays);
}

std::vector<Value> sample_arguments(const Sample& sample, const Module& module, Values values,
                                    uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Value> arguments;
  for (const Node* parameter : module.entry()->parameters())
    arguments.push_back(random_value(parameter->shape, sample.low, sample.high, values, random));
  return arguments;
}

}  // namespace gspmd::testing
