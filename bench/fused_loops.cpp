// Fused loops of a Transformer's training step on one thread, as machine code and by the
// interpreter in turn: medians in microseconds, GB/s of operands and results, and what preparing
// costs. One JSON object per line.
//   fused_loops [--rounds 21] [--divide 1] [--only NAME]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "gspmd/kernels/loop_program.h"

namespace {

using namespace gspmd;

// A program with operands of `dtype` over `dims`; strides of a row, a column or all of it.
struct Loop {
  Loop(std::string title, Dims dims, std::vector<bool> reduced, DType dtype = DType::f32)
      : name(std::move(title)), dtype(dtype) {
    if (dtype != DType::f32) name += fmt::format(", {}", dtype_name(dtype));
    program.dims = std::move(dims);
    program.reduced = std::move(reduced);
  }
  int push(LoopValue v) {
    program.values.push_back(std::move(v));
    return static_cast<int>(program.values.size()) - 1;
  }
  int operand(Dims strides) {
    LoopValue v;
    v.operand = static_cast<int64_t>(sizes.size());
    int64_t size = 1;
    for (size_t d = 0; d < strides.size(); ++d) size += (program.dims[d] - 1) * strides[d];
    sizes.push_back(size);
    v.dtype = dtype;
    v.strides = std::move(strides);
    return push(v);
  }
  int number(float x) {
    LoopValue v;
    v.op = LoopOp::constant;
    v.dtype = dtype;
    v.constant = Array::full(Shape(dtype, {}), x);
    return push(v);
  }
  int op(LoopOp o, int a, int b = -1, int c = -1, std::optional<DType> result = std::nullopt) {
    LoopValue v;
    v.op = o;
    v.dtype = result.value_or(dtype);
    v.a = a;
    v.b = b;
    v.c = c;
    return push(v);
  }
  int iota(int64_t dim) {
    LoopValue v;
    v.op = LoopOp::iota;
    v.dtype = DType::s32;
    v.operand = dim;
    return push(v);
  }
  int mul(int a, int b) { return op(LoopOp::multiply, a, b); }
  int add(int a, int b) { return op(LoopOp::add, a, b); }
  int sub(int a, int b) { return op(LoopOp::subtract, a, b); }
  int sum(int a) { return op(LoopOp::reduce_sum, a, number(0)); }
  int most(int a) { return op(LoopOp::reduce_max, a, number(-INFINITY)); }
  void output(int value, bool reduced = false) { program.outputs.push_back({value, reduced}); }

