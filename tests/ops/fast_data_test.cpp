#include <catch2/catch.hpp>
#include <random>

#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_data_test {
namespace {

struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
};

const DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::s8,
                        DType::s16, DType::s32, DType::s64,  DType::u8,  DType::pred};

}  // namespace

TEST_CASE("fast transposes: every permutation of dims of every size of element", "[shape]") {
  for (int64_t seed = 1; seed <= random_load(200); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    static const int64_t kSizes[] = {1, 2, 5, 8, 16, 17, 33, 64, 70};
    Dims dims, order, out;
    const int64_t rank = 2 + random.below(3);
    for (int64_t d = 0; d < rank; ++d) {
      dims.push_back(kSizes[random.below(rank == 2 ? 9 : 6)]);
      order.push_back(d);
    }
    std::shuffle(order.begin(), order.end(), random.bits);
    for (const int64_t d : order) out.push_back(dims[size_t(d)]);
    const DType type = kTypes[random.below(10)];
    expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nROOT r = {} "
                            "transpose(x), dimensions={{{}}}\n}}\n",
                            to_string(Shape(type, dims)), to_string(Shape(type, out)),
                            fmt::join(order, ",")),
                {special_values(Shape(type, dims), unsigned(seed), true)});
  }
}

// Written past the caches: whole lines, and rows that are none.
TEST_CASE("fast transposes: large ones of every size of element", "[shape]") {
  for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (const int64_t odd : {0, 3}) {
      const int64_t rows = (int64_t{9} << 20) / dtype_size(type) / 1024 + odd;
      const Shape from(type, {1024, rows}), to(type, {rows, 1024}), back(type, {1024, rows});
      const Array x = special_values(from, 3, false);
      expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nROOT r = {} "
                              "transpose(x), dimensions={{1,0}}\n}}\n",
                              to_string(from), to_string(to)),
                  {x});
    }
}

TEST_CASE("fast transposes: rows that share one place of the caches", "[shape]") {
  for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (const int64_t between : {8, 512}) {
      if (between == 512 && type != DType::f32) continue;       // fewer rows than a block has
      const int64_t last = 65536 / dtype_size(type) / between;  // rows 64 KiB apart
      const Shape x(type, {136, between, last}), y(type, {last, between, 136});
      INFO(to_string(x));
      expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nROOT r = {} "
                              "transpose(x), dimensions={{2,1,0}}\n}}\n",
                              to_string(x), to_string(y)),
                  {special_values(x, 3, true)});
    }
}

TEST_CASE("fast pads: low, high and inner ones of any sign", "[shape]") {
  for (int64_t seed = 1; seed <= random_load(300); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType type = kTypes[random.below(10)];
    Dims dims, out;
    std::string padding;
    const int64_t rank = 1 + random.below(4);
    for (int64_t d = 0; d < rank; ++d) {
      const bool plain = random.below(3) == 0;
      const int64_t size = random.below(10), low = plain ? 0 : random.below(7) - 3;
      const int64_t high = plain ? 0 : random.below(7) - 3, inner = plain ? 0 : random.below(3);
      dims.push_back(size);
      out.push_back(size + low + high + std::max<int64_t>(size - 1, 0) * inner);
      padding += fmt::format("{}{}_{}_{}", d > 0 ? "x" : "", low, high, inner);
    }
    if (std::any_of(out.begin(), out.end(), [](int64_t n) { return n < 0; })) continue;
    expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nz = {}[] "
                            "parameter(1)\nROOT r = {} pad(x, z), padding={}\n}}\n",
                            to_string(Shape(type, dims)), dtype_name(type),
                            to_string(Shape(type, out)), padding),
                {special_values(Shape(type, dims), unsigned(seed), true),
                 special_values(Shape(type, {}), unsigned(seed) + 1, false)});
  }
  // Enough rows for several parts.
  const Array x = special_values(Shape(DType::f32, {300, 200}), 1, false);
  expect_fast(
      "HloModule m\nENTRY e {\nx = f32[300,200] parameter(0)\nz = f32[] parameter(1)\nROOT "
      "r = f32[303,401] pad(x, z), padding=1_2x1_1_1\n}\n",
      {x, Array(DType::f32, {})});
}

