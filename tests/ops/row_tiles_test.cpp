// Computations that go tile by tile of rows, against their evaluation as a whole.
#include "ops/control/row_tiles.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "kernels/run_kernel.h"
#include "load.h"

namespace gspmd::row_tiles_test {
namespace {

const char* const kCombiners = R"(
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
less_of_first { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
)";

// A module whose entry is one fusion with this body.
std::unique_ptr<Module> fusion_of(const std::string& parameters, const std::string& result,
                                  const std::string& body) {
  std::string text = fmt::format("HloModule m\n{}body {{\n{}\n{}\n}}\nENTRY e {{\n{}\n", kCombiners,
                                 parameters, body, parameters);
  std::string names;
  for (size_t at = 0; (at = parameters.find('=', at)) != std::string::npos; ++at) {
    const size_t line = parameters.rfind('\n', at) + 1;
    names += (names.empty() ? "" : ", ") + parameters.substr(line, at - 1 - line);
  }
  text += fmt::format("ROOT fused = {} fusion({}), kind=kCustom, calls=body\n}}\n", result, names);
  return parse_module(text);
}

// Small whole numbers, of which every sum is exact, in whatever order.
std::vector<Array> whole_numbers(const Module& module, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Array> arguments;
  for (const Node* parameter : module.entry()->parameters()) {
    arguments.emplace_back(parameter->shape);
    for (int64_t i = 0; i < arguments.back().size(); ++i)
      arguments.back().set(i, double(random() % 7) - 3);
  }
  return arguments;
}

// Whether there is a kernel; its results are those of the evaluation.
bool is_right(const Module& module, uint64_t seed) {
  const PreparedKernel kernel = lower_row_tiles(*module.entry()->root());
  if (!kernel.run) return false;
  const std::vector<Array> arguments = whole_numbers(module, seed);
  std::vector<Value> values;
  for (const Array& argument : arguments) values.push_back({argument, {}, false});
  const std::vector<Array> expected = leaves(evaluate(module, values));
  const std::vector<Array> got =
      run_kernel(kernel, arguments, leaf_shapes(module.entry()->root()->shape));
  for (size_t r = 0; r < expected.size(); ++r) {
    INFO("result " << r);
    CHECK(bitwise_equal(got[r], expected[r]));
  }
  return true;
}

int64_t parts_of(const Module& module) { return lower_row_tiles(*module.entry()->root()).parts; }

// Draws bodies of ops that go row by row: values of [rows..., m, n].
class BodyMaker {
 public:
  explicit BodyMaker(uint64_t seed) : random_(seed) {}

  std::unique_ptr<Module> make() {
    rows_ = below(3) == 0 ? Dims{3 + below(3), 16 * (1 + below(12))} : Dims{100 + below(900)};
    const int64_t m = 1 + below(6), n = 2 + below(40);
    add_parameter(full(m, n), "x");
    if (below(2) == 0) add_parameter(full(m, n), "y");
    shared_ = fmt::format("w{}", n);
    parameters_ += fmt::format("{} = f32[{}] parameter({})\n", shared_, n, count_++);
    shared_size_ = n;
    body_ = "zero = f32[] constant(0)\nlow = f32[] constant(-inf)\n";
    const int64_t ops = 3 + below(8);
    for (int64_t i = 0; i < ops; ++i) add_op();
    std::string results, shapes;
    const int64_t given = 1 + below(2);
    for (int64_t i = 0; i < given; ++i) {
      const Made& v = made_[made_.size() - 1 - size_t(i)];
      results += (i == 0 ? "" : ", ") + v.name;
      shapes += (i == 0 ? "" : ", ") + of(v);
    }
    body_ += given == 1 ? fmt::format("ROOT out = {} add({}, {})", shapes, results, results)
                        : fmt::format("ROOT out = ({}) tuple({})", shapes, results);
    return fusion_of(parameters_, given == 1 ? shapes : "(" + shapes + ")", body_);
  }

