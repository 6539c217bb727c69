// The kernel of attention, alone: what columns it leaves out, and that nothing depends on that.
#include "ops/dot/row_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "kernels/run_kernel.h"
#include "load.h"
#include "ops/dot/hidden_columns.h"

namespace gspmd::row_blocks_test {
namespace {

struct Sizes {
  int64_t batch = 2, groups = 2, rows = 130, columns = 130, inner = 9, width = 7;
  DType dtype = DType::f32;
  bool turned = false;  // queries: rows lie side by side
};

// Attention of turned queries, [batch, groups] of them, with `mask` over [rows, columns], and the
// gradients of values and scores; of other values than the weights where it says so.
std::unique_ptr<Module> attention(const Sizes& s, const std::string& mask, const std::string& fill,
                                  const std::string& summed = "weight",
                                  const std::string& factor = "weight") {
  const std::string space = fmt::format("[{},{},{},{}]", s.batch, s.groups, s.rows, s.columns);
  const std::string rows = fmt::format("[{},{},{}]", s.batch, s.groups, s.rows);
  const std::string two = fmt::format("[{},{}]", s.rows, s.columns);
  const std::string queries =
      s.turned ? "given = f32[{0},{1},{3},{2}] parameter(0)\n"
                 "  q = f32[{0},{1},{2},{3}] transpose(given), dimensions={{0,1,3,2}}"
               : "q = f32[{0},{1},{2},{3}] parameter(0)";
  std::string text = fmt::format(
      R"(HloModule m
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
most {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }}
ENTRY e {{
  {queries}
  k = f32[{b},{s},{d}] parameter(1)
  v = f32[{b},{s},{f}] parameter(2)
  w = f32[{b},{g},{t},{f}] parameter(3)
  score = f32{space} dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}
  i = s32{two} iota(), iota_dimension=0
  j = s32{two} iota(), iota_dimension=1
  {mask}
  seen = pred{space} broadcast(mask), dimensions={{2,3}}
  fill = f32[] constant({fill})
  fills = f32{space} broadcast(fill), dimensions={{}}
  shown = f32{space} select(seen, score, fills)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32{rows} reduce(shown, low), dimensions={{3}}, to_apply=most
  ms = f32{space} broadcast(m), dimensions={{0,1,2}}
  shifted = f32{space} subtract(shown, ms)
  p = f32{space} exponential(shifted)
  l = f32{rows} reduce(p, zero), dimensions={{3}}, to_apply=sum
  ls = f32{space} broadcast(l), dimensions={{0,1,2}}
  weight = f32{space} divide(p, ls)
  y = f32[{b},{g},{t},{f}] dot(weight, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{1}}
  dv = f32[{b},{s},{f}] dot({summed}, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{1,2}}, rhs_contracting_dims={{1,2}}
  dp = f32{space} dot(w, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}
  ds = f32{space} multiply(dp, {factor})
  dk = f32[{b},{d},{s}] dot(q, ds), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{1,2}}, rhs_contracting_dims={{1,2}}
  dkt = f32[{b},{s},{d}] transpose(dk), dimensions={{0,2,1}}
  ROOT r = (f32[{b},{g},{t},{f}], f32[{b},{s},{f}], f32[{b},{s},{d}], f32{rows}) tuple(y, dv, dkt, l)
}}
)",
      fmt::arg("b", s.batch), fmt::arg("g", s.groups), fmt::arg("t", s.rows),
      fmt::arg("s", s.columns), fmt::arg("d", s.inner), fmt::arg("f", s.width),
      fmt::arg("space", space), fmt::arg("rows", rows), fmt::arg("two", two),
      fmt::arg("queries", fmt::format(fmt::runtime(queries), s.batch, s.groups, s.rows, s.inner)),
      fmt::arg("mask", mask), fmt::arg("fill", fill), fmt::arg("summed", summed),
      fmt::arg("factor", factor));
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos; ++at)
    text.replace(at, 3, dtype_name(s.dtype));
  return parse_module(text);
}