TEST_CASE("fast reductions row by row: whole numbers along any dims", "[reduce]") {
  static const DType kNumbers[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                   DType::s32, DType::s64, DType::u32,  DType::pred};
  for (int64_t seed = 1; seed <= random_load(200); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType type = kNumbers[random.below(8)];
    static const int64_t kSizes[] = {1, 2, 7, 8, 9, 64, 65, 130};
    static const int64_t kRows[] = {1, 8, 63, 64, 65, 128, 129, 200};
    Dims dims, reduced, out;
    const int64_t rank = 2 + random.below(3);
    for (int64_t d = 0; d < rank; ++d) dims.push_back(kSizes[random.below(d + 1 == rank ? 8 : 5)]);
    int64_t first = random.below(rank), last = first + random.below(rank - first);
    if (seed % 2 == 0) {  // rows where blocks of them end
      dims.assign(size_t(rank), 1 + random.below(3));
      first = last = rank - 2;
      dims[size_t(first)] = kRows[random.below(8)];
      dims.back() = 64 + random.below(70);
    }
    for (int64_t d = 0; d < rank; ++d)
      (d < first || d > last ? out : reduced)
          .push_back(d < first || d > last ? dims[size_t(d)] : d);
    static const char* const kOps[] = {"add", "maximum", "minimum", "or"};
    const int64_t op = random.below(is_floating(type) ? 3 : 4);
    // Sums of bf16 that are exact in f32 and rounded once.
    Array x = special_values(Shape(type, dims), unsigned(seed), op != 0);
    Array init = special_values(Shape(type, {}), unsigned(seed) + 1, false);
    if (op == 0)
      for (Array* array : {&x, &init})
        for (int64_t i = 0; i < array->size(); ++i)
          array->set(i, type == DType::pred ? double(random.below(2)) : double(random.below(4)));
    const std::string name(dtype_name(type));
    expect_fast(fmt::format("HloModule m\nc {{\na = {0}[] parameter(0)\nb = {0}[] "
                            "parameter(1)\nROOT r = {0}[] {1}(a, b)\n}}\nENTRY e {{\nx = {2} "
                            "parameter(0)\nz = {0}[] parameter(1)\nROOT r = {3} reduce(x, z), "
                            "dimensions={{{4}}}, to_apply=c\n}}\n",
                            name, kOps[op], to_string(Shape(type, dims)),
                            to_string(Shape(type, out)), fmt::join(reduced, ",")),
                {x, init});
  }
}

TEST_CASE("fast scatters and gathers of rows: batched, repeated and out of range", "[index]") {
  for (int64_t seed = 1; seed <= random_load(100); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const int64_t rows = 1 + random.below(20), width = 1 + random.below(40);
    const int64_t a = 1 + random.below(6), b = 1 + random.below(9);
    Array places(DType::s32, {a, b});
    for (int64_t i = 0; i < places.size(); ++i) places.set(i, double(random.below(rows + 4) - 2));
    const Shape table(DType::f32, {rows, width}), updates(DType::f32, {a, b, width});
    Array x(table), u(updates);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, double(random.below(9) - 4));
    for (int64_t i = 0; i < u.size(); ++i) u.set(i, double(random.below(9) - 4));
    expect_fast(fmt::format("HloModule m\nc {{\na = f32[] parameter(0)\nb = f32[] "
                            "parameter(1)\nROOT r = f32[] add(a, b)\n}}\nENTRY e {{\nx = {0} "
                            "parameter(0)\ni = {1} parameter(1)\nu = {2} parameter(2)\nROOT r = "
                            "{0} scatter(x, i, u), update_window_dims={{2}}, "
                            "inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, "
                            "index_vector_dim=2, to_apply=c\n}}\n",
                            to_string(table), to_string(places.shape()), to_string(updates)),
                {x, places, u});
    expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\ni = {} "
                            "parameter(1)\nROOT r = {} gather(x, i), offset_dims={{2}}, "
                            "collapsed_slice_dims={{0}}, start_index_map={{0}}, "
                            "index_vector_dim=2, slice_sizes={{1,{}}}\n}}\n",
                            to_string(table), to_string(places.shape()), to_string(updates), width),
                {x, places});
  }
}

