#include "gspmd/io/safetensors.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "gspmd/base/error.h"
#include "io/scratch_file.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;

const std::string kFile = GSPMD_SOURCE_DIR "/tests/data/io/two.safetensors";

std::string with_header(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string object(const std::string& members) { return fmt::format("{{{}}}", members); }

}  // namespace

TEST_CASE("safetensors: tensors, boxes and shards read the bytes they need and no others") {
  const SafetensorsFile file(kFile);
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].name == "b");
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.shape("a") == Shape(DType::bf16, {2}));
  CHECK(file.read("a").at(1) == -2);
  CHECK(file.bytes_read() == 4);
  CHECK(
      bitwise_equal(file.read_box("b", {{1, 1}, {2, 2}}), Array::of<float>({2, 2}, {5, 6, 9, 10})));
  CHECK(file.bytes_read() == 4 + 16);
  CHECK(bitwise_equal(file.read_box("b", {{1, 0}, {2, 4}}),
                      Array::of<float>({2, 4}, {4, 5, 6, 7, 8, 9, 10, 11})));
  CHECK(file.bytes_read() == 4 + 16 + 32);
  CHECK(file.read_box("b", {{3, 0}, {0, 4}}).size() == 0);
  CHECK_THROWS_WITH(file.read_box("b", {{2, 0}, {2, 4}}),
                    Contains("a box from 2 of 2 is outside dim 0"));
  CHECK_THROWS_WITH(file.read("frob"), Contains("has no tensor \"frob\""));
}

TEST_CASE("safetensors: the shards of every device are the tiles of the whole, tails zero") {
  const SafetensorsFile file(kFile);
  const Sharding rows = parse_sharding("{devices=[2,1]<=[2]}");
  CHECK(bitwise_equal(file.read_shard("b", rows, 0),
                      Array::of<float>({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})));
  CHECK(bitwise_equal(file.read_shard("b", rows, 1),
                      Array::of<float>({2, 4}, {8, 9, 10, 11, 0, 0, 0, 0})));
  const Sharding columns = parse_sharding("{devices=[1,3]<=[3]}");
  CHECK(bitwise_equal(file.read_shard("b", columns, 1),
                      Array::of<float>({3, 2}, {2, 3, 6, 7, 10, 11})));
  CHECK(bitwise_equal(file.read_shard("b", columns, 2),
                      Array::of<float>({3, 2}, {0, 0, 0, 0, 0, 0})));
  CHECK(bitwise_equal(file.read_shard("b", Sharding::replicated(), 5), file.read("b")));
}

TEST_CASE("safetensors: what is written reads back") {
  const ScratchFile scratch(".safetensors");
  std::vector<std::pair<std::string, Array>> tensors = {
      {"w", Array::of<float>({2, 2}, {1, 2, 3, 4})},
      {"flag", Array::of<bool>({3}, {true, false, true})},
      {"none", Array(DType::f64, {0, 7})},
      {"scalar", Array::scalar<int64_t>(-5)},
      {"f8", Array(DType::f8e4m3fn, {3})},
      {"c", Array(DType::c64, {2})}};
  write_safetensors(scratch.path(), tensors, {{"made", "here"}});
  const SafetensorsFile file(scratch.path());
  CHECK(file.metadata() == std::map<std::string, std::string>{{"made", "here"}});
  for (const auto& [name, array] : tensors) {
    CAPTURE(name);
    const Array back = file.read(name);
    CHECK(back.shape() == array.shape());
    CHECK(std::equal(back.bytes().begin(), back.bytes().end(), array.bytes().begin()));
  }
  CHECK_THROWS_WITH(write_safetensors(scratch.path(), {{{"x", Array(DType::c128, {1})}}}),
                    Contains("safetensors has no form for c128"));
  tensors.push_back(tensors[0]);
  CHECK_THROWS_WITH(write_safetensors(scratch.path(), tensors), Contains("given twice"));
}

TEST_CASE("safetensors: a header that lies is an error that names file and tensor") {
  const std::string eight(8, 'x');
  const auto [text, message] = GENERATE_COPY(table<std::string, std::string>({
      {"abc", "without the header's length"},
      {std::string(8, '\xff') + eight, "a header of 18446744073709551615 bytes"},
      {std::string("\x40\0\0\0\0\0\0\0", 8) + eight, "a header of 64 bytes in a file of 16"},
      {with_header("{"), "is no JSON"},
      {with_header("[]"), "is not an object"},
      {with_header("{\"a\":[[[[[[]]]]]]}"), "nested too deeply"},
      {with_header("{\"a\":1}"), "tensor \"a\" is no object"},
      {with_header("{\"__metadata__\":{\"a\":1}}"), "__metadata__ \"a\" is no string"},
      {with_header("{\"a\":{}}"), "tensor \"a\" has no"},
      {with_header(object(tensor("a", "[2]", "[0,8]", "F31")), eight), "unknown dtype \"F31\""},
      {with_header(object(tensor("a", "[-2]", "[0,8]")), eight), "-2 is no size"},
      {with_header(object(tensor("a", "[2.0]", "[0,8]")), eight), "2.0 is no size"},
      {with_header(object(tensor("a", "[4]", "[0,16]")), eight), "lies at bytes 0 to 16 of 8"},
      {with_header(object(tensor("a", "[2]", "[8,0]")), eight), "lies at bytes 8 to 0 of 8"},
      {with_header(object(tensor("a", "[2]", "[0]")), eight), "has 1 data_offsets"},
      {with_header(object(tensor("a", "[3]", "[0,8]")), eight), "has 12 bytes, but"},
      {with_header(object(tensor("a", "[4611686018427387904,4]", "[0,8]")), eight), "span 8"},
      {with_header(object(tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[1]", "[4,8]")), eight),
       "tensor \"b\" begins at byte 4, the one before it ends at byte 8"},
      {with_header(object(tensor("a", "[1]", "[4,8]")), eight), "ends at byte 0"},
      {with_header(object(tensor("a", "[1]", "[0,4]")), eight), "holds 8 bytes of data"},
      {with_header(object(tensor("a", "[1]", "[0,4]") + "," + tensor("a", "[1]", "[4,8]")), eight),
       "\"a\" twice"},
  }));
  CAPTURE(text);
  const ScratchFile scratch(".safetensors", text);
  CHECK_THROWS_AS(SafetensorsFile(scratch.path()), UserError);
  CHECK_THROWS_WITH(SafetensorsFile(scratch.path()), Contains(scratch.path()) && Contains(message));
}

TEST_CASE("safetensors: a pipe that nobody writes into is refused, not waited for") {
  const ScratchFile scratch(".pipe");
  REQUIRE(mkfifo(scratch.path().c_str(), 0600) == 0);
  CHECK_THROWS_WITH(SafetensorsFile(scratch.path()), Contains("is not a regular file"));
}

}  // namespace gspmd
