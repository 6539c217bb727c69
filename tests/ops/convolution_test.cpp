// Convolutions of every form against a brute force that pads, dilates and turns the operands first.
#include <catch2/catch.hpp>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "kernels/run_kernel.h"
#include "ops/evaluate_cases.h"
#include "ops/samples.h"

namespace gspmd::testing::convolution_test {
namespace {

struct Random {
  std::mt19937_64 engine;
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
};

// A dense tensor in the order batch, feature (kernel: output, input feature), spatial.
struct Plain {
  Dims dims;
  std::vector<double> values;
  double& at(const Dims& index) {
    int64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) offset = offset * dims[d] + index[d];
    return values[static_cast<size_t>(offset)];
  }
  explicit Plain(Dims sizes) : dims(std::move(sizes)) {
    values.resize(static_cast<size_t>(Shape(DType::f64, dims).elements_count()));
  }
};

template <class Body>
void each_index(const Dims& dims, Body&& body) {
  const int64_t count = Shape(DType::f64, dims).elements_count();
  for (int64_t i = 0; i < count; ++i) {
    Dims index(dims.size());
    int64_t rest = i;
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) index[d] = rest % dims[d];
    body(index);
  }
}

// Dim d of the plain tensor is dim labels[d] of the array.
Plain to_plain(const Array& array, const Dims& labels) {
  Dims dims;
  for (const int64_t label : labels) dims.push_back(array.dims()[static_cast<size_t>(label)]);
  Plain out(dims);
  const Dims strides = row_major_strides(array.dims());
  each_index(dims, [&](const Dims& index) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d)
      offset += index[d] * strides[static_cast<size_t>(labels[d])];
    out.at(index) = array.at(offset);
  });
  return out;
}

// Holes between elements, then padding (which may be negative).
Plain spread(Plain from, size_t axis, int64_t dilation, int64_t low, int64_t high) {
  Dims dims = from.dims;
  const int64_t n = dims[axis];
  dims[axis] = (n == 0 ? 0 : (n - 1) * dilation + 1) + low + high;
  Plain out(dims);
  each_index(from.dims, [&](const Dims& index) {
    Dims to = index;
    to[axis] = index[axis] * dilation + low;
    if (to[axis] >= 0 && to[axis] < dims[axis]) out.at(to) = from.at(index);
  });
  return out;
}

struct Case {
  Attributes attrs;
  Dims input_labels, kernel_labels, output_labels;
  Shape input, kernel, output;
};

Dims shuffled(size_t rank, Random& random) {
  Dims labels;
  for (size_t d = 0; d < rank; ++d) labels.push_back(static_cast<int64_t>(d));
  std::shuffle(labels.begin(), labels.end(), random.engine);
  return labels;
}

Dims placed(const Dims& plain, const Dims& labels) {
  Dims dims(plain.size());
  for (size_t d = 0; d < plain.size(); ++d) dims[static_cast<size_t>(labels[d])] = plain[d];
  return dims;
}