std::string causal(const Sizes& s) {
  return fmt::format("mask = pred[{},{}] compare(i, j), direction=GE", s.rows, s.columns);
}
// Up to `width` positions back.
std::string window(const Sizes& s, int64_t width) {
  const std::string two = fmt::format("[{},{}]", s.rows, s.columns);
  return fmt::format(R"(before = pred{0} compare(i, j), direction=GE
  c = s32[] constant({1})
  cs = s32{0} broadcast(c), dimensions={{}}
  lag = s32{0} subtract(i, j)
  near = pred{0} compare(lag, cs), direction=LT
  mask = pred{0} and(before, near))",
                     two, width);
}

// 16-bit floats are quarters: their scores are exact, in whatever order they are summed.
std::vector<Array> random_arguments(const Module& module, uint64_t seed, double scale = 1) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-scale, scale);
  std::vector<Array> arguments;
  for (const Node* parameter : module.entry()->parameters()) {
    arguments.emplace_back(parameter->shape);
    const bool is_exact = parameter->shape.dtype != DType::f32;
    for (int64_t i = 0; i < arguments.back().size(); ++i) {
      const double x = uniform(random);
      arguments.back().set(i, is_exact ? std::round(4 * x) / 4 : x);
    }
  }
  return arguments;
}

// The results of the kernel; that of all columns gives the same bits.
std::vector<Array> run(const Module& module, const std::vector<Array>& arguments) {
  std::optional<RowBlockSpec> spec = row_block_spec(*module.entry());
  REQUIRE(spec);
  RowBlockSpec whole = *spec;
  whole.live = nullptr;
  const std::vector<Shape>& shapes = module.entry()->root()->shape.elements;
  const std::vector<Array> results = run_kernel(prepare_row_blocks(*spec), arguments, shapes);
  const std::vector<Array> all = run_kernel(prepare_row_blocks(whole), arguments, shapes);
  for (size_t i = 0; i < results.size(); ++i) {
    INFO("result " << i);
    REQUIRE(bitwise_equal(results[i], all[i]));
  }
  return results;
}

void check(const Module& module, const std::vector<Array>& arguments, double tolerance) {
  std::vector<Value> values;
  for (const Array& argument : arguments) values.push_back({argument, {}, false});
  const std::vector<Array> expected = leaves(evaluate(module, values));
  const std::vector<Array> got = run(module, arguments);
  for (size_t r = 0; r < expected.size(); ++r) {
    double largest = 1;
    for (int64_t i = 0; i < expected[r].size(); ++i)
      if (!std::isnan(expected[r].at(i))) largest = std::max(largest, std::fabs(expected[r].at(i)));
    for (int64_t i = 0; i < expected[r].size(); ++i) {
      const double x = got[r].at(i), y = expected[r].at(i);
      INFO("result " << r << " element " << i);
      if (std::isnan(y))
        REQUIRE(std::isnan(x));
      else
        REQUIRE(x == Approx(y).margin(tolerance * largest));
    }
  }
}

std::vector<std::pair<int64_t, int64_t>> live_columns(const Module& module) {
  const std::optional<RowBlockSpec> spec = row_block_spec(*module.entry());
  std::vector<std::pair<int64_t, int64_t>> found;
  for (int64_t first = 0; spec->live && first < spec->rows; first += row_block_rows(*spec)) {
    const auto [begin, end] =
        spec->live(first, std::min(spec->rows, first + row_block_rows(*spec)));
    found.emplace_back(begin, end);
  }
  return found;
}

}  // namespace

TEST_CASE("row blocks: columns that a mask hides are left out", "[row_blocks]") {
  using Columns = std::vector<std::pair<int64_t, int64_t>>;
  const Sizes s{.rows = 300, .columns = 300};
  const auto plain = attention(s, causal(s), "-1e30");
  CHECK(row_block_rows(*row_block_spec(*plain->entry())) == 60);
  CHECK(live_columns(*plain) == Columns{{0, 64}, {0, 128}, {0, 192}, {0, 256}, {0, 300}});
  CHECK(live_columns(*attention(s, window(s, 20), "-inf")) ==
        Columns{{0, 64}, {0, 128}, {64, 192}, {128, 256}, {192, 300}});
  // Nothing is known of these.
  CHECK(live_columns(*attention(s, causal(s), "0")).empty());
  const auto never = fmt::format("mask = pred[{},{}] compare(i, j), direction=NE", 300, 300);
  CHECK(live_columns(*attention(s, never, "-1e30")).empty());
}