 private:
  struct Made {
    std::string name;
    int64_t m = 1, n = 1;
  };

  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  std::string full(int64_t m, int64_t n) const {
    return fmt::format("f32[{},{},{}]", fmt::join(rows_, ","), m, n);
  }
  std::string of(const Made& v) const { return full(v.m, v.n); }
  int64_t rank() const { return std::ssize(rows_); }
  // A window or padding of all dims: nothing of the rows.
  std::string each(const std::string& of_row, const std::string& m, const std::string& n) const {
    return (rank() == 2 ? of_row + "x" : std::string()) + of_row + "x" + m + "x" + n;
  }
  void add_parameter(const std::string& shape, const std::string& name) {
    parameters_ += fmt::format("{} = {} parameter({})\n", name, shape, count_++);
    const size_t comma = shape.rfind(',');
    const size_t before = shape.rfind(',', comma - 1);
    made_.push_back(
        {name, std::stoll(shape.substr(before + 1)), std::stoll(shape.substr(comma + 1))});
  }
  const Made& any() {
    return made_[below(2) == 0 ? made_.size() - 1 : size_t(below(std::ssize(made_)))];
  }
  Made add(int64_t m, int64_t n, const std::string& what) {
    const Made v{fmt::format("v{}", made_.size()), m, n};
    body_ += fmt::format("{} = {} {}\n", v.name, of(v), what);
    made_.push_back(v);
    return v;
  }
  std::string slice_of_rows() const {
    std::string text;
    for (const int64_t r : rows_) text += fmt::format("[0:{}], ", r);
    return text;
  }

  void add_op() {
    const Made x = any();
    const int64_t last = rank() + 1;
    switch (below(12)) {
      case 0: {
        const int64_t step = 1 + below(3), first = below(x.n);
        add(x.m, (x.n - first + step - 1) / step,
            fmt::format("slice({}), slice={{{}[0:{}], [{}:{}:{}]}}", x.name, slice_of_rows(), x.m,
                        first, x.n, step));
        return;
      }
      case 1: {
        const int64_t before = below(3), between = below(2);
        add(x.m, before + x.n + (x.n - 1) * between,
            fmt::format("pad({}, zero), padding={}", x.name,
                        each("0_0", "0_0", fmt::format("{}_0_{}", before, between))));
        return;
      }
      case 2:
        add(x.m, 2 * x.n, fmt::format("concatenate({0}, {0}), dimensions={{{1}}}", x.name, last));
        return;
      case 3:
        add(x.m, x.n, fmt::format("reverse({}), dimensions={{{}}}", x.name, last));
        return;
      case 4:
        add(x.n, x.m,
            fmt::format("transpose({}), dimensions={{{}}}", x.name,
                        rank() == 2 ? "0,1,3,2" : "0,2,1"));
        return;
      case 5:
        return add_row_sum(x);
      case 6:
        add(x.m, x.n,
            fmt::format("reduce-window({}, zero), window={{size={} pad={}}}, to_apply=sum", x.name,
                        each("1", "1", fmt::to_string(x.n)),
                        each("0_0", "0_0", fmt::format("{}_0", x.n - 1))));
        return;
      case 7:
        if (x.m < 2) return;
        add(x.m / 2, x.n,
            fmt::format("reduce-window({}, low), window={{size={} stride={}}}, to_apply=most",
                        x.name, each("1", "2", "1"), each("1", "2", "1")));
        return;
      case 8:
        add(x.m, x.n, fmt::format("sort({}), dimensions={{{}}}, to_apply=less", x.name, last));
        return;
      case 9:
        return add_sorted_pair(x);
      case 10:
        if (x.n != shared_size_) return;
        body_ += fmt::format("b{} = {} broadcast({}), dimensions={{{}}}\n", made_.size(), of(x),
                             shared_, last);
        add(x.m, x.n, fmt::format("maximum({}, b{})", x.name, made_.size()));
        return;
      default:
        add(x.m * x.n, 1, fmt::format("reshape({})", x.name));
    }
  }
  void add_row_sum(const Made& x) {
    const std::string sums = fmt::format("f32[{}]", fmt::join(rows_, ","));
    const std::string dims = rank() == 2 ? "0,1" : "0";
    body_ += fmt::format("s{} = {} reduce({}, zero), dimensions={{{},{}}}, to_apply=sum\n",
                         made_.size(), sums, x.name, rank(), rank() + 1);
    body_ +=
        fmt::format("t{0} = {1} broadcast(s{0}), dimensions={{{2}}}\n", made_.size(), of(x), dims);
    add(x.m, x.n, fmt::format("subtract({}, t{})", x.name, made_.size()));
  }
  void add_sorted_pair(const Made& x) {
    const size_t id = made_.size();
    body_ += fmt::format("n{} = {} negate({})\n", id, of(x), x.name);
    body_ += fmt::format(
        "p{0} = ({1}, {1}) sort({2}, n{0}), dimensions={{{3}}}, is_stable=true, "
        "to_apply=less_of_first\n",
        id, of(x), x.name, rank() + 1);
    add(x.m, x.n, fmt::format("get-tuple-element(p{}), index=1", id));
  }

