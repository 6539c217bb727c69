// Scatters by every combiner, type and form of indices, beside the reference kernel.
#include <catch2/catch.hpp>
#include <random>

#include "gspmd/kernels/indexed_slices.h"
#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::fast_scatter_test {
namespace {

using testing::expect_fast;
using testing::special_values;

int64_t below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

struct CombinerText {
  const char* root;  // of a computation of a and b
  bool of_floats = true;
};
constexpr CombinerText kCombiners[] = {{"add(a, b)"},        {"multiply(b, a)"}, {"maximum(a, b)"},
                                       {"minimum(a, b)"},    {"copy(b)"},        {"parameter(1)"},
                                       {"and(a, b)", false}, {"or(a, b)", false}};

std::string computation(const std::string& type, const std::string& root) {
  const bool plain = root == "parameter(1)";
  return fmt::format("c {{\na = {0}[] parameter(0)\n{1}b = {0}[] parameter(1)\n{2}}}\n", type,
                     plain ? "ROOT " : "",
                     plain ? "" : fmt::format("ROOT r = {}[] {}\n", type, root));
}

// Places from -2 to two behind the last, of any index type: those of unsigned ones wrap around.
Array places_of(DType type, const Dims& dims, int64_t size, std::mt19937_64& random) {
  Array places(type, dims);
  const bool is_signed = is_signed_integer(type);
  for (int64_t i = 0; i < places.size(); ++i)
    places.set(i, double(below(random, size + 4) - (is_signed ? 2 : 0)));
  return places;
}

// Numbers for which no order of rounding matters: sums and products that every type here holds.
Array whole_numbers(const Shape& shape, std::mt19937_64& random) {
  Array values(shape);
  for (int64_t i = 0; i < values.size(); ++i)
    values.set(i, shape.dtype == DType::pred         ? double(below(random, 2))
                  : is_unsigned_integer(shape.dtype) ? double(below(random, 3))
                                                     : double(below(random, 3)) - 1);
  return values;
}

constexpr DType kTypes[] = {DType::pred, DType::s8,  DType::u8,  DType::s16, DType::u16,
                            DType::s32,  DType::u32, DType::s64, DType::u64, DType::f16,
                            DType::bf16, DType::f32, DType::f64};
constexpr DType kIndexTypes[] = {DType::s8,  DType::u8,  DType::s32,
                                 DType::u32, DType::s64, DType::u64};

}  // namespace

TEST_CASE("fast scatters of elements: any combiner, type and index, repeated and out of range",
          "[index]") {
  for (int64_t seed = 1; seed <= random_load(300); ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const DType type = kTypes[below(random, std::size(kTypes))];
    const CombinerText& combiner = kCombiners[below(random, std::size(kCombiners))];
    if (!combiner.of_floats && is_floating(type)) continue;
    const std::string root = combiner.root;
    const bool sums = root.starts_with("add") || root.starts_with("multiply");
    const int64_t size = 1 + below(random, 40);
    // More than are found at once, here and there.
    const int64_t count = below(random, 8) == 0 ? 1000 + below(random, 1500) : below(random, 60);
    const Shape x(type, {size}), u(type, {count});
    const Array places =
        places_of(kIndexTypes[below(random, std::size(kIndexTypes))], {count, 1}, size, random);
    const auto values = [&](const Shape& shape, unsigned own) {
      return sums ? whole_numbers(shape, random)
                  : special_values(shape, unsigned(seed) + own, true);
    };
    expect_fast(fmt::format("HloModule m\n{}ENTRY e {{\nx = {} parameter(0)\ni = {} parameter(1)\n"
                            "u = {} parameter(2)\nROOT r = {} scatter(x, i, u), "
                            "update_window_dims={{}}, inserted_window_dims={{0}}, "
                            "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c\n"
                            "}}\n",
                            computation(std::string(dtype_name(type)), root), to_string(x),
                            to_string(places.shape()), to_string(u), to_string(x)),
                {values(x, 0), places, values(u, 7)});
  }
}