TEST_CASE("row blocks: results are the reference's, and the same bits with all columns",
          "[row_blocks]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
    Sizes s{1 + below(3),   1 + below(3),  1 + below(280),
            1 + below(280), 1 + below(80), 1 + below(80)};
    if (below(2) == 0) s.columns = s.rows;
    const char* const fills[] = {"-inf", "-1e30", "-3e38", "-200", "-1", "0"};
    const std::string mask = below(2) == 0 ? causal(s) : window(s, 1 + below(90));
    INFO("seed " << seed);
    const auto module = attention(s, mask, fills[below(6)]);
    // Of rows that see nothing the whole is NaN or a mean, with -inf or numbers.
    const bool is_sharp = below(4) == 0;
    check(*module, random_arguments(*module, random(), is_sharp ? 8 : 1), is_sharp ? 1e-2 : 1e-4);
  }
}

TEST_CASE("row blocks: so they are of 16-bit floats", "[row_blocks]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
    Sizes s{1 + below(3),   1 + below(3),  1 + below(280),
            1 + below(280), 1 + below(80), 1 + below(80)};
    s.dtype = below(3) == 0 ? DType::f16 : DType::bf16;
    if (below(2) == 0) s.columns = s.rows;
    if (below(2) == 0) s.inner += s.inner % 2;
    s.turned = below(4) == 0;
    const std::string mask = below(2) == 0 ? causal(s) : window(s, 1 + below(90));
    INFO("seed " << seed);
    const auto module = attention(s, mask, below(2) == 0 ? "-inf" : "-200");
    check(*module, random_arguments(*module, random()), 2e-2);
  }
}

// Small whole numbers, of which every sum is exact, and types that change between the products.
TEST_CASE("row blocks: nothing is left out of sums of 16-bit floats", "[row_blocks]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
    const auto of = [&](const char* half) { return below(2) == 0 ? "f32" : half; };
    const char* const half = below(4) == 0 ? "f16" : "bf16";
    const bool is_turned = below(3) == 0;
    const int64_t inner = 1 + below(12), rows = 1 + below(140), batches = 1 + below(3);
    const std::string queries =
        is_turned ? "given = {0}[{3},{2},{1}] parameter(0)\n"
                    "  q = {0}[{3},{1},{2}] transpose(given), dimensions={{0,2,1}}"
                  : "q = {0}[{3},{1},{2}] parameter(0)";
    const auto module = parse_module(fmt::format(
        R"(HloModule m
ENTRY e {{
  {queries}
  k = {h}[{b},{s},{d}] parameter(1)
  v = {h}[{b},{s},{f}] parameter(2)
  w = {h}[{b},{t},{f}] parameter(3)
  score = {p}[{b},{t},{s}] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  one = {p}[] constant(1)
  ones = {p}[{b},{t},{s}] broadcast(one), dimensions={{}}
  more = {p}[{b},{t},{s}] add(score, ones)
  p = {h}[{b},{t},{s}] convert(more)
  y = {r}[{b},{t},{f}] dot(p, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  dv = {c}[{b},{s},{f}] dot(p, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT r = ({r}[{b},{t},{f}], {c}[{b},{s},{f}]) tuple(y, dv)
}}
)",
        fmt::arg("h", half), fmt::arg("p", of(half)), fmt::arg("r", of(half)),
        fmt::arg("c", of(half)), fmt::arg("b", batches), fmt::arg("t", rows),
        fmt::arg("s", 1 + below(140)), fmt::arg("d", inner), fmt::arg("f", 1 + below(80)),
        fmt::arg("queries", fmt::format(fmt::runtime(queries), half, rows, inner, batches))));
    std::vector<Array> arguments;
    for (const Node* parameter : module->entry()->parameters()) {
      arguments.emplace_back(parameter->shape);
      for (int64_t i = 0; i < arguments.back().size(); ++i)
        arguments.back().set(i, static_cast<double>(below(5) - 2));
    }
    INFO("seed " << seed);
    check(*module, arguments, 0);
  }
}