Case random_case(Random& random, DType type) {
  Case c;
  const auto axes = static_cast<size_t>(random(0, 3));
  ConvDims conv;
  const int64_t kind = random(0, 4);
  if (kind == 0) conv.feature_group_count = random(2, 4);
  if (kind == 1) conv.batch_group_count = random(2, 3);
  const int64_t batch = random(1, 4), features = random(1, 5);
  const int64_t out = random(1, 5) * conv.feature_group_count * conv.batch_group_count;
  Dims input{batch * conv.batch_group_count, features * conv.feature_group_count};
  Dims kernel{out, features}, output{batch, out};
  const bool transposed = random(0, 3) == 0;
  for (size_t i = 0; i < axes; ++i) {
    WindowDim w;
    do {
      w = {random(1, random(0, 2) == 0 ? 6 : 3),
           transposed && random(0, 2) != 0 ? 1 : random(1, 3),
           random(-1, 3),
           random(-1, 3),
           transposed ? random(1, 3) : 1,
           random(0, 2) == 0 ? random(2, 3) : 1,
           random(0, 3) == 0};
      const int64_t n = random(1, 7);
      const int64_t extent = (n - 1) * w.base_dilation + 1 + w.pad_low + w.pad_high;
      const int64_t reach = (w.size - 1) * w.window_dilation + 1;
      if (extent < reach) continue;
      input.push_back(n);
      kernel.push_back(w.size);
      output.push_back((extent - reach) / w.stride + 1);
    } while (input.size() < i + 3);
    c.attrs.window.push_back(w);
  }
  c.input_labels = shuffled(axes + 2, random);
  c.kernel_labels = shuffled(axes + 2, random);
  c.output_labels = shuffled(axes + 2, random);
  conv.input_batch = c.input_labels[0];
  conv.input_feature = c.input_labels[1];
  conv.kernel_output_feature = c.kernel_labels[0];
  conv.kernel_input_feature = c.kernel_labels[1];
  conv.output_batch = c.output_labels[0];
  conv.output_feature = c.output_labels[1];
  conv.input_spatial.assign(c.input_labels.begin() + 2, c.input_labels.end());
  conv.kernel_spatial.assign(c.kernel_labels.begin() + 2, c.kernel_labels.end());
  conv.output_spatial.assign(c.output_labels.begin() + 2, c.output_labels.end());
  c.attrs.conv = conv;
  c.input = Shape(type, placed(input, c.input_labels));
  c.kernel = Shape(type, placed(kernel, c.kernel_labels));
  c.output = Shape(type, placed(output, c.output_labels));
  return c;
}

Array whole_numbers(const Shape& shape, Random& random) {
  Array array(shape);
  const bool is_unsigned = is_unsigned_integer(shape.dtype);
  for (int64_t i = 0; i < array.size(); ++i)
    array.set(i, static_cast<double>(random(is_unsigned ? 0 : -3, 3)));
  return array;
}

Array brute_force(const Case& c, const Array& input, const Array& kernel) {
  Plain x = to_plain(input, c.input_labels), w = to_plain(kernel, c.kernel_labels);
  const size_t axes = c.attrs.window.size();
  for (size_t i = 0; i < axes; ++i) {
    const WindowDim& window = c.attrs.window[i];
    if (window.reversal) {
      Plain turned(w.dims);
      each_index(w.dims, [&](const Dims& index) {
        Dims to = index;
        to[i + 2] = w.dims[i + 2] - 1 - index[i + 2];
        turned.at(to) = w.at(index);
      });
      w = turned;
    }
    x = spread(x, i + 2, window.base_dilation, window.pad_low, window.pad_high);
    w = spread(w, i + 2, window.window_dilation, 0, 0);
  }
  Array out(c.output);
  const ConvDims& conv = *c.attrs.conv;
  const Dims strides = row_major_strides(out.dims());
  Dims plain;
  for (const int64_t label : c.output_labels)
    plain.push_back(out.dims()[static_cast<size_t>(label)]);
  each_index(plain, [&](const Dims& o) {
    double sum = 0;
    each_index(w.dims, [&](const Dims& k) {
      if (k[0] != o[1]) return;
      Dims at{o[0] + o[1] / (plain[1] / conv.batch_group_count) * plain[0],
              k[1] + o[1] / (plain[1] / conv.feature_group_count) * w.dims[1]};
      for (size_t i = 0; i < axes; ++i)
        at.push_back(o[i + 2] * c.attrs.window[i].stride + k[i + 2]);
      sum += x.at(at) * w.at(k);
    });
    int64_t offset = 0;
    for (size_t d = 0; d < o.size(); ++d)
      offset += o[d] * strides[static_cast<size_t>(c.output_labels[d])];
    out.set(offset, sum);
  });
  return out;
}

std::string text_of(const Case& c) {
  std::string text = to_string(c.input) + " " + to_string(c.kernel) + " " + to_string(c.output);
  for (const WindowDim& w : c.attrs.window)
    text +=
        fmt::format(" size={} stride={} pad={}_{} base={} window={} reversal={}", w.size, w.stride,
                    w.pad_low, w.pad_high, w.base_dilation, w.window_dilation, w.reversal);
  return text + fmt::format(" groups {} {}", c.attrs.conv->feature_group_count,
                            c.attrs.conv->batch_group_count);
}

}  // namespace