TEST_CASE("fast scatters of windows: two indices, windows of any size, batches of indices",
          "[index]") {
  for (int64_t seed = 1; seed <= random_load(200); ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const DType type = kTypes[below(random, std::size(kTypes))];
    const CombinerText& combiner = kCombiners[below(random, std::size(kCombiners))];
    if (!combiner.of_floats && is_floating(type)) continue;
    const std::string root = combiner.root;
    const bool sums = root.starts_with("add") || root.starts_with("multiply");
    const int64_t rows = 1 + below(random, 9), columns = 1 + below(random, 30);
    const int64_t high = 1 + below(random, rows), wide = 1 + below(random, columns);
    const int64_t a = 1 + below(random, 3), b = below(random, 6);
    const Shape x(type, {rows, columns}), u(type, {high, a, b, wide});
    const Array places = places_of(DType::s32, {a, b, 2}, std::max(rows, columns), random);
    const auto values = [&](const Shape& shape, unsigned own) {
      return sums ? whole_numbers(shape, random)
                  : special_values(shape, unsigned(seed) + own, true);
    };
    expect_fast(fmt::format("HloModule m\n{}ENTRY e {{\nx = {} parameter(0)\ni = {} parameter(1)\n"
                            "u = {} parameter(2)\nROOT r = {} scatter(x, i, u), "
                            "update_window_dims={{0,3}}, inserted_window_dims={{}}, "
                            "scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=2, "
                            "to_apply=c\n}}\n",
                            computation(std::string(dtype_name(type)), root), to_string(x),
                            to_string(places.shape()), to_string(u), to_string(x)),
                {values(x, 0), places, values(u, 7)});
  }
}

TEST_CASE("fast scatters put updates in the place of complex elements, the last one last",
          "[index]") {
  for (const DType type : {DType::c64, DType::c128}) {
    const Shape x(type, {5}), u(type, {9});
    Array places(DType::s32, {9});
    for (int64_t i = 0; i < 9; ++i) places.set(i, double(i % 4));
    expect_fast(fmt::format("HloModule m\n{}ENTRY e {{\nx = {} parameter(0)\ni = s32[9] "
                            "parameter(1)\nu = {} parameter(2)\nROOT r = {} scatter(x, i, u), "
                            "update_window_dims={{}}, inserted_window_dims={{0}}, "
                            "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c\n"
                            "}}\n",
                            computation(std::string(dtype_name(type)), "copy(b)"), to_string(x),
                            to_string(u), to_string(x)),
                {special_values(x, 1, true), places, special_values(u, 2, true)});
  }
}

TEST_CASE("fast scatters leave the memory of an array without elements alone", "[index]") {
  // Rows of five that begin at 0 of an array of no row, or of no column where rows are indexed.
  for (const bool indexed : {true, false}) {
    IndexedSlices slices;
    slices.counts = {3};
    slices.batch = {5};
    slices.batch_indices = {1};
    slices.batch_origin = {0};
    slices.components = {{0, indexed ? 5 : 0, indexed ? -1 : 3}};
    slices.window = {4, {5}, {1}, {1}};
    const PreparedKernel kernel = prepare_scatter(slices, ScatterCombiner::sum, 0);
    REQUIRE(kernel.run);
    std::vector<float> array(20, 7), updates(15, 1);
    const std::vector<int32_t> starts(3, 0);
    auto* const result = reinterpret_cast<std::byte*>(array.data());
    const std::byte* const operands[] = {result, reinterpret_cast<const std::byte*>(starts.data()),
                                         reinterpret_cast<const std::byte*>(updates.data())};
    KernelArgs args;
    args.operands = operands;
    args.results = &result;
    kernel.run(args);
    CHECK(array == std::vector<float>(20, 7));
  }
}

}  // namespace gspmd::fast_scatter_test