  std::string name;
  DType dtype;
  LoopProgram program;
  std::vector<int64_t> sizes;  // elements of operands
};

Loop softmax(int64_t rows, int64_t seq, DType dtype) {
  Loop l("causal softmax", {rows, seq, seq}, {false, false, true}, dtype);
  const int x = l.operand({seq * seq, seq, 1});
  const int scaled = l.mul(x, l.number(0.125F));
  const int shown = l.op(LoopOp::ge, l.iota(1), l.iota(2), -1, DType::pred);
  const int masked = l.op(LoopOp::select, shown, scaled, l.number(-1e30F));
  const int e = l.op(LoopOp::exp, l.sub(masked, l.most(masked)));
  l.output(l.op(LoopOp::divide, e, l.sum(e)));
  return l;
}

Loop softmax_gradient(int64_t rows, int64_t seq, DType dtype) {
  Loop l("softmax gradient", {rows, seq}, {false, true}, dtype);
  const int y = l.operand({seq, 1}), g = l.operand({seq, 1});
  l.output(l.mul(l.mul(y, l.sub(g, l.sum(l.mul(y, g)))), l.number(0.125F)));
  return l;
}

Loop layer_norm(int64_t rows, int64_t d) {
  Loop l("residual and layer norm", {rows, d}, {false, true});
  const int x = l.operand({d, 1}), residual = l.operand({d, 1});
  const int scale = l.operand({0, 1}), bias = l.operand({0, 1});
  const int h = l.add(x, residual);
  const int share = l.number(1.0F / static_cast<float>(d));
  const int centred = l.sub(h, l.mul(l.sum(h), share));
  const int variance = l.mul(l.sum(l.mul(centred, centred)), share);
  const int factor = l.op(LoopOp::rsqrt, l.add(variance, l.number(1e-5F)));
  l.output(h);
  l.output(l.add(l.mul(l.mul(centred, factor), scale), bias));
  return l;
}

// tanh's form, of x with its bias.
Loop gelu(int64_t rows, int64_t d, DType dtype) {
  Loop l("gelu", {rows, d}, {false, false}, dtype);
  const int h = l.add(l.operand({d, 1}), l.operand({0, 1}));
  const int cube = l.mul(l.mul(h, h), h);
  const int inner = l.mul(l.add(h, l.mul(cube, l.number(0.044715F))), l.number(0.79788456F));
  const int shifted = l.add(l.op(LoopOp::tanh, inner), l.number(1));
  l.output(l.mul(l.mul(h, l.number(0.5F)), shifted));
  return l;
}

// Of x and what comes from above.
Loop gelu_gradient(int64_t rows, int64_t d, DType dtype) {
  Loop l("gelu gradient and bias sums", {rows, d}, {true, false}, dtype);
  const int x = l.operand({d, 1}), g = l.operand({d, 1}), bias = l.operand({0, 1});
  const int h = l.add(x, bias);
  const int square = l.mul(h, h);
  const int inner =
      l.mul(l.number(0.79788456F), l.add(h, l.mul(l.number(0.044715F), l.mul(square, h))));
  const int t = l.op(LoopOp::tanh, inner);
  const int half = l.number(0.5F), one = l.number(1);
  const int slope = l.mul(l.number(0.79788456F), l.add(one, l.mul(l.number(0.134145F), square)));
  const int left = l.mul(half, l.add(one, t));
  const int right = l.mul(l.mul(half, h), l.mul(l.sub(one, l.mul(t, t)), slope));
  const int result = l.mul(g, l.add(left, right));
  l.output(result);
  l.output(l.sum(result), true);
  return l;
}

Loop adam(int64_t n) {
  Loop l("Adam", {n}, {false});
  const int p = l.operand({1}), m = l.operand({1}), v = l.operand({1}), g = l.operand({1});
  const int rate = l.operand({0}), first = l.operand({0}), second = l.operand({0});
  const int new_m = l.add(l.mul(m, l.number(0.9F)), l.mul(g, l.number(0.1F)));
  const int new_v = l.add(l.mul(v, l.number(0.999F)), l.mul(l.mul(g, g), l.number(0.001F)));
  const int root = l.op(LoopOp::sqrt, l.op(LoopOp::divide, new_v, second));
  const int step =
      l.op(LoopOp::divide, l.op(LoopOp::divide, new_m, first), l.add(root, l.number(1e-8F)));
  l.output(l.sub(p, l.mul(rate, step)));
  l.output(new_m);
  l.output(new_v);
  return l;
}

Loop cross_entropy(int64_t rows, int64_t vocab) {
  Loop l("cross entropy and its gradient", {rows, vocab}, {false, true});
  const int x = l.operand({vocab, 1}), labels = l.operand({1, 0});
  l.program.values[static_cast<size_t>(labels)].dtype = DType::s32;
  const int shifted = l.sub(x, l.most(x));
  const int e = l.op(LoopOp::exp, shifted);
  const int sum = l.sum(e);
  const int is_label = l.op(LoopOp::eq, l.iota(1), labels, -1, DType::pred);
  const int one = l.op(LoopOp::convert, is_label);
  const int loss = l.sub(l.op(LoopOp::log, sum), l.sum(l.mul(one, shifted)));
  l.output(l.mul(l.sub(l.op(LoopOp::divide, e, sum), one), l.number(0.001F)));
  l.output(loss, true);
  return l;
}

struct Prepared {
  PreparedKernel kernel;
  double microseconds = 0;  // of preparing
};

// Microseconds that this thread has run: others on the machine disturb it less than a clock.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

void measure(const Loop& loop, int rounds, Report& report) {
  std::vector<Array> arrays;
  std::vector<const std::byte*> operands;
  std::vector<std::byte*> results;
  double bytes = 0;
  for (const int64_t size : loop.sizes) {
    arrays.emplace_back(loop.dtype, Dims{size});
    for (int64_t i = 0; i < size; ++i) arrays.back().set(i, static_cast<double>(i % 997) / 400);
    operands.push_back(arrays.back().bytes().data());
    bytes += static_cast<double>(arrays.back().bytes().size());
  }
  for (const LoopOutput& output : loop.program.outputs) {
    Dims dims;
    for (size_t d = 0; d < loop.program.dims.size(); ++d)
      if (!output.reduced || !loop.program.reduced[d]) dims.push_back(loop.program.dims[d]);
    const DType dtype = loop.program.values[static_cast<size_t>(output.value)].dtype;
    arrays.push_back(Array::full(Shape(dtype, dims), 1));
    results.push_back(arrays.back().bytes().data());
    bytes += static_cast<double>(arrays.back().bytes().size());
  }
  const auto prepared = [&](bool code) {
    const double start = now();
    Prepared p{prepare_loop(loop.program, {.machine_code = code})};
    p.microseconds = now() - start;
    return p;
  };
  const Prepared plain = prepared(false), code = prepared(true), again = prepared(true);
  const auto timed = [&](const PreparedKernel& kernel) {
    std::vector<std::byte> memory(static_cast<size_t>(kernel.scratch_bytes + kernel.shared_bytes) +
                                  128);
    const auto aligned = [](std::byte* at) {
      return at + (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
    };
    KernelArgs args{operands.data(), results.data(), aligned(memory.data())};
    args.shared = aligned(args.scratch + kernel.scratch_bytes);
    const double start = now();
    for (args.part = 0; args.part < kernel.prepare_parts; ++args.part) kernel.prepare(args);
    for (args.part = 0; args.part < kernel.parts; ++args.part) kernel.run(args);
    return now() - start;
  };
  std::vector<double> plain_us, code_us, ratios;
  for (int i = 0; i < rounds + 2; ++i) {
    const double a = timed(plain.kernel), b = timed(code.kernel);
    if (i < 2) continue;
    plain_us.push_back(a);
    code_us.push_back(b);
    ratios.push_back(b / a);
  }
  report.add(fmt::format("{} of [{}]", loop.name, fmt::join(loop.program.dims, ",")),
             {{"interpreter_us", median(plain_us)},
              {"code_us", median(code_us)},
              {"code_to_interpreter", median(ratios)},
              {"least_interpreter_us", *std::min_element(plain_us.begin(), plain_us.end())},
              {"least_code_us", *std::min_element(code_us.begin(), code_us.end())},
              {"code_gb_per_s", bytes / median(code_us) * 1e-3, Better::higher},
              {"prepare_interpreter_us", plain.microseconds},
              {"prepare_code_us", code.microseconds},
              {"prepare_code_again_us", again.microseconds}});
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 21;
  int64_t divide = 1;
  std::string only;
  CommandLine line("Fused loops: machine code against the interpreter.");
  line.number("--rounds", rounds);
  line.number("--divide", divide, "rows by this: what caches hold");
  line.option("--only", only, "those whose name holds this");
  Report report(line, "fused_loops");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    std::vector<Loop> loops;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      loops.push_back(softmax(64 / divide, 256, dtype));
      loops.push_back(softmax_gradient(16384 / divide, 256, dtype));
      loops.push_back(gelu(2048 / divide, 2048, dtype));
      loops.push_back(gelu_gradient(2048 / divide, 2048, dtype));
    }
    loops.push_back(layer_norm(2048 / divide, 512));
    loops.push_back(adam((1 << 20) / divide));
    loops.push_back(cross_entropy(2048 / divide, 8192));
    for (const Loop& loop : loops)
      if (loop.name.find(only) != std::string::npos) measure(loop, rounds, report);
    report.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