TEST_CASE("convolution agrees with a brute force, and its fast kernels with both",
          "[convolution]") {
  Random random{std::mt19937_64(20)};
  constexpr DType kTypes[] = {DType::f32, DType::f32, DType::bf16,
                              DType::f64, DType::s32, DType::s8};
  int fast = 0, of_f32 = 0, from_library = 0;
  for (int n = 0; n < 400; ++n) {
    const DType type = kTypes[n % 6];
    const Case c = random_case(random, type);
    if (c.output.elements_count() > 4000) continue;
    INFO("case " << n << ": " << text_of(c));
    Module module;
    Computation& entry = *module.add_computation("main");
    Node* const x = hlo::parameter(entry, 0, c.input);
    Node* const w = hlo::parameter(entry, 1, c.kernel);
    Node* const node = emit(entry, Opcode::convolution, {x, w}, c.attrs, c.output);
    entry.set_root(node);
    const Array a = whole_numbers(c.input, random), b = whole_numbers(c.kernel, random);
    const Array expected = brute_force(c, a, b);
    const std::vector<Value> arguments{{a, {}, false}, {b, {}, false}};
    CHECK(bitwise_equal(evaluate(entry, arguments).array, expected));
    const PreparedKernel kernel = node->op().lower(*node);
    if (!kernel.run) continue;
    ++fast;
    // It packs the kernel; plain loops need no room. Narrow types depend on the processor.
    if (type == DType::f32) ++of_f32;
    if (type == DType::f32 && kernel.scratch_bytes > 0) ++from_library;
    CHECK(bitwise_equal(run_kernel(kernel, {a, b}, {c.output})[0], expected));
  }
  CHECK(fast > 300);
  INFO(of_f32 << " of f32");
  CHECK(from_library > 100);
}

TEST_CASE("convolutions of groups of many features agree with the reference", "[convolution]") {
  Random random{std::mt19937_64(24)};
  for (const char* const labels : {"bf01_oi01->bf01", "bf01_io01->bf01", "b01f_01io->b01f"})
    for (const char* const type : {"f32", "bf16"}) {
      const bool first = labels[1] == 'f';
      const std::string body = fmt::format(
          "x = {0}[{1}] parameter(0)\nw = {0}[{2}] parameter(1)\nROOT r = f32[{3}] "
          "convolution(x, w), window={{size=3x2 stride=1x2 pad=1_0x1_1}}, dim_labels={4}, "
          "feature_group_count=2",
          type, first ? "2,262,5,9" : "2,5,9,262",
          labels[5] == 'o' ? "258,131,3,2"
          : first          ? "131,258,3,2"
                           : "3,2,131,258",
          first ? "2,258,4,5" : "2,4,5,258", labels);
      INFO(body);
      const auto module = parse_module(with_entry(body));
      const Node& node = *module->entry()->root();
      const Array x = whole_numbers(node.operand(0)->shape, random);
      const Array w = whole_numbers(node.operand(1)->shape, random);
      const PreparedKernel kernel = node.op().lower(node);
      REQUIRE(kernel.run);
      const std::vector<Value> arguments{{x, {}, false}, {w, {}, false}};
      CHECK(bitwise_equal(run_kernel(kernel, {x, w}, {node.shape})[0],
                          evaluate(*module->entry(), arguments).array));
    }
}

