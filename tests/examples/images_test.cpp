// Sets of images: the digits, folders, batches.
#include "examples/images.h"

#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "test_folder.h"

namespace gspmd::examples {
namespace {

using Catch::Matchers::Contains;

const std::string kDigits = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz";

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string gzipped(const TestFolder& folder, const std::string& text) {
  const std::string path = folder.file("digits.csv.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

// A line of a digit whose pixels are all `pixel`.
std::string digit(int pixel, const std::string& label) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += fmt::format("{},", pixel);
  return line + label + "\n";
}

// A folder of two classes with five grey images of 2x3 each, of the values 10 c + i.
void write_classes(const TestFolder& folder) {
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 5; ++i) {
      const char value = static_cast<char>(10 * c + i);
      write_text(folder.file(fmt::format("class{}/{}.pgm", c, i)),
                 "P5\n# made by a test\n3 2\n255\n" + std::string(6, value));
    }
}

}  // namespace

TEST_CASE("images: the digits are all there, a fifth held out", "[examples]") {
  if (!std::filesystem::exists(kDigits)) {
    WARN("python3-sklearn is not installed");
    CHECK_THROWS_WITH(load_digits(), Contains("install the package python3-sklearn"));
    return;
  }
  const ImageSet set = load_digits();
  CHECK(set.train.pixels.dims() == Dims{1438, 8, 8, 1});
  CHECK(set.heldout.pixels.dims() == Dims{359, 8, 8, 1});
  std::vector<int64_t> counts(10);
  for (const LabelledImages* part : {&set.train, &set.heldout})
    for (const int32_t label : part->labels) ++counts.at(size_t(label));
  CHECK(counts == std::vector<int64_t>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  // The first row of the first digit, a zero: 0 0 5 13 9 1 0 0.
  const auto above = [&](int64_t i) { return set.train.pixels.at(i) - set.train.pixels.at(0); };
  CHECK(set.train.labels[0] == 0);
  CHECK(above(2) / above(3) == Approx(5.0 / 13));
  CHECK(above(4) / above(5) == Approx(9.0));
  double sum = 0, squares = 0;
  for (const float x : set.train.pixels.data<float>()) {
    sum += x;
    squares += double(x) * x;
  }
  CHECK(std::abs(sum) < 1);
  CHECK(squares / double(set.train.pixels.size()) == Approx(1));
}

TEST_CASE("images: a file of digits is told what is wrong with it", "[examples][errors]") {
  const TestFolder folder("digits");
  CHECK_THROWS_WITH(load_digits(folder.file("none.csv.gz")),
                    Contains("none.csv.gz cannot be read; install the package python3-sklearn"));
  const std::string five = digit(1, "0") + digit(2, "1.0") + digit(3, "2") + digit(4, "3");
  CHECK(load_digits(gzipped(folder, five + digit(5, "9"))).heldout.labels ==
        std::vector<int32_t>{9});
  CHECK_THROWS_WITH(load_digits(gzipped(folder, five)), Contains("4 lines"));
  for (const std::string& wrong : {digit(1, "10"), digit(1, "x"), digit(1, "1,2"), digit(1, ""),
                                   std::string("1,2,3\n"), std::string("\n")}) {
    INFO(wrong);
    CHECK_THROWS_WITH(load_digits(gzipped(folder, five + wrong)), Contains("line 5 of"));
  }
}

TEST_CASE("images: a folder with a folder for each class", "[examples]") {
  const TestFolder folder("image-folder");
  write_classes(folder);
  write_text(folder.file("class0/notes.txt"), "no image");
  const ImageSet set = load_image_folder(folder.path());
  CHECK(set.classes == std::vector<std::string>{"class0", "class1"});
  CHECK(set.train.pixels.dims() == Dims{8, 2, 3, 1});
  CHECK(set.train.labels == std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(set.heldout.labels == std::vector<int32_t>{0, 1});
  // 4 and 14 are held out: mean 6.5 of the others.
  const double scale = set.train.pixels.at(6) - set.train.pixels.at(0);
  CHECK(set.heldout.pixels.at(0) / scale == Approx(4 - 6.5));
  CHECK(set.heldout.pixels.at(6) / scale == Approx(14 - 6.5));
}

TEST_CASE("images: PPM of 8 and 16 bits and NumPy arrays are read", "[examples]") {
  const TestFolder folder("image-files");
  write_text(folder.file("a.ppm"), "P6 1 2 255\n" + std::string("\x01\x02\x03\x04\x05\xff"));
  const Array color = read_image(folder.file("a.ppm"));
  CHECK(color.dims() == Dims{2, 1, 3});
  CHECK(color.at(5) == 255);
  write_text(folder.file("b.pgm"), "P5 2 1 65535\n" + std::string("\x01\x02\x03\x04"));
  const Array deep = read_image(folder.file("b.pgm"));
  CHECK(deep.dims() == Dims{1, 2, 1});
  CHECK(deep.at(0) == 258);
  write_npy(folder.file("c.npy"), Array::of<uint8_t>({2, 2}, {1, 2, 3, 200}));
  const Array numbers = read_image(folder.file("c.npy"));
  CHECK(numbers.dims() == Dims{2, 2, 1});
  CHECK(numbers.at(3) == 200);
}

TEST_CASE("images: files and folders are told what is wrong with them", "[examples][errors]") {
  const TestFolder folder("image-errors");
  const auto said = [&](const std::string& text) {
    write_text(folder.file("x.ppm"), text);
    try {
      read_image(folder.file("x.ppm"));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(said("P3 1 1 255 1"), Contains("x.ppm is no binary PGM or PPM"));
  CHECK_THAT(said("P6 1 1 255\nab"), Contains("2 bytes for 1x1 pixels of 3; it is cut short"));
  CHECK_THAT(said("P6 9999999999 9999999999 255\n"), Contains("wrong header"));
  CHECK_THAT(said("P6 1"), Contains("wrong header"));
  CHECK_THAT(said("P6 #"), Contains("wrong header"));
  CHECK_THAT(said("P5 1 1 0\na"), Contains("wrong header"));
  write_npy(folder.file("y.npy"), Array(DType::f32, {4}));
  CHECK_THROWS_WITH(read_image(folder.file("y.npy")), Contains("y.npy is f32[4]"));
  CHECK_THROWS_WITH(load_image_folder(folder.file("none")), Contains("none is no folder"));
  CHECK_THROWS_WITH(load_image_folder(folder.path()), Contains("0 folders"));
  write_classes(folder);
  write_text(folder.file("class1/5.pgm"), "P5 1 1 255\na");
  CHECK_THROWS_WITH(load_image_folder(folder.path()),
                    Contains("5.pgm is f32[1,1,1], and the first image is f32[2,3,1]"));
  write_text(folder.file("class0/5.pgm"), "");
  CHECK_THROWS_WITH(load_image_folder(folder.path()), Contains("5.pgm is no binary"));
  const TestFolder few("image-few");
  write_text(few.file("a/1.pgm"), "P5 1 1 255\na");
  CHECK_THROWS_WITH(load_image_folder(few.path()), Contains("has 1 images; give at least 5"));
}

TEST_CASE("images: an epoch has every image once, shifted by what is asked for", "[examples]") {
  LabelledImages set{Array(DType::f32, {6, 3, 3, 1}), {0, 1, 2, 3, 4, 5}};
  for (int64_t i = 0; i < 6; ++i) set.pixels.set(9 * i + 4, double(i + 1));  // in the middle
  std::vector<std::multiset<int64_t>> epochs(3);
  bool moves = false;
  for (int64_t step = 0; step < 9; ++step) {
    const ImageBatch batch = random_images(set, 2, 1, 7, step);
    for (int64_t i = 0; i < 2; ++i) {
      const auto label = int64_t(batch.labels.at(i));
      epochs[size_t(step / 3)].insert(label);
      double sum = 0;
      for (int64_t p = 0; p < 9; ++p) sum += batch.images.at(9 * i + p);
      moves = moves || batch.images.at(9 * i + 4) == 0;
      // What is moved to the border stays one pixel or is repeated beyond it.
      CHECK(sum >= double(label + 1));
    }
    CHECK(bitwise_equal(random_images(set, 2, 1, 7, step).images, batch.images));
  }
  for (const auto& epoch : epochs) CHECK(epoch == std::multiset<int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(moves);
  CHECK(
      bitwise_equal(random_images(set, 6, 0, 7, 0).labels, random_images(set, 6, 2, 7, 0).labels));
  const ImageBatch last = images_from(set, 4, 4);
  CHECK(last.images.at(4) == 5);
  CHECK(last.images.at(9 + 4) == 6);
  CHECK(last.images.at(18 + 4) == 0);
}

}  // namespace gspmd::examples