  std::mt19937_64 random_;
  Dims rows_;
  int64_t count_ = 0, shared_size_ = 0;
  std::string parameters_, body_, shared_;
  std::vector<Made> made_;
};

}  // namespace

TEST_CASE("row tiles: bodies drawn by lot give what they do as a whole", "[row_tiles]") {
  int64_t kernels = 0;
  const char* const more = std::getenv("GSPMD_PROGRAMS");
  const int64_t tries = more != nullptr ? std::atoll(more) : random_load(120);
  for (int64_t seed = 0; seed < tries; ++seed) {
    const auto module = BodyMaker(uint64_t(seed) + 91).make();
    INFO("seed " << seed << "\n" << to_text(*module));
    kernels += is_right(*module, uint64_t(seed)) ? 1 : 0;
  }
  INFO(kernels << " kernels");
  CHECK(kernels * 2 > tries);
}

TEST_CASE("row tiles: tiles follow the rows, the last one has what is left", "[row_tiles]") {
  const auto pool = [](int64_t rows) {
    return fusion_of(fmt::format("x = bf16[{},16,32] parameter(0)", rows),
                     fmt::format("bf16[{},8,32]", rows),
                     fmt::format(R"(wide = f32[{0},16,32] convert(x)
zero = f32[] constant(0)
y = f32[{0},8,32] reduce-window(wide, zero), window={{size=1x2x1 stride=1x2x1}}, to_apply=sum
ROOT r = bf16[{0},8,32] convert(y))",
                                 rows));
  };
  for (const int64_t rows : {13, 64, 65, 127, 1000}) {
    INFO(rows << " rows");
    CHECK(is_right(*pool(rows), 7));
  }
  CHECK(parts_of(*pool(1000)) > parts_of(*pool(100)));
  CHECK_FALSE(is_right(*pool(1), 7));  // one tile is no tiles
}

TEST_CASE("row tiles: no kernel where rows meet or are not whole lines", "[row_tiles]") {
  const std::string x = "x = f32[64,512] parameter(0)";
  const auto has_kernel = [&](const std::string& result, const std::string& body) {
    return is_right(*fusion_of(x, result, "zero = f32[] constant(0)\n" + body), 3);
  };
  CHECK(has_kernel("f32[64,512]", "a = f32[64,512] negate(x)\nROOT r = f32[64,512] add(a, x)"));
  CHECK_FALSE(has_kernel("f32[64,512]",
                         "a = f32[64,512] reverse(x), dimensions={0}\n"
                         "ROOT r = f32[64,512] add(a, x)"));
  CHECK_FALSE(has_kernel("f32[64,512]",
                         "a = f32[512] reduce(x, zero), dimensions={0}, to_apply=sum\n"
                         "b = f32[64,512] broadcast(a), dimensions={1}\n"
                         "ROOT r = f32[64,512] add(b, x)"));
  CHECK_FALSE(has_kernel("f32[64,512]",  // the index along the rows
                         "a = f32[64,512] iota(), iota_dimension=0\n"
                         "ROOT r = f32[64,512] add(a, x)"));
  CHECK_FALSE(has_kernel("f32[63,512]",
                         "a = f32[63,512] slice(x), slice={[1:64], [0:512]}\n"
                         "ROOT r = f32[63,512] negate(a)"));
  CHECK_FALSE(has_kernel("(f32[64,512], f32[32,1024])",
                         "a = f32[64,512] negate(x)\nb = f32[32,1024] reshape(a)\n"
                         "ROOT r = (f32[64,512], f32[32,1024]) tuple(a, b)"));
  // A value that is read whole and by rows.
  CHECK_FALSE(is_right(*fusion_of("x = f32[64,64] parameter(0)", "f32[64,64]",
                                  "a = f32[64,64] transpose(x), dimensions={1,0}\n"
                                  "ROOT r = f32[64,64] add(a, x)"),
                       3));
}

}  // namespace gspmd::row_tiles_test
