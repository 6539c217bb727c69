// How long reading, verifying and printing HLO text takes, and whether that is linear in the text.
#include <fmt/format.h>

#include <chrono>

#include "bench/report.h"
#include "gspmd/ir/text.h"

namespace {

using namespace gspmd;

// `count` instructions as a framework prints them: types at operands, layouts, shardings, metadata.
std::string module_text(int64_t count) {
  std::string text = R"(HloModule bench

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}

ENTRY %main (p: f32[8,16]) -> f32[8,16] {
  %p = f32[8,16]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  %zero = f32[] constant(0)
)";
  std::string before = "p";
  for (int64_t i = 0; i < count / 5; ++i) {
    fmt::format_to(
        std::back_inserter(text),
        R"(  %dot.{0} = f32[8,8]{{1,0}} dot(f32[8,16]{{1,0}} %{1}, f32[8,16]{{1,0}} %{1}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}, metadata={{op_type="dot_general" op_name="jit(step)/layer_{0}/dot_general" source_file="model.py" source_line={0}}}
  %reduce.{0} = f32[8]{{0}} reduce(f32[8,8]{{1,0}} %dot.{0}, f32[] %zero), dimensions={{1}}, to_apply=%sum
  %broadcast.{0} = f32[8,16]{{1,0}} broadcast(f32[8]{{0}} %reduce.{0}), dimensions={{0}}
  %add.{0} = f32[8,16]{{1,0}} add(f32[8,16]{{1,0}} %broadcast.{0}, f32[8,16]{{1,0}} %p)
  %tanh.{0} = f32[8,16]{{1,0}} tanh(f32[8,16]{{1,0}} %add.{0}), frontend_attributes={{a="b"}}
)",
        i, before);
    before = fmt::format("tanh.{}", i);
  }
  fmt::format_to(std::back_inserter(text), "  ROOT %r = f32[8,16]{{1,0}} copy(%{})\n}}\n", before);
  return text;
}

template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line("Time to read, verify and print HLO text.");
  Report report(line, "hlo_text");
  if (const auto status = line.parse(argc, argv)) return *status;
  for (const int64_t count : {20'000, 200'000}) {
    const std::string text = module_text(count);
    std::unique_ptr<Module> module;
    std::string printed;
    const double read = seconds([&] { module = parse_module(text); });
    const double verified = seconds([&] { verify_module(*module); });
    const double written = seconds([&] { printed = to_text(*module); });
    report.add(fmt::format("{} instructions", count),
               {{"text_mb", double(text.size()) / 1e6, Better::same},
                {"read_s", read},
                {"verify_s", verified},
                {"print_s", written},
                {"us_an_instruction", (read + verified + written) / double(count) * 1e6}});
  }
  try {
    report.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
