#include "gspmd/io/npy.h"

#include <catch2/catch.hpp>
#include <complex>
#include <fstream>
#include <limits>
#include <sstream>

#include "gspmd/base/error.h"
#include "io/scratch_file.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;

const std::string kData = GSPMD_SOURCE_DIR "/tests/data/io/";

// An npy file of version 1 with this header text and these element bytes.
std::string npy(std::string header, const std::string& elements = "") {
  header += '\n';
  const auto size = header.size();
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(size & 0xff) +
         static_cast<char>(size >> 8) + header + elements;
}

Array parse(const std::string& bytes, std::optional<DType> as = std::nullopt) {
  return parse_npy(std::as_bytes(std::span(bytes)), "x.npy", as);
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("npz: what NumPy compressed reads back, of every kind, byte order and element order") {
  const NpzFile file(kData + "numpy.npz");
  CHECK(file.names() == std::vector<std::string>{"be", "fortran", "scalar", "half", "flags", "c8",
                                                 "c16be", "bf16", "empty", "u64"});
  CHECK(bitwise_equal(file.read("be"), Array::of<float>({2, 3}, {0, .25, .5, .75, 1, 1.25})));
  std::vector<int64_t> count(24);
  for (size_t i = 0; i < 24; ++i) count[i] = static_cast<int64_t>(i);
  CHECK(bitwise_equal(file.read("fortran"), Array::of<int64_t>({2, 3, 4}, count)));
  CHECK(file.shape("scalar") == Shape(DType::f64, {}));
  CHECK(file.read("scalar").item() == 2.5);
  const Array half = file.read("half");
  CHECK(half.dtype() == DType::f16);
  CHECK(half.at(2) == 65504);
  CHECK(half.at(3) == std::numeric_limits<double>::infinity());
  CHECK(bitwise_equal(file.read("flags"), Array::of<bool>({3}, {true, false, true})));
  CHECK(file.read("c8").data<std::complex<float>>()[1] == std::complex<float>(0, -3.5f));
  CHECK(file.read("c16be").data<std::complex<double>>()[0] == std::complex<double>(1.25, -2));
  const Array bf16 = file.read("bf16", DType::bf16);
  CHECK(bf16.dtype() == DType::bf16);
  CHECK(bf16.at(1) == -2);
  CHECK(file.read("empty").shape() == Shape(DType::u8, {0, 3}));
  CHECK(file.read("u64").data<uint64_t>()[0] == std::numeric_limits<uint64_t>::max());
  CHECK_THROWS_WITH(file.read("frob"), Contains("has no array \"frob\"; it has be, fortran"));
  CHECK_THROWS_WITH(file.read("be", DType::s32), Contains("is f32[2,3], but s32 is wanted"));
  CHECK(bitwise_equal(NpzFile(kData + "stored.npz").read("0"), Array::of<int32_t>({3}, {0, 1, 2})));
  CHECK(bitwise_equal(read_npy(kData + "fortran.npy"),
                      Array::of<int16_t>({2, 3}, {0, 1, 2, 3, 4, 5})));
}

TEST_CASE("npy and npz: arrays of every element type come back as they were") {
  const ScratchFile one(".npy"), all(".npz"), again("-2.npz");
  std::vector<std::pair<std::string, Array>> arrays;
  for (int i = 0; i < static_cast<int>(DType::opaque); ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool bits = is_narrow(dtype) && is_integer(dtype);  // stored as values, see below
    if (dtype == DType::token || bits) continue;
    Array array(Shape(dtype, {2, 3}));
    const std::span<std::byte> bytes = array.bytes();
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(k & 1);
    CAPTURE(dtype_name(dtype));
    write_npy(one.path(), array);
    const Array back = read_npy(one.path(), dtype);
    CHECK(back.shape() == array.shape());
    CHECK(std::equal(bytes.begin(), bytes.end(), back.bytes().begin()));
    arrays.emplace_back(fmt::format("0.{}", i), array);
  }
  write_npz(all.path(), arrays);
  write_npz(again.path(), arrays);
  CHECK(content_of(all.path()) == content_of(again.path()));
  const auto back = read_npz(all.path());
  REQUIRE(back.size() == arrays.size());
  CHECK(back[3].first == "0.3");
  CHECK(NpzFile(all.path()).read("0.10").dtype() == DType::bf16);
  write_npz(all.path(), {});
  CHECK(NpzFile(all.path()).names().empty());
}

TEST_CASE("npz: an archive that holds more than it declares is refused at once") {
  const ScratchFile file(".npz");
  const Array array = Array::of<float>({2}, {1, 2});
  write_npz(file.path(), {{{"0", array}}});
  const std::string whole = content_of(file.path());
  const ScratchFile longer("-2.npz", whole + "more");
  CHECK_THROWS_WITH(NpzFile(longer.path()), Contains("cannot be read as npz: Zip archive"));
  // The array says [1] where [2] was: the same archive with four bytes too many, and a checksum
  // that nobody comes to compare.
  std::string less = whole;
  less.replace(less.find("(2,)"), 4, "(1,)");
  const ScratchFile lying("-3.npz", less);
  CHECK_THROWS_WITH(NpzFile(lying.path()).read("0"),
                    Contains("array \"0\": declares f32[1], 4 bytes, but holds 8"));
}

TEST_CASE("npy: narrow integers are stored as values, negative ones too") {
  const Array s4 = parse(
      npy("{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", std::string("\x07\xff\xf8")),
      DType::s4);
  CHECK(s4.dtype() == DType::s4);
  const std::vector<std::byte> bytes = npy_bytes(s4);
  const Array s8 = parse_npy(bytes, "s4");
  CHECK(bitwise_equal(s8, Array::of<int8_t>({3}, {7, -1, -8})));
}

TEST_CASE("npy: headers of other writers, versions and spacing are read") {
  CHECK(
      parse(npy("{\"shape\":(2L,),'fortran_order':True,'descr':'=u2'}", std::string("\1\0\2\0", 4)))
          .at(1) == 2);
  const std::string header = "{'descr': '|b1', 'fortran_order': False, 'shape': ()}";
  for (const char version : {'\x02', '\x03'}) {
    const std::string text = std::string("\x93NUMPY") + version + std::string(1, '\0') +
                             static_cast<char>(header.size()) + std::string(3, '\0') + header;
    const Array array = parse(text + "\x05");
    CHECK(array.dims().empty());
    CHECK(static_cast<int>(array.bytes()[0]) == 1);  // any other byte is not a bool
  }
}

TEST_CASE("npy: a malformed or lying file is an error that names it") {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const auto [text, message] = GENERATE_COPY(table<std::string, std::string>({
      {"", "is not an npy file"},
      {"\x93NUMPX\x01", "is not an npy file"},
      {std::string("\x93NUMPY\x07\x00\x00\x00", 10), "npy version 7.0"},
      {std::string("\x93NUMPY\x02\x00\xff\xff", 10), "ends inside"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "header of 4294967307 bytes"},
      {npy("{'descr': '<f4', 'shape': (2,)}"), "has no 'fortran_order'"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}"), "'descr' twice"},
      {npy("{'frob': 1}"), "unknown key 'frob'"},
      {npy("{'descr': '<f4'"), "'}' was expected"},
      {npy("{'descr': '<f4"), "a short string was expected"},
      {npy("[]"), "'{' was expected"},
      {npy(good + "x"), "the end was expected"},
      {npy("{'shape': (-1,)}"), "a size was expected"},
      {npy("{'shape': (99999999999999999999,)}"), "a size below 2^63"},
      {npy("{'descr': [('a', '<f4')]}"), "array of records"},
      {npy("{'descr': '|O'}"), "elements of type '|O'"},
      {npy("{'descr': '<f16'}"), "elements of type '<f16'"},
      {npy(good, "1234567"), "declares f32[2], 8 bytes, but holds 7"},
      {npy(good, "123456789"), "declares f32[2], 8 bytes, but holds 9"},
      {npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"),
       "but holds 0"},
  }));
  CAPTURE(text);
  CHECK_THROWS_AS(parse(text), UserError);
  CHECK_THROWS_WITH(parse(text), Contains("x.npy") && Contains(message));
  const ScratchFile file(".npy", text);
  CHECK_THROWS_AS(read_npy(file.path()), UserError);
}

TEST_CASE("npz: damaged archives are errors, wherever the damage is") {
  const std::string good = content_of(kData + "numpy.npz");
  int64_t read = 0;
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    const ScratchFile file(".npz", bad);
    try {
      read += static_cast<int64_t>(read_npz(file.path()).size());
    } catch (const UserError&) {
    }
  }
  for (size_t size = 0; size < good.size(); size += 41) {
    const ScratchFile file(".npz", good.substr(0, size));
    CHECK_THROWS_AS(read_npz(file.path()), UserError);
  }
  CHECK(read >= 0);
  CHECK_THROWS_WITH(NpzFile("no/such.npz"), Contains("no/such.npz: cannot be read as npz"));
  CHECK_THROWS_WITH(write_npz("no/such.npz", {}), Contains("no/such.npz: cannot be written"));
  CHECK_THROWS_WITH(read_npy("."), Contains("not a regular file"));
}

}  // namespace gspmd