TEST_CASE("row blocks: rows whose scores are below what hides others see all columns",
          "[row_blocks]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Sizes s{.rows = 200, .columns = 200, .dtype = dtype};
    const double tolerance = dtype == DType::f32 ? 1e-4 : 2e-2;
    const auto module = attention(s, causal(s), "-200");
    std::vector<Array> arguments = random_arguments(*module, 3);
    const int64_t d = s.inner;
    for (int64_t i = 0; i < d; ++i) arguments[0].set(17 * d + i, -100);  // a query
    for (int64_t j = 0; j < 20; ++j)
      for (int64_t i = 0; i < d; ++i) arguments[1].set(j * d + i, 1);  // its keys
    check(*module, arguments, tolerance);
    for (int64_t i = 0; i < d; ++i) arguments[0].set(17 * d + i, std::nan(""));
    check(*module, arguments, tolerance);
  }
}

TEST_CASE("row blocks: tiles lie over scores that nobody reads behind them", "[row_blocks]") {
  const Sizes s{.rows = 100, .columns = 90};
  const auto tiles = [&](const char* summed, const char* factor) {
    const auto module = attention(s, window(s, 70), "-1e30", summed, factor);
    check(*module, random_arguments(*module, 5), 1e-4);
    return row_block_spec(*module->entry())->tiles.size();
  };
  CHECK(tiles("weight", "weight") == 2);
  CHECK(tiles("score", "weight") == 3);  // one for the weights
  CHECK(tiles("weight", "score") == 3);
  CHECK(tiles("dp", "score") == 3);
  CHECK(tiles("score", "dp") == 3);
}

TEST_CASE("row blocks: blocks are higher where their strips fit no cache", "[row_blocks]") {
  const auto rows = [](int64_t columns, int64_t inner) {
    const Sizes s{
        .batch = 1, .groups = 1, .rows = 300, .columns = columns, .inner = inner, .width = inner};
    return row_block_rows(*row_block_spec(*attention(s, causal(s), "0")->entry()));
  };
  CHECK(rows(300, 64) == 60);
  CHECK(rows(2100, 8) == 18);
  CHECK(rows(2100, 128) == 120);
  CHECK(rows(16384, 128) == 30);
  const Sizes s{.batch = 1, .groups = 1, .rows = 130, .columns = 2100, .inner = 70, .width = 70};
  CHECK(row_block_rows(*row_block_spec(*attention(s, causal(s), "0")->entry())) == 120);
  const auto module = attention(s, window(s, 90), "-1e30");
  check(*module, random_arguments(*module, 9), 1e-4);
}

// Blocks of rows that see 1,024 of 1,500 columns: rows of a tile are a page apart.
TEST_CASE("row blocks: scratch holds what products of any block pack", "[row_blocks]") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Sizes s{.batch = 1,
                  .groups = 1,
                  .rows = 1501,
                  .columns = 1501,
                  .inner = 64,
                  .width = 320,
                  .dtype = dtype};
    const auto module = attention(s, causal(s), "-inf");
    const std::vector<Shape>& shapes = module->entry()->root()->shape.elements;
    const std::vector<Array> results =
        run_kernel(prepare_row_blocks(*row_block_spec(*module->entry())),
                   random_arguments(*module, 11, 0.5), shapes);
    CHECK(results[3].at(0) == 1);  // a row of one column
    CHECK(results[3].at(1500) > 1);
  }
}

TEST_CASE("row blocks: rows longer than a tile of loops are left to others", "[row_blocks]") {
  const Sizes s{.batch = 1, .groups = 1, .rows = 16, .columns = 20000, .inner = 2, .width = 2};
  const auto module = attention(s, causal(s), "-inf");
  std::optional<RowBlockSpec> spec = row_block_spec(*module->entry());
  REQUIRE(spec);
  CHECK_FALSE(prepare_row_blocks(std::move(*spec)).run);
}

}  // namespace gspmd::row_blocks_test
