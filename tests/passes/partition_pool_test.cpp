// Select-and-scatter over split dims against plain loops over whole arrays, on values that leave no
// room for a padding that loses: infinities, NaN, the ends of integers, and ties everywhere.

#include <cmath>
#include <limits>
#include <random>

#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_pool_test {
namespace {

struct Axis {
  int64_t size, window, stride = 1, low = 0, high = 0;
  int64_t positions() const {
    return size + low + high < window ? 0 : (size + low + high - window) / stride + 1;
  }
};

struct Select {
  const char* text;  // of the root, a and b being the two that are compared
  bool (*keeps)(double a, double b);
};

const Select kSelects[] = {
    {"compare(a, b), direction=GE", [](double a, double b) { return a >= b; }},
    {"compare(a, b), direction=GT", [](double a, double b) { return a > b; }},
    {"compare(a, b), direction=LE", [](double a, double b) { return a <= b; }},
    {"compare(a, b), direction=LT", [](double a, double b) { return a < b; }},
    {"compare(b, a), direction=GE", [](double a, double b) { return b >= a; }},
    {"compare(b, a), direction=LT", [](double a, double b) { return b < a; }},
    {"compare(a, b), direction=NE", [](double a, double b) { return a != b; }},
    {"compare(a, b), direction=EQ", [](double a, double b) { return a == b; }},
    {"compare(a, a), direction=EQ", [](double a, double) { return a == a; }},
    {"constant(true)", [](double, double) { return true; }},
    {"constant(false)", [](double, double) { return false; }},
};

struct Case {
  std::string dtype;
  std::vector<Axis> axes;
  std::string sharding;
  int64_t devices = 1;
};

std::string braced(const std::string& separator, const std::vector<Axis>& axes,
                   int64_t (*part)(const Axis&)) {
  std::string text;
  for (const Axis& axis : axes)
    text += (text.empty() ? "" : separator) + std::to_string(part(axis));
  return text;
}

std::unique_ptr<Module> module_of(const Case& c, const Select& select, const std::string& combiner,
                                  const std::string& init) {
  std::string pads;
  for (const Axis& axis : c.axes)
    pads += fmt::format("{}{}_{}", pads.empty() ? "" : "x", axis.low, axis.high);
  const std::string operand = braced(",", c.axes, [](const Axis& a) { return a.size; });
  const std::string source = braced(",", c.axes, [](const Axis& a) { return a.positions(); });
  return parse_module(fmt::format(
      R"(HloModule m
keeps {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = pred[] {1} }}
adds {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = {0}[] {2}(a, b) }}
ENTRY e {{
  x = {0}[{3}] parameter(0), sharding={4}
  s = {0}[{5}] parameter(1), sharding={4}
  z = {0}[] constant({6})
  ROOT r = {0}[{3}] select-and-scatter(x, s, z), window={{size={7} stride={8} pad={9}}}, select=keeps, scatter=adds, sharding={4}
}})",
      c.dtype, select.text, combiner, operand, c.sharding, source, init,
      braced("x", c.axes, [](const Axis& a) { return a.window; }),
      braced("x", c.axes, [](const Axis& a) { return a.stride; }), pads));
}

Dims index_of(int64_t at, const Dims& dims) {
  Dims index(dims.size());
  for (size_t d = dims.size(); d-- > 0; at /= dims[d]) index[d] = at % dims[d];
  return index;
}

// What the op's definition says: of a window's elements that exist, in row-major order, one is kept
// until `keeps` is false of it and a later one.
std::vector<double> expected(const Case& c, const Select& select, bool largest, double init,
                             const Array& x, const Array& source) {
  std::vector<double> out(static_cast<size_t>(x.size()), init);
  Dims windows;
  for (const Axis& axis : c.axes) windows.push_back(axis.window);
  int64_t inside = 1;
  for (const int64_t size : windows) inside *= size;
  for (int64_t n = 0; n < source.size(); ++n) {
    const Dims position = index_of(n, source.dims());
    int64_t kept = -1;
    for (int64_t k = 0; k < inside; ++k) {
      const Dims offset = index_of(k, windows);
      int64_t at = 0;
      for (size_t d = 0; d < c.axes.size() && at >= 0; ++d) {
        const int64_t i = position[d] * c.axes[d].stride - c.axes[d].low + offset[d];
        at = i < 0 || i >= c.axes[d].size ? -1 : at * c.axes[d].size + i;
      }
      if (at >= 0 && (kept < 0 || !select.keeps(x.at(kept), x.at(at)))) kept = at;
    }
    if (kept < 0) continue;
    double& element = out[static_cast<size_t>(kept)];
    element = largest ? std::max(element, source.at(n)) : element + source.at(n);
  }
  return out;
}