// Columns, or single elements: neighbours in the result are of different slices.
TEST_CASE("fast gathers of columns: the result's rows are written whole", "[index]") {
  for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (const int64_t count : {1, 7, 300, 20000, 60001})  // the last one past the caches
      for (const int64_t groups : {1, 3}) {
        if (count > 60000 && (type != DType::f32 || groups == 1)) continue;
        for (const int64_t taken : {1, 2, 4}) {  // 3, 6 or 12 elements of each slice
          const Shape x(type, {3, 4, 50}), places(DType::s32, {groups, count}),
              r(type, {groups, 3, taken, count});
          Array starts(places);
          for (int64_t i = 0; i < starts.size(); ++i) starts.set(i, double(i * 37 % 61) - 5);
          expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\ni = {} "
                                  "parameter(1)\nROOT r = {} gather(x, i), offset_dims={{1,2}}, "
                                  "collapsed_slice_dims={{2}}, start_index_map={{2}}, "
                                  "index_vector_dim=2, slice_sizes={{3,{},1}}\n}}\n",
                                  to_string(x), to_string(places), to_string(r), taken),
                      {special_values(x, unsigned(count), true), starts});
        }
      }
}

// Sums, or ors, of two arrays that are padded between elements: every place has one of them, and
// the pad's value beside it.
TEST_CASE("fast interleaves: slices in turn along any dim, with zeros of both signs", "[shape]") {
  const auto check = [](DType type, Dims dims, int64_t dim, bool swapped) {
    const int64_t size = dims[size_t(dim)], odds = size / 2, evens = size - odds;
    const Shape result(type, dims);
    const auto part = [&](int64_t count) {
      Dims of = dims;
      of[size_t(dim)] = count;
      return Shape(type, of);
    };
    const auto padding = [&](int64_t low, int64_t count) {
      std::vector<std::string> all(dims.size(), "0_0");
      all[size_t(dim)] =
          fmt::format("{}_{}_1", low, size - low - std::max<int64_t>(2 * count - 1, 0));
      return fmt::format("{}", fmt::join(all, "x"));
    };
    INFO(to_string(result) << " along " << dim << (swapped ? ", the other first" : ""));
    const std::string name(dtype_name(type));
    expect_fast(
        fmt::format("HloModule m\nf {{\na = {1} parameter(0)\nb = {2} parameter(1)\n"
                    "z = {0}[] constant({9})\np = {3} pad(a, z), padding={4}\n"
                    "q = {3} pad(b, z), padding={5}\nROOT r = {3} {6}({7}, {8})\n}}\n"
                    "ENTRY e {{\na = {1} parameter(0)\nb = {2} parameter(1)\n"
                    "ROOT r = {3} fusion(a, b), kind=kCustom, calls=f\n}}\n",
                    name, to_string(part(evens)), to_string(part(odds)), to_string(result),
                    padding(0, evens), padding(1, odds), type == DType::pred ? "or" : "add",
                    swapped ? "q" : "p", swapped ? "p" : "q", type == DType::pred ? "false" : "0"),
        {special_values(part(evens), unsigned(size), true),
         special_values(part(odds), unsigned(size) + 1, true)});
  };
  for (const DType type :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::s32, DType::pred})
    for (const int64_t size : {2, 3, 16, 129})
      for (const bool swapped : {false, true}) {
        check(type, {3, size}, 1, swapped);
        check(type, {size, 5}, 0, swapped);
        check(type, {2, size, 3, 7}, 1, swapped);
        check(type, {size * 40}, 0, swapped);
      }
  check(DType::f32, {3, 700001}, 1, false);  // past the caches
  check(DType::bf16, {4097, 1031}, 0, true);
}

// Past the caches and not, whole pieces and what is left of them.
TEST_CASE("fast reverses: rows of every size of element", "[shape]") {
  for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (const int64_t n : {1, 5, 4096, 4099})
      for (const int64_t bytes : {int64_t{1} << 12, int64_t{9} << 20}) {  // streamed or not
        const Shape shape(type, {std::max<int64_t>(bytes / n / dtype_size(type), 2), n});
        const bool is_large = bytes > 1 << 20;
        if (is_large && (n < 4099 || type != DType::f32)) continue;
        expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {0} parameter(0)\nROOT r = {0} "
                                "reverse(x), dimensions={{1}}\n}}\n",
                                to_string(shape)),
                    {special_values(shape, unsigned(n), false)});
      }
}

