// Slices of pads, which become one pad: in front of the elements, between them, behind them,
// across.

#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

struct Padded {
  int64_t size, low, high, interior;
  int64_t length() const { return size + low + high + (size - 1) * interior; }
};

std::string slice_of_pad(const Padded& p, int64_t start, int64_t limit, int64_t stride,
                         const std::string& of_pad, const std::string& of_slice) {
  const int64_t result = (limit - start + stride - 1) / stride;
  return fmt::format(
      "HloModule m\nENTRY e {{\n a = f32[{0}] parameter(0), sharding={{devices=[{10}]<=[{10}]}}\n "
      "k = f32[] constant(7)\n p = f32[{1}] pad(a, k), padding={2}_{3}_{4}{5}\n ROOT s = f32[{6}] "
      "slice(p), slice={{[{7}:{8}:{9}]}}{11}\n}}\n",
      p.size, p.length(), p.low, p.high, p.interior, of_pad, result, start, limit, stride, "@",
      of_slice);
}

std::string for_devices(const std::string& text, int64_t devices) {
  std::string out;
  for (const char c : text) out += c == '@' ? std::to_string(devices) : std::string(1, c);
  return out;
}

}  // namespace

TEST_CASE("slices of pads hold what they held, wherever they lie", "[windows]") {
  const std::string split = ", sharding={devices=[@]<=[@]}", whole = ", sharding={replicated}";
  for (const Padded& p : {Padded{4, 10, 0, 0}, Padded{4, 0, 10, 0}, Padded{5, 3, 4, 2},
                          Padded{9, -2, 3, 1}, Padded{9, -3, -3, 2}, Padded{3, -3, 5, 0}})
    for (int64_t start = 0; start < p.length(); start += 2)
      for (int64_t limit = start + 1; limit <= p.length(); limit += 3)
        for (const int64_t stride : {1, 2})
          for (const int64_t devices : {2, 3}) {
            const std::string& of_pad = limit % 2 ? split : std::string();
            const std::string text =
                for_devices(slice_of_pad(p, start, limit, stride, of_pad,
                                         start % 4 == 2 && limit % 4 == 0 ? whole : split),
                            devices);
            INFO(text);
            CHECK(difference_when_partitioned(*parse_module(text), devices, 1) == "");
          }
}

TEST_CASE("a slice of padding only sends nothing", "[windows]") {
  for (const auto& [p, start, limit] : {std::tuple{Padded{4, 10, 0, 0}, 0, 3},
                                        {Padded{4, 10, 0, 0}, 2, 9},
                                        {Padded{4, 0, 10, 0}, 5, 14}}) {
    const auto module = parse_module(
        for_devices(slice_of_pad(p, start, limit, 1, "", ", sharding={devices=[@]<=[@]}"), 2));
    PipelineOptions options;
    options.num_devices = 2;
    CHECK(collectives(run_pipeline(*module, options)).empty());
  }
}