std::vector<double> hostile(const std::string& dtype) {
  if (dtype == "s32") return {-2147483648.0, 2147483647.0, 0};
  if (dtype == "u32") return {0, 4294967295.0, 1};
  const double inf = std::numeric_limits<double>::infinity();
  return {-inf, std::nan(""), inf, 0};
}

Array drawn(const Shape& shape, const std::vector<double>& values, std::mt19937& random) {
  Array array(shape);
  // Few values, often one alone: ties are what padding would win.
  const size_t count = 1 + random() % values.size(), first = random() % values.size();
  for (int64_t i = 0; i < array.size(); ++i)
    array.set(i, values[(first + random() % count) % values.size()]);
  return array;
}

void check(const Case& c, std::mt19937& random) {
  const bool largest = random() % 4 == 0;
  const double init = random() % 2 == 0 ? 0 : 3;
  for (const Select& select : kSelects) {
    const auto module = module_of(c, select, largest ? "maximum" : "add", init == 0 ? "0" : "3");
    PipelineOptions options;
    options.num_devices = c.devices;
    const CompiledModule compiled = run_pipeline(*module, options);
    const auto& parameters = module->entry()->parameters();
    for (int round = 0; round < 3; ++round) {
      const Array x = drawn(parameters[0]->shape, hostile(c.dtype), random);
      Array source(parameters[1]->shape);
      for (int64_t i = 0; i < source.size(); ++i)
        source.set(i, double(1 << (i % (c.dtype == "bf16" ? 4 : 16))));  // exact sums
      const std::vector<double> wanted = expected(c, select, largest, init, x, source);
      const Array got =
          run_partitioned(compiled, c.devices, {{x, {}, false}, {source, {}, false}}).array;
      for (int64_t i = 0; i < got.size(); ++i) {
        if (got.at(i) == wanted[static_cast<size_t>(i)]) continue;
        std::string values;
        for (int64_t k = 0; k < x.size(); ++k) values += fmt::format(" {}", x.at(k));
        FAIL("element " << i << " is " << got.at(i) << " instead of "
                        << wanted[static_cast<size_t>(i)] << "; values" << values << "\n"
                        << to_text(*module) << to_text(*compiled.local));
      }
    }
  }
}

}  // namespace

TEST_CASE("padding of a split select-and-scatter is never chosen", "[special]") {
  std::mt19937 random(5);
  const Case known{"f32", {{4, 3, 1, 1, 1}}, "{devices=[2]<=[2]}", 2};
  check(known, random);
  const char* const dtypes[] = {"f32", "s32", "u32", "bf16", "f64"};
  for (int n = 0; n < 150; ++n) {
    Case c;
    c.dtype = dtypes[random() % 5];
    c.devices = 2 + int64_t(random() % 4);
    c.sharding = fmt::format("{{devices=[{0}]<=[{0}]}}", c.devices);
    Axis axis{1 + int64_t(random() % 13), 1 + int64_t(random() % 5), 1 + int64_t(random() % 3)};
    axis.low = int64_t(random() % 8) - 1;
    axis.high = int64_t(random() % 8) - 1;
    if (axis.size + axis.low + axis.high < axis.window) continue;
    c.axes = {axis};
    check(c, random);
  }
}

TEST_CASE("padding of a select-and-scatter over two dims is never chosen", "[special]") {
  std::mt19937 random(6);
  const char* const shardings[] = {"{devices=[2,2]<=[4]}", "{devices=[4,1]<=[4]}",
                                   "{devices=[1,4]<=[4]}"};
  for (int n = 0; n < 60; ++n) {
    Case c{"f32", {}, shardings[random() % 3], 4};
    for (int d = 0; d < 2; ++d) {
      Axis axis{3 + int64_t(random() % 5), 1 + int64_t(random() % 3), 1 + int64_t(random() % 2)};
      axis.low = int64_t(random() % 4);
      axis.high = int64_t(random() % 4);
      c.axes.push_back(axis);
    }
    check(c, random);
  }
}

}  // namespace partition_pool_test