TEST_CASE("fast concatenations: short rows of several operands, few and many", "[shape]") {
  for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (const int64_t rows : {1, 5, 3000, 20001})
      for (const int64_t second : {5, 300}) {
        const Shape x(type, {rows, 3}), y(type, {rows, second}), z(type, {rows, 1});
        if (rows * second > 1000000) continue;
        const Shape r(type, {rows, 4 + second});
        expect_fast(
            fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\ny = {} parameter(1)\nz = "
                        "{} parameter(2)\nROOT r = {} concatenate(x, y, z), dimensions={{1}}\n}}\n",
                        to_string(x), to_string(y), to_string(z), to_string(r)),
            {special_values(x, 1, true), special_values(y, 2, true), special_values(z, 3, true)});
      }
}

TEST_CASE("fast products: batches of small ones, whole and broken vectors", "[dot]") {
  for (int64_t seed = 1; seed <= random_load(200); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const int64_t batch = 1 + random.below(5), m = 1 + random.below(70), n = 1 + random.below(70),
                  k = 1 + random.below(seed % 10 == 0 ? 200 : 40);
    const bool turned = random.below(2) == 1;
    const DType type = random.below(4) == 0 ? DType::f64 : DType::f32;
    const Shape a(type, {batch, m, k}), b(type, turned ? Dims{batch, n, k} : Dims{batch, k, n});
    Array x(a), y(b);
    for (Array* array : {&x, &y})
      for (int64_t i = 0; i < array->size(); ++i) array->set(i, double(random.below(9) - 4));
    expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\ny = {} "
                            "parameter(1)\nROOT r = {} dot(x, y), lhs_batch_dims={{0}}, "
                            "rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
                            "rhs_contracting_dims={{{}}}\n}}\n",
                            to_string(a), to_string(b), to_string(Shape(type, {batch, m, n})),
                            turned ? 2 : 1),
                {x, y});
  }
}

TEST_CASE("fast convolutions: groups along one axis", "[convolution]") {
  const auto expect = [](const std::string& x, const std::string& k, const std::string& result,
                         const std::string& window, const std::string& rest, const Dims& input,
                         const Dims& kernel) {
    const Array a = special_values(Shape(DType::f32, input), 1, false);
    Array whole(a.shape()), by(Shape(DType::f32, kernel));
    for (int64_t i = 0; i < whole.size(); ++i) whole.set(i, double(i * 7 % 11) - 5);
    for (int64_t i = 0; i < by.size(); ++i) by.set(i, double(i * 5 % 13) - 6);
    expect_fast(
        fmt::format("HloModule m\nENTRY e {{\nx = f32[{}] parameter(0)\nk = f32[{}] "
                    "parameter(1)\nROOT r = f32[{}] convolution(x, k), window={{{}}}, {}\n}}\n",
                    x, k, result, window, rest),
        {whole, by}, 1e-6);
  };
  const std::string features = "dim_labels=b0f_0io->b0f, feature_group_count=";
  expect("2,19,32", "4,1,32", "2,19,32", "size=4 pad=3_0", features + "32", {2, 19, 32},
         {4, 1, 32});
  expect("2,19,32", "4,1,64", "2,19,64", "size=4 pad=0_3", features + "32", {2, 19, 32},
         {4, 1, 64});
  expect("2,19,32", "3,16,8", "2,9,8", "size=3 stride=2", features + "2", {2, 19, 32}, {3, 16, 8});
  expect("2,19,32", "3,1,32", "2,15,32", "size=3 rhs_dilate=2", features + "32", {2, 19, 32},
         {3, 1, 32});
  expect("2,19,32", "4,1,32", "2,19,32", "size=4 pad=0_3 rhs_reversal=1", features + "32",
         {2, 19, 32}, {4, 1, 32});
  expect("2,32,19", "32,1,3", "2,32,17", "size=3",
         "dim_labels=bf0_oi0->bf0, feature_group_count=32", {2, 32, 19}, {32, 1, 3});
  expect("2,19,32", "19,2,32", "4,1,32", "size=19 pad=3_0",
         "dim_labels=f0b_0io->0bf, batch_group_count=32", {2, 19, 32}, {19, 2, 32});
}

}  // namespace gspmd::testing::fast_data_test
