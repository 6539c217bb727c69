// Custom-calls into libraries: layouts, mistakes, random words, Fourier transforms.
#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "ops/evaluate_cases.h"
#include "ops/library_check.h"

namespace gspmd::testing {
namespace {

// Flat bytes of DUCC's static description: vtable, table, axes; every field is 8 bytes apart.
std::string description(const std::vector<uint32_t>& axes, uint8_t kind, bool forward,
                        double scale) {
  constexpr size_t kFields = 8, kVtable = 4, kTable = 24, kWidth = 8;
  std::vector<uint8_t> bytes(kTable + kWidth * (kFields + 1));
  const auto put = [&](size_t at, const auto& value) {
    if (bytes.size() < at + sizeof(value)) bytes.resize(at + sizeof(value));
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  const auto field = [&](size_t i) { return kTable + kWidth * (i + 1); };
  put(0, uint32_t{kTable});
  put(kVtable, uint16_t{4 + 2 * kFields});
  put(kVtable + 2, static_cast<uint16_t>(kWidth * (kFields + 1)));
  for (size_t i = 0; i < kFields; ++i)  // the shape and the strides are not there
    put(kVtable + 4 + 2 * i, static_cast<uint16_t>(i >= 2 && i <= 4 ? 0 : field(i) - kTable));
  put(kTable, static_cast<int32_t>(kTable - kVtable));
  put(field(1), kind);
  put(field(6), uint8_t{forward});
  put(field(7), scale);
  const size_t list = bytes.size();
  put(field(5), static_cast<uint32_t>(list - field(5)));
  put(list, static_cast<uint32_t>(axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) put(list + 4 + 4 * i, axes[i]);
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{}{}", text.empty() ? "" : ",", byte);
  return fmt::format("d = u8[{}] constant({{{}}})\n", bytes.size(), text);
}

std::vector<Array> transformed(const std::string& head, const std::string& operand,
                               const std::string& result) {
  return leaves(run_text(
      fmt::format("{}x = {}\nROOT r = {} custom-call(d, x), custom_call_target=\"ducc_fft\"", head,
                  operand, result)));
}

}  // namespace

TEST_CASE("Threefry gives the words of its authors' vectors", "[library]") {
  const char* const kCall =
      "ROOT r = (u32[3], u32[3]) custom-call(k, l, a, b), custom_call_target=\"cu_threefry2x32\"";
  check_case(
      {"vectors",
       std::string("k = u32[3] constant({0,4294967295,320440878})\n"
                   "l = u32[3] constant({0,4294967295,57701188})\n"
                   "a = u32[3] constant({0,4294967295,608135816})\n"
                   "b = u32[3] constant({0,4294967295,2242054355})\n") +
           kCall,
       "u32[3] {1797259609,481924860,3297917596} u32[3] {2579123966,3137350631,1212020640}"});
  CHECK_THAT(error_of("k = u32[2] constant({0,1})\na = u32[3] constant({1,2,3})\n"
                      "ROOT r = (u32[3], u32[3]) custom-call(k, k, a, a), "
                      "custom_call_target=\"threefry2x32\""),
             Catch::Contains("cannot run: u32[2] beside counters of u32[3]"));
}

TEST_CASE("DUCC's transforms are sums of roots of unity, scaled as described", "[library]") {
  // [1, 2, 3, 4]: sums of x_k i^(jk).
  const auto forward = transformed(description({0}, 0, true, 1),
                                   "c128[4] constant({(1,0),(2,0),(3,0),(4,0)})", "c128[4]");
  Dense expected(1, 4);
  expected.values = {{10, 0}, {-2, 2}, {-2, 0}, {-2, -2}};
  check_near(vector_of(forward[0], 0), expected, DType::c128);
  const auto backward = transformed(description({0}, 0, false, 0.5),
                                    "c64[4] constant({(1,0),(2,0),(3,0),(4,0)})", "c64[4]");
  expected.values = {{5, 0}, {-1, -1}, {-1, 0}, {-1, 1}};
  check_near(vector_of(backward[0], 0), expected, DType::c64);
  const auto real = transformed(description({0, 1}, 2, true, 1),
                                "f64[2,3] constant({{1,2,3},{4,5,6}})", "c128[2,2]");
  Dense both(2, 2);
  const double root = std::sqrt(3.0);
  both.values = {{21, 0}, {-3, root}, {-9, 0}, {0, 0}};
  check_near(matrix_of(real[0], 0), both, DType::c128);
  const auto back = transformed(
      description({0, 1}, 1, false, 1.0 / 6),
      fmt::format("c128[2,2] constant({{{{(21,0),(-3,{:.17g})}},{{(-9,0),(0,0)}}}})", root),
      "f64[2,3]");
  Dense original(2, 3);
  original.values = {1, 2, 3, 4, 5, 6};
  check_near(matrix_of(back[0], 0), original, DType::f64);
}

TEST_CASE("A description of a transform that does not fit is an error", "[library]") {
  const auto fails = [](const std::string& head, const char* result) {
    return error_of(head + "x = c64[4] constant({(1,0),(2,0),(3,0),(4,0)})\nROOT r = " + result +
                    " custom-call(d, x), custom_call_target=\"ducc_fft\"");
  };
  CHECK_THAT(fails(description({1}, 0, true, 1), "c64[4]"),
             Catch::Contains("its description transforms dims {1} of c64[4]"));
  CHECK_THAT(fails(description({0}, 0, true, 1), "c64[5]"),
             Catch::Contains("c64[4] over dims {0} gives c64[5]"));
  for (int length = 0; length < 64; ++length) {  // cut anywhere
    std::string zeros;
    for (int i = 0; i < length; ++i) zeros += fmt::format("{}{}", i ? "," : "", 255 - i);
    CHECK_THAT(fails(fmt::format("d = u8[{}] constant({{{}}})\n", length, zeros), "c64[4]"),
               Catch::Contains("cannot run"));
  }
}

TEST_CASE("Layouts that a call states are read as memory, column after column", "[library]") {
  if (is_without_lapack()) return;
  // The row-major memory of [[4,2],[7,10]] is [[4,7],[2,10]] by columns: its lower triangle is
  // read.
  const auto run = [](const char* layout) {
    return leaves(run_text(fmt::format(
        "a = f64[2,2] constant({{{{4,7}},{{2,10}}}})\n"
        "ROOT r = (f64[2,2]{0}, s32[]) custom-call(a), custom_call_target=\"lapack_dpotrf_ffi\", "
        "operand_layout_constraints={{f64[2,2]{0}}}, backend_config={{uplo = 76 : ui8}}",
        layout)));
  };
  const auto columns = run("{0,1}"), rows = run("{1,0}");
  CHECK(std::vector<double>{2, 7, 1, 3} == std::vector<double>{columns[0].at(0), columns[0].at(1),
                                                               columns[0].at(2), columns[0].at(3)});
  // Read as [[4,2],[7,10]] by columns: 7/2 = 3.5 is too much, 10 - 12.25 < 0.
  CHECK(rows[1].at(0) == 2);
  CHECK(columns[1].at(0) == 0);
}

TEST_CASE("What is not finite gives NaN where a routine would not end", "[library]") {
  if (is_without_lapack()) return;
  const auto run = [](const std::string& value, const std::string& call) {
    return leaves(run_text("a = f32[2,2] constant({{1,2},{2," + value + "}})\nROOT r = " + call));
  };
  for (const char* const value : {"nan", "inf"})
    for (const char* const call :
         {"(f32[2,2], f32[2], s32[]) custom-call(a), custom_call_target=\"lapack_ssyevd_ffi\", "
          "backend_config={mode = 86 : ui8, uplo = 76 : ui8}",
          "(f32[2,2], f32[2], f32[2,2], f32[2,2], s32[]) custom-call(a), "
          "custom_call_target=\"lapack_sgesdd_ffi\", backend_config={mode = 65 : ui8}"}) {
      const auto out = run(value, call);
      CHECK(std::isnan(out[0].at(0)));
      CHECK(std::isnan(out[1].at(1)));
      CHECK(out.back().at(0) == -4);
    }
}

TEST_CASE("a sparse matrix by rows times a vector and a matrix", "[library]") {
  const std::string matrix =
      "v = f32[4] constant({2,3,5,7})\ns = s32[4] constant({0,1,1,4})\n"
      "c = s32[4] constant({1,0,1,1})\n";
  const std::string call =
      " custom-call(v, s, c, d), custom_call_target=\"cpu_csr_sparse_dense_ffi\"";
  check_case({"by a matrix",
              matrix + "d = f32[2,3] constant({{1,10,100},{2,20,200}})\nROOT r = f32[3,3]" + call,
              "f32[3,3] {{4,40,400},{0,0,0},{27,270,2700}}"});
  check_case({"by a vector", matrix + "d = f32[2] constant({1,2})\nROOT r = f32[3]" + call,
              "f32[3] {4,0,27}"});
  check_case({"of integers, wrapping",
              "v = s32[2] constant({2147483647,2147483647})\ns = s32[2] constant({0,2})\n"
              "c = s32[2] constant({0,0})\nd = s32[1] constant({2})\nROOT r = s32[1]" +
                  call,
              "s32[1] {-4}"});
  CHECK_THAT(error_of(matrix + "d = f32[1] constant({1})\nROOT r = f32[3]" + call),
             Catch::Contains("element 0 is in column 1 of 1"));
  CHECK_THAT(error_of("v = f32[1] constant({2})\ns = s32[2] constant({0,3})\n"
                      "c = s32[1] constant({0})\nd = f32[1] constant({1})\nROOT r = f32[1]" +
                      call),
             Catch::Contains("row 0 has elements 0 to 3 of 1"));
  CHECK_THAT(error_of(matrix + "d = f32[2] constant({1,2})\nROOT r = f32[4]" + call),
             Catch::Contains("its result is f32[4]") && Catch::Contains("make f32[3]"));
  check_case({"an empty buffer",
              "ROOT r = s32[2] custom-call(), custom_call_target=\"AllocateBuffer\"",
              "s32[2] {0,0}"});
}

TEST_CASE("Calls that do not fit their routine say so when they run", "[library]") {
  if (is_without_lapack()) return;
  const std::string a = "a = f32[3,3] broadcast(f32[] constant(1)), dimensions={}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"ROOT r = (f32[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_dpotrf_ffi\"",
       "operand 0 is f32[3,3], which is not the element type of the routine"},
      {"ROOT r = (f32[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\"",
       "uplo is not in its backend_config; it is the code of one of LU"},
      {"ROOT r = (f32[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
       "backend_config={uplo = 88 : ui8}",
       "uplo is 88"},
      {"ROOT r = (f32[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf\"",
       "has 0 numbers in front of its arrays; number 0 is missing"},
      {"ROOT r = (f32[3,3], f32[2], s32[]) custom-call(a), "
       "custom_call_target=\"lapack_ssyevd_ffi\"",
       "result 1 is f32[2]; dim 0 has to be 3"},
      {"ROOT r = f32[3,3] custom-call(a), custom_call_target=\"lapack_sgeqrf_ffi\"",
       "it has 1 results of 2"},
      {"ROOT r = (f32[3,3], f32[3]) custom-call(a, a), custom_call_target=\"Qr\"",
       "it has 2 operands; 1 are arrays"},
      {"b = f32[3] constant({1,2,3})\nROOT r = (f32[3,3], f32[3]) custom-call(b), "
       "custom_call_target=\"Qr\"",
       "operand 0 is f32[3]; it is 2 dims of f32, f64, c64 or c128"},
      {"ROOT r = (f32[3,3], f32[2], s32[]) custom-call(a), "
       "custom_call_target=\"lapack_sgehrd_ffi\", backend_config={low = 2 : i32, high = 9 : i32}",
       "reduces rows 2 to 9 of 3"},
      {"b = f32[4,2] broadcast(f32[] constant(1)), dimensions={}\nROOT r = f32[4,2] "
       "custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", backend_config={diag = 78 : "
       "ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}",
       "3 rows of the triangle do not fit 4 x 2"},
      {"ROOT r = (f32[3,3], f32[3], f32[3,2], f32[3,3], s32[]) custom-call(a), "
       "custom_call_target=\"lapack_sgesdd_ffi\", backend_config={mode = 65 : ui8}",
       "has 2 columns of u and 3 rows of vt; by its mode A they are 3 and 3"},
  };
  for (const auto& [body, message] : cases)
    CHECK_THAT(error_of(a + body), Catch::Contains(message));
}

}  // namespace gspmd::testing
