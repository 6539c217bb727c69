// Hot HLO ops at real sizes, each against what bounds it: the rate of matrix products for ops that
// multiply, the rate of copies for ops that move data, both measured beside it. One JSON object per
// line.
//   hlo_ops [--threads 2] [--repeat 5] [--only TEXT] [--write resnet50|bert-layer]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>

#include "bench/hlo_models.h"
#include "examples/peak.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/executor.h"

namespace {

using namespace gspmd;

const char* const kComputations = R"(sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
at_least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
less_sums {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = f32[] parameter(2)
  j = f32[] parameter(3)
  x = f32[] add(a, i)
  y = f32[] add(b, j)
  ROOT c = pred[] compare(x, y), direction=LT
}
)";

struct Op {
  const char* name;
  const char* body;
};
const Op kOps[] = {
    {"dot 2048",
     "a = f32[2048,2048] parameter(0)\nb = f32[2048,2048] parameter(1)\nROOT r = f32[2048,2048] "
     "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"conv 7x7/2 of the image",
     "a = f32[8,224,224,3] parameter(0)\nb = f32[7,7,3,64] parameter(1)\nROOT r = "
     "f32[8,112,112,64] convolution(a, b), window={size=7x7 stride=2x2 pad=3_3x3_3}, "
     "dim_labels=b01f_01io->b01f"},
    {"conv 3x3 56x56x64",
     "a = f32[8,56,56,64] parameter(0)\nb = f32[3,3,64,64] parameter(1)\nROOT r = f32[8,56,56,64] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"conv 3x3 14x14x256",
     "a = f32[8,14,14,256] parameter(0)\nb = f32[3,3,256,256] parameter(1)\nROOT r = "
     "f32[8,14,14,256] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f"},
    {"conv 3x3 7x7x512",
     "a = f32[8,7,7,512] parameter(0)\nb = f32[3,3,512,512] parameter(1)\nROOT r = f32[8,7,7,512] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"conv 1x1 56x56 64->256",
     "a = f32[8,56,56,64] parameter(0)\nb = f32[1,1,64,256] parameter(1)\nROOT r = "
     "f32[8,56,56,256] convolution(a, b), window={size=1x1}, dim_labels=b01f_01io->b01f"},
    {"conv 3x3 56x56x64 channels first",
     "a = f32[8,64,56,56] parameter(0)\nb = f32[64,64,3,3] parameter(1)\nROOT r = f32[8,64,56,56] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
    {"conv depthwise 3x3 56x56x128",
     "a = f32[8,56,56,128] parameter(0)\nb = f32[3,3,1,128] parameter(1)\nROOT r = "
     "f32[8,56,56,128] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f, feature_group_count=128"},
    {"conv input gradient 3x3/2",
     "a = f32[8,28,28,128] parameter(0)\nb = f32[3,3,128,64] parameter(1)\nROOT r = "
     "f32[8,56,56,64] convolution(a, b), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 "
     "rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"},
    {"conv kernel gradient 3x3",
     "a = f32[8,56,56,64] parameter(0)\nb = f32[8,56,56,64] parameter(1)\nROOT r = f32[3,3,64,64] "
     "convolution(a, b), window={size=56x56 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
    {"max pool 3x3/2",
     "a = f32[8,112,112,64] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[8,56,56,64] "
     "reduce-window(a, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, "
     "to_apply=most"},
    {"max pool gradient",
     "a = f32[8,112,112,64] parameter(0)\ns = f32[8,56,56,64] parameter(1)\nz = f32[] "
     "constant(0)\nROOT r = f32[8,112,112,64] select-and-scatter(a, s, z), window={size=1x3x3x1 "
     "stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, select=at_least, scatter=sum"},
    {"cumulative sum 1024x4096",
     "a = f32[1024,4096] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[1024,4096] "
     "reduce-window(a, z), window={size=1x4096 pad=0_0x4095_0}, to_apply=sum"},
    {"sort 1M",
     "a = f32[1048576] parameter(0)\nROOT r = f32[1048576] sort(a), dimensions={0}, to_apply=less"},
    {"sort 1M by any comparator",
     "a = f32[1048576] parameter(0)\nb = f32[1048576] parameter(1)\nROOT r = (f32[1048576], "
     "f32[1048576]) sort(a, b), dimensions={0}, to_apply=less_sums"},
    {"sort 4096 lines of 256",
     "a = f32[4096,256] parameter(0)\nROOT r = f32[4096,256] sort(a), dimensions={1}, "
     "to_apply=less"},
    {"topk 8 of 1024x32000",
     "a = f32[1024,32000] parameter(0)\nROOT r = (f32[1024,8], s32[1024,8]) topk(a), k=8, "
     "largest=true"},
    {"fft 1024x1024",
     "a = f32[1024,1024] parameter(0)\nROOT r = c64[1024,513] fft(a), fft_type=RFFT, "
     "fft_length={1024}"},
    {"cholesky 16x256",
     "a = f32[16,256,256] parameter(0)\nROOT r = f32[16,256,256] cholesky(a), lower=true"},
    {"reduce 4096x4096",
     "a = f32[4096,4096] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[4096] reduce(a, z), "
     "dimensions={1}, to_apply=sum"},
    {"transpose 4096x4096",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,4096] transpose(a), dimensions={1,0}"},
    {"exponential 4096x4096",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,4096] exponential(a)"},
    {"gather 65536 rows of 128",
     "a = f32[32000,128] parameter(0)\ni = s32[65536] iota(), iota_dimension=0\nROOT r = "
     "f32[65536,128] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,128}"},
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::shared_ptr<DeviceBuffer>> random_arguments(const Module& module) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::shared_ptr<DeviceBuffer>> arguments;
  for (const Node* parameter : module.entry()->parameters()) {
    arguments.push_back(std::make_shared<DeviceBuffer>(parameter->shape, 1));
    auto* const data = reinterpret_cast<float*>(arguments.back()->shard(0));
    for (int64_t i = 0; i < parameter->shape.elements_count(); ++i) data[i] = uniform(random);
  }
  return arguments;
}

struct Measured {
  double seconds = 0, flops = 0, bytes = 0;
};

// Best of `repeat` runs after one to warm up.
Measured measure(const std::string& text, int threads, int repeat) {
  const auto module = parse_module(text);
  const CompiledModule compiled = run_pipeline(*module, {});
  const auto program = build_program(compiled, {});
  Executor executor(program, make_worker_pool(threads));
  auto arguments = random_arguments(*module);
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  Measured best;
  for (int i = 0; i <= repeat; ++i) {
    const double seconds = seconds_of([&] { executor.run(arguments, results); });
    if (i <= 1 || seconds < best.seconds) best.seconds = seconds;
  }
  for (const auto& node : module->entry()->nodes())
    if (node->op().flops != nullptr) best.flops += static_cast<double>(node->op().flops(*node));
  for (const Node* parameter : module->entry()->parameters())
    best.bytes += static_cast<double>(parameter->shape.bytes());
  best.bytes += static_cast<double>(module->entry()->root()->shape.bytes());
  return best;
}

// Bytes read and written per second by a copy beyond the caches, as the library copies.
double copy_rate(int threads, int repeat) {
  const char* const text =
      "HloModule m\nENTRY e {\na = f32[8192,4096] parameter(0)\nROOT r = f32[8192,4096] "
      "negate(a)\n}\n";
  const Measured copied = measure(text, threads, repeat);
  return copied.bytes / copied.seconds;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 2, repeat = 5;
  std::string only, write;
  CLI::App app{"Hot HLO ops against the rates of products and copies."};
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--repeat", repeat)->check(CLI::PositiveNumber);
  app.add_option("--only", only, "ops whose name has this text");
  app.add_option("--write", write, "print a model as HLO text: resnet50 or bert-layer");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!write.empty()) {
      fmt::print("{}", write == "resnet50" ? bench::resnet50(8) : bench::bert_layer(8, 512));
      return 0;
    }
    const double peak = examples::measure_peak_gflops(threads) * 1e9;
    const double copies = copy_rate(threads, repeat);
    fmt::print("{{\"threads\":{},\"product_gflops\":{:.0f},\"copy_gb_per_s\":{:.1f}}}\n", threads,
               peak * 1e-9, copies * 1e-9);
    const auto report = [&](const char* name, const std::string& text) {
      if (std::string(name).find(only) == std::string::npos) return;
      const Measured m = measure(text, threads, repeat);
      fmt::print(
          "{{\"op\":\"{}\",\"ms\":{:.3f},\"gflops\":{:.1f},\"gb_per_s\":{:.1f},"
          "\"percent_of_products\":{:.1f},\"percent_of_copies\":{:.1f}}}\n",
          name, m.seconds * 1e3, m.flops / m.seconds * 1e-9, m.bytes / m.seconds * 1e-9,
          100 * m.flops / m.seconds / peak, 100 * m.bytes / m.seconds / copies);
      std::fflush(stdout);
    };
    for (const Op& op : kOps)
      report(op.name,
             fmt::format("HloModule m\n{}ENTRY main {{\n{}\n}}\n", kComputations, op.body));
    report("resnet50, batch 8", bench::resnet50(8));
    report("bert layer, 8x512", bench::bert_layer(8, 512));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