// Kernels are laid out where they are used, those of many features panel by panel, or once before.
TEST_CASE("convolution reads a kernel that was laid out before, and that alone", "[convolution]") {
  const char* const bodies[] = {
      "x = f32[2,5,7,133] parameter(0)\nw = f32[3,3,133,70] parameter(1)\nROOT r = f32[2,5,7,70] "
      "convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
      "x = f32[1,3,4,600] parameter(0)\nw = f32[3,3,65,600] parameter(1)\nROOT r = f32[1,6,8,65] "
      "convolution(x, w), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, "
      "dim_labels=b01f_01oi->b01f",
      "x = f32[7,9,33,48] parameter(0)\nw = f32[3,3,48,64] parameter(1)\nROOT r = f32[7,9,33,64] "
      "convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
      "x = f32[7,9,33,64] parameter(0)\nw = f32[3,3,32,64] parameter(1)\nROOT r = f32[7,9,33,32] "
      "convolution(x, w), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, "
      "dim_labels=b01f_01oi->b01f",
      "x = f32[3,9,13,105] parameter(0)\nw = f32[3,3,35,114] parameter(1)\nROOT r = "
      "f32[3,9,13,114] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
      "dim_labels=b01f_01io->b01f, feature_group_count=3",
      "x = f32[2,9,128] parameter(0)\nw = f32[5,128,256] parameter(1)\nROOT r = f32[2,3,256] "
      "convolution(x, w), window={size=5 stride=2}, dim_labels=b0f_0io->b0f"};
  Random random{std::mt19937_64(7)};
  for (const char* const body : bodies) {
    INFO(body);
    const auto module = parse_module(with_entry(body));
    const Node& node = *module->entry()->root();
    const PreparedKernel kernel = node.op().lower(node);
    const Array x = whole_numbers(node.operand(0)->shape, random);
    const Array w = whole_numbers(node.operand(1)->shape, random);
    const std::vector<Value> arguments{{x, {}, false}, {w, {}, false}};
    const Array expected = evaluate(*module->entry(), arguments).array;
    CHECK(bitwise_equal(run_kernel(kernel, {x, w}, {node.shape})[0], expected));
    const CommonStage& stage = kernel.common;
    if (!stage.prepare) continue;  // fewer lanes
    REQUIRE(stage.operand == 1);
    const Rubbish common(stage.bytes);
    const std::byte* const operands[] = {nullptr, w.bytes().data()};
    Rubbish scratch(kernel.scratch_bytes);
    KernelArgs args{operands};
    args.scratch = scratch.data();
    args.common = common.data();
    for (args.part = stage.parts; args.part-- > 0;) {
      scratch.refill();
      stage.prepare(args);
    }
    PreparedKernel rest = kernel;
    rest.run = [&](KernelArgs with) {
      with.common = common.data();
      kernel.run(with);
    };
    const Array rubbish = Array::full(w.shape(), 1e30);
    CHECK(bitwise_equal(run_kernel(rest, {x, rubbish}, {node.shape})[0], expected));
  }
}

