// Damaged files: none is read as something else.
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/io/safetensors.h"
#include "io/safetensors_format.h"
#include "io/scratch_file.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;
using Named = std::vector<std::pair<std::string, Array>>;

Named some_tensors() {
  return {{"w", Array::of<float>({2, 2}, {1, 2, 3, 4})},
          {"step", Array::scalar<int64_t>(7)},
          {"flag", Array::of<bool>({3}, {true, false, true})}};
}

std::string bytes_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// What reading everything says is wrong; "" where nothing is.
std::string complaint(const std::string& bytes) {
  const ScratchFile damaged(".damaged", bytes);
  try {
    const SafetensorsFile file(damaged.path());
    file.verify();
    for (const SafetensorsEntry& tensor : file.tensors()) file.read(tensor.name);
    return "";
  } catch (const UserError& error) {
    const std::string message = error.what();
    if (!Contains(damaged.path()).match(message)) return "";  // must name the file
    return message;
  }
}

}  // namespace

TEST_CASE("safetensors: a file truncated at any byte is refused") {
  const ScratchFile scratch(".safetensors");
  write_safetensors(scratch.path(), some_tensors(), {{"made", "here"}});
  const std::string whole = bytes_of(scratch.path());
  REQUIRE(complaint(whole).empty());
  for (size_t size = 1; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(complaint(whole.substr(0, size)).empty());
  }
  CHECK_FALSE(complaint(whole + "x").empty());
}

TEST_CASE("safetensors: a file with any one bit flipped is refused") {
  const ScratchFile scratch(".safetensors");
  write_safetensors(scratch.path(), some_tensors(), {{"made", "here"}});
  std::string bytes = bytes_of(scratch.path());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)); };
    flip();
    if (complaint(bytes).empty()) FAIL("bit " << bit % 8 << " of byte " << bit / 8);
    flip();
  }
  CHECK(complaint(bytes).empty());
}

TEST_CASE("safetensors: the message of a damaged file says what does not hold") {
  const ScratchFile scratch(".safetensors");
  write_safetensors(scratch.path(), some_tensors(), {{"made", "here"}});
  const std::string whole = bytes_of(scratch.path());
  std::string data = whole;
  data.back() = 0;
  CHECK_THAT(complaint(data), Contains("tensor \"flag\", pred[3], is damaged: the checksum"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string bytes = whole;
    return bytes.replace(bytes.find(from), from.size(), to);
  };
  CHECK_THAT(complaint(changed("here", "hers")),
             Contains("the header is damaged: its checksum is"));
  CHECK_THAT(complaint(changed("\"gspmd.xxh3\"", "\"gspmd.xxh4\"")),
             Contains("the header is damaged: its checksum is missing"));
  // A tensor's checksum renamed, and the header's made to fit.
  std::string bytes = changed("gspmd.xxh3.flag", "gspmd.xxh3.frag");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string header = bytes.substr(8, length);
  bytes.replace(8 + io::header_digits(header), io::kChecksumDigits, io::header_checksum(header));
  CHECK_THAT(complaint(bytes), Contains("\"flag\"") && Contains("the file says nothing"));
}

TEST_CASE("safetensors: types that the format lacks are read as what they were") {
  const ScratchFile scratch(".safetensors");
  Array small(DType::s4, {3}), tiny(DType::f8e4m3b11fnuz, {2});
  for (int64_t i = 0; i < 3; ++i) small.set(i, double(i) - 2);
  tiny.set(1, 1.5);
  write_safetensors(scratch.path(), Named{{"s", small}, {"t", tiny}});
  const SafetensorsFile file(scratch.path());
  CHECK(file.shape("s") == small.shape());
  CHECK(bitwise_equal(file.read("s"), small));
  CHECK(bitwise_equal(file.read("t"), tiny));
  CHECK(bitwise_equal(file.read_box("s", {{1}, {1}}), Array(DType::s4, {1})) == false);
  CHECK(file.read_box("s", {{1}, {1}}).at(0) == -1);
  CHECK(file.has_checksums());
}

TEST_CASE("safetensors: a note of a type that is none, and metadata of ours, are errors") {
  const std::string entry = R"("s":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  std::string header =
      R"({"__metadata__":{"gspmd.dtype.s":"s4","gspmd.xxh3":"0000000000000000"},)" + entry + "}";
  header.replace(io::header_digits(header), io::kChecksumDigits, io::header_checksum(header));
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  CHECK_THAT(complaint(bytes + header + "1234"), Contains("f32 are no elements of s4"));
  const ScratchFile scratch(".safetensors");
  CHECK_THROWS_WITH(write_safetensors(scratch.path(), some_tensors(), {{"gspmd.x", "1"}}),
                    Contains("names that begin with \"gspmd.\" are taken"));
  CHECK_THROWS_WITH(write_safetensors(scratch.path(), Named{{"\xff", Array(DType::f32, {})}}),
                    Contains("a name is not UTF-8"));
  CHECK_THROWS_WITH(
      write_safetensors(scratch.path(), Named{{"__metadata__", Array(DType::f32, {})}}),
      Contains("or has the metadata's name"));
  CHECK(bytes_of(scratch.path()).empty());
}

TEST_CASE("safetensors: files of others have no checksums and are read") {
  const SafetensorsFile file(GSPMD_SOURCE_DIR "/tests/data/io/two.safetensors");
  CHECK_FALSE(file.has_checksums());
  file.verify();
  CHECK(file.bytes_read() == 0);
}

}  // namespace gspmd