TEST_CASE("convolution takes complex and narrow numbers", "[convolution]") {
  const std::vector<EvaluateCase> cases = {
      {"complex",
       "x = c64[1,3,1] constant({{{(1,1)},{(0,2)},{(3,0)}}})\nw = c64[2,1,1] "
       "constant({{{(0,1)}},{{(1,0)}}})\nROOT r = c64[1,2,1] convolution(x, w), window={size=2}, "
       "dim_labels=b0f_0io->b0f",
       "c64[1,2,1] {{{(-1,3)},{(1,0)}}}"},
      {"pred",
       "x = pred[1,3] constant({{1,0,1}})\nw = pred[3,2] constant({{0,1},{1,1},{0,0}})\nROOT r = "
       "pred[1,2] convolution(x, w), dim_labels=bf_io->bf",
       "pred[1,2] {{0,1}}"},
      {"4-bit integers to s32",
       "x = s4[1,3] constant({{1,-8,7}})\nw = s4[3,1] constant({{7},{-8},{7}})\nROOT r = s32[1,1] "
       "convolution(x, w), dim_labels=bf_io->bf",
       "s32[1,1] {{120}}"},
      {"8-bit floats",
       "x = f8e4m3fn[1,2] constant({{1,0.5}})\nw = f8e4m3fn[2,1] constant({{2},{3}})\nROOT r = "
       "f8e4m3fn[1,1] convolution(x, w), dim_labels=bf_io->bf",
       "f8e4m3fn[1,1] {{3.5}}"},
      {"f16 is rounded once",
       "x = f16[1,3] constant({{2048,1,1}})\nw = f16[3,1] constant({{1},{1},{1}})\nROOT r = "
       "f16[1,1] convolution(x, w), dim_labels=bf_io->bf",
       "f16[1,1] {{2050}}"},
      {"no input features",
       "x = f32[2,3,0] constant({{{},{},{}},{{},{},{}}})\nw = f32[2,0,1] constant({{},{}})\nROOT r "
       "= f32[2,2,1] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f",
       "f32[2,2,1] {{{0},{0}},{{0},{0}}}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("the work of a convolution leaves padding and holes out", "[convolution]") {
  const auto flops = [](const char* body) {
    const auto module = parse_module(with_entry(body));
    return op_info(Opcode::convolution).flops(*module->entry()->root());
  };
  CHECK(flops("x = f32[2,5,3] parameter(0)\nw = f32[3,3,4] parameter(1)\nROOT r = f32[2,3,4] "
              "convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f") == 2 * 2 * 4 * 3 * 9);
  CHECK(flops("x = f32[2,5,3] parameter(0)\nw = f32[3,3,4] parameter(1)\nROOT r = f32[2,5,4] "
              "convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f") ==
        2 * 2 * 4 * 3 * 13);
  CHECK(flops("x = f32[2,5,3] parameter(0)\nw = f32[2,3,4] parameter(1)\nROOT r = f32[2,8,4] "
              "convolution(x, w), window={size=2 lhs_dilate=2}, dim_labels=b0f_0io->b0f") ==
        2 * 2 * 4 * 3 * 8);
}

TEST_CASE("convolutions that cannot be are refused with their numbers", "[convolution]") {
  const std::string xw =
      "x = f32[1,3,4] constant({{{1,2,3,4},{1,2,3,4},{1,2,3,4}}})\nw = f32[1,2,6] "
      "constant({{{1,2,3,4,5,6},{1,2,3,4,5,6}}})\n";
  struct Wrong {
    std::string root, message;
  };
  const std::vector<Wrong> cases = {
      {"ROOT r = f32[1,3,6] convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f",
       "has 4 input features in 1 groups"},
      {"ROOT r = f32[1,3,6] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f, "
       "feature_group_count=2",
       "window dim 0 has size 2"},
      {"ROOT r = f32[1,3,6] convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f, "
       "feature_group_count=2, batch_group_count=3",
       "one of them is 1"},
      {"ROOT r = f32[1,3,6] convolution(x, w), window={size=1x1}, dim_labels=b0f_0io->b0f, "
       "feature_group_count=2",
       "the window has 2 dims"},
      {"ROOT r = pred[1,3,6] convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f, "
       "feature_group_count=2",
       "cannot give elements of pred"},
  };
  for (const Wrong& wrong : cases) {
    INFO(wrong.root);
    CHECK_THAT(error_of(xw + wrong.root), Catch::Contains(wrong.message));
  }
}

TEST_CASE("convolution cut into parts gives the bits of one", "[convolution]") {
  struct Form {
    const char* name;
    const char* body;
  };
  const Form forms[] = {
      {"by batch",
       "x = f32[7,30,30,16] parameter(0)\nw = f32[3,3,16,32] parameter(1)\nROOT r = "
       "f32[7,30,30,32] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
       "dim_labels=b01f_01io->b01f"},
      {"channels first",
       "x = f32[8,16,30,30] parameter(0)\nw = f32[40,16,3,3] parameter(1)\nROOT r = "
       "f32[8,40,15,15] convolution(x, w), window={size=3x3 stride=2x2 pad=1_1x1_1}, "
       "dim_labels=bf01_oi01->bf01"},
      {"by features",
       "x = f32[1,14,14,64] parameter(0)\nw = f32[3,3,64,72] parameter(1)\nROOT r = "
       "f32[1,14,14,72] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
       "dim_labels=b01f_01io->b01f"},
      {"by groups",
       "x = f32[1,40,40,64] parameter(0)\nw = f32[3,3,8,128] parameter(1)\nROOT r = "
       "f32[1,40,40,128] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
       "dim_labels=b01f_01io->b01f, feature_group_count=8"},
      {"input gradient",
       "x = f32[6,14,14,48] parameter(0)\nw = f32[3,3,48,32] parameter(1)\nROOT r = "
       "f32[6,28,28,32] convolution(x, w), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2}, "
       "dim_labels=b01f_01io->b01f"},
      {"kernel gradient, the last part smaller",
       "x = f32[7,28,28,24] parameter(0)\nw = f32[7,14,14,80] parameter(1)\nROOT r = "
       "f32[3,3,24,80] convolution(x, w), window={size=14x14 pad=0_1x0_1 rhs_dilate=2x2}, "
       "dim_labels=f01b_i01o->01bf"},
      {"kernel gradient of a small batch",
       "x = f32[2,56,56,24] parameter(0)\nw = f32[2,28,28,80] parameter(1)\nROOT r = "
       "f32[80,24,3,3] convolution(x, w), window={size=28x28 pad=0_1x0_1 rhs_dilate=2x2}, "
       "dim_labels=f01b_i01o->fb01"},
      {"kernel gradient",
       "x = f32[6,28,28,24] parameter(0)\nw = f32[6,14,14,80] parameter(1)\nROOT r = "
       "f32[3,3,24,80] convolution(x, w), window={size=14x14 pad=0_1x0_1 rhs_dilate=2x2}, "
       "dim_labels=f01b_i01o->01bf"},
  };
  for (const Form& form : forms) {
    INFO(form.name);
    const std::unique_ptr<Module> module = parse_module(with_entry(form.body));
    const Node& node = *module->entry()->root();
    Random random{std::mt19937_64(4)};
    const Array a = whole_numbers(node.operand(0)->shape, random);
    const Array b = whole_numbers(node.operand(1)->shape, random);
    const PreparedKernel kernel = node.op().lower(node);
    REQUIRE(kernel.run);
    CHECK(kernel.parts > 1);
    const std::vector<Value> arguments{{a, {}, false}, {b, {}, false}};
    CHECK(bitwise_equal(run_kernel(kernel, {a, b}, {node.shape})[0],
                        evaluate(*module, arguments).array));
  }
}

TEST_CASE("gradients of kernels agree with the reference in every size", "[convolution]") {
  Random random{std::mt19937_64(22)};
  const auto any = [&](int64_t low, int64_t high) { return random(low, high); };
  for (int n = 0; n < 60; ++n) {
    const int64_t rank = any(1, 3), images = any(1, 5), in = any(1, 14);
    const int64_t groups = n % 4 == 0 ? any(2, 4) : 1;
    const int64_t out = groups > 1 ? groups * any(16, 50) : any(8, 150);
    Dims x{images}, g{images}, c;
    std::string window[4], spatial;
    for (int64_t d = 0; d < rank; ++d) {
      const bool last = d == rank - 1;
      const bool is_short = n % 3 == 0;  // so that some taps meet padding only
      const int64_t positions = last ? any(4, is_short ? 6 : 40) : any(1, 6), taps = any(1, 4);
      const int64_t stride = any(1, is_short ? 1 : 3), dilation = any(1, 2);
      const int64_t pad = any(-2, 6), behind = any(-2, 6);
      const int64_t input = (positions - 1) * stride + (taps - 1) * dilation + 1 - pad - behind;
      if (input < 1) break;
      x.push_back(input);
      g.push_back(positions);
      c.push_back(taps);
      const char* const times = last ? "" : "x";
      window[0] += fmt::format("{}{}", positions, times);
      window[1] += fmt::format("{}{}", dilation, times);
      window[2] += fmt::format("{}_{}{}", pad, behind, times);
      window[3] += fmt::format("{}{}", stride, times);
      spatial += std::to_string(d);
    }
    if (std::ssize(spatial) < rank) continue;
    x.push_back(in * groups);
    g.push_back(out);
    c.insert(c.end(), {in, out});
    const Shape shapes[] = {Shape(DType::f32, x), Shape(DType::f32, g), Shape(DType::f32, c)};
    const std::string body = fmt::format(
        "x = {} parameter(0)\ng = {} parameter(1)\nROOT r = {} convolution(x, g), window={{size={} "
        "stride={} pad={} rhs_dilate={}}}, dim_labels=f{}b_i{}o->{}bf, batch_group_count={}",
        to_string(shapes[0]), to_string(shapes[1]), to_string(shapes[2]), window[0], window[1],
        window[2], window[3], spatial, spatial, spatial, groups);
    INFO(body);
    const std::unique_ptr<Module> module = parse_module(with_entry(body));
    const Node& node = *module->entry()->root();
    const Array a = whole_numbers(shapes[0], random), b = whole_numbers(shapes[1], random);
    const PreparedKernel kernel = node.op().lower(node);
    REQUIRE(kernel.run);
    const std::vector<Value> arguments{{a, {}, false}, {b, {}, false}};
    CHECK(bitwise_equal(run_kernel(kernel, {a, b}, {node.shape})[0],
                        evaluate(*module, arguments).array));
  }
}

TEST_CASE("convolutions of many features agree with the reference in every size", "[convolution]") {
  Random random{std::mt19937_64(23)};
  for (int n = 0; n < 40; ++n) {
    const int64_t rank = random(1, 3), images = random(1, 3);
    const int64_t groups = n % 4 == 1 ? random(2, 3) : 1;
    const int64_t in = groups > 1   ? random(32, 50)
                       : n % 8 == 0 ? random(513, 600)
                                    : random(128, 200);
    const int64_t out = groups * random(groups > 1 ? 32 : 64, groups > 1 ? 50 : 150);
    Dims x{images}, w, y{images};
    std::string window[6], spatial;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t taps = random(1, rank == 1 ? 9 : 3), input = random(1, rank == 3 ? 3 : 9);
      const int64_t stride = random(1, 3), dilation = random(1, 2), spread = random(1, 3);
      const int64_t pad = random(-1, 3), behind = random(-1, 3);
      const int64_t room = (input - 1) * spread + 1 + pad + behind - (taps - 1) * dilation - 1;
      if (room < 0) break;
      x.push_back(input);
      w.push_back(taps);
      y.push_back(room / stride + 1);
      const std::string texts[] = {
          std::to_string(taps),   std::to_string(stride),   fmt::format("{}_{}", pad, behind),
          std::to_string(spread), std::to_string(dilation), std::to_string(random(0, 1))};
      for (size_t i = 0; i < 6; ++i) window[i] += (d > 0 ? "x" : "") + texts[i];
      spatial += std::to_string(d);
    }
    if (std::ssize(spatial) < rank) continue;
    const bool is_turned = random(0, 1) == 1;
    x.push_back(in * groups);
    w.insert(w.end(), {is_turned ? out : in, is_turned ? in : out});
    y.push_back(out);
    const Shape shapes[] = {Shape(DType::f32, x), Shape(DType::f32, w), Shape(DType::f32, y)};
    const std::string body = fmt::format(
        "x = {} parameter(0)\nw = {} parameter(1)\nROOT r = {} convolution(x, w), "
        "window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}, "
        "dim_labels=b{}f_{}{}->b{}f, feature_group_count={}",
        to_string(shapes[0]), to_string(shapes[1]), to_string(shapes[2]), window[0], window[1],
        window[2], window[3], window[4], window[5], spatial, spatial, is_turned ? "oi" : "io",
        spatial, groups);
    INFO(body);
    const std::unique_ptr<Module> module = parse_module(with_entry(body));
    const Node& node = *module->entry()->root();
    const Array a = whole_numbers(shapes[0], random), b = whole_numbers(shapes[1], random);
    const PreparedKernel kernel = node.op().lower(node);
    REQUIRE(kernel.run);
    const std::vector<Value> arguments{{a, {}, false}, {b, {}, false}};
    CHECK(bitwise_equal(run_kernel(kernel, {a, b}, {node.shape})[0],
                        evaluate(*module, arguments).array));
  }
}

}  // namespace gspmd::testing::convolution_test
