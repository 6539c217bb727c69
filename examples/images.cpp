#include "examples/images.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>

namespace gspmd::examples {
namespace {

constexpr const char* kDigits =
    "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz";
constexpr int64_t kSide = 8;             // of a digit
constexpr int64_t kHeldOut = 5;          // one of so many
constexpr int64_t kMostBytes = 1 << 28;  // of a file's text or an image

// One image of a file with its class.
struct Example {
  Array image;  // f32[h,w,c]
  int32_t label = 0;
  bool held_out = false;
};

LabelledImages part_of(const std::vector<Example>& examples, bool held_out, double mean,
                       double deviation) {
  LabelledImages part;
  for (const Example& e : examples)
    if (e.held_out == held_out) part.labels.push_back(e.label);
  Dims dims = examples[0].image.dims();
  dims.insert(dims.begin(), part.count());
  part.pixels = Array(DType::f32, dims);
  auto to = part.pixels.data<float>().begin();
  for (const Example& e : examples)
    if (e.held_out == held_out)
      for (const float value : e.image.data<float>())
        *to++ = static_cast<float>((value - mean) / deviation);
  return part;
}

ImageSet set_of(std::string name, std::vector<std::string> classes,
                const std::vector<Example>& examples) {
  double count = 0, sum = 0, squares = 0;
  for (const Example& e : examples) {
    if (e.held_out) continue;
    for (const float value : e.image.data<float>()) {
      count += 1;
      sum += value;
      squares += double(value) * value;
    }
  }
  const double mean = sum / count, variance = squares / count - mean * mean;
  const double deviation = variance > 0 ? std::sqrt(variance) : 1;
  return {std::move(name), std::move(classes), part_of(examples, false, mean, deviation),
          part_of(examples, true, mean, deviation)};
}

std::string read_gzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    user_error(
        "digits: {} cannot be read; install the package python3-sklearn (apt-get install "
        "python3-sklearn), or give a folder of images with --images",
        path);
  std::string text;
  char buffer[1 << 16];
  int got = 0;
  while ((got = gzread(file.get(), buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<size_t>(got));
    if (std::ssize(text) > kMostBytes) user_error("digits: {} is too long", path);
  }
  if (got < 0) user_error("digits: {} is damaged", path);
  return text;
}

Example digit_of(std::string_view line, const std::string& path, int64_t number) {
  Example digit{Array(DType::f32, {kSide, kSide, 1}), 0, number % kHeldOut == kHeldOut - 1};
  const auto wrong = [&] {
    user_error("digits: line {} of {} is not {} numbers and a label from 0 to 9", number + 1, path,
               kSide * kSide);
  };
  for (int64_t i = 0; i <= kSide * kSide; ++i) {
    double value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) wrong();
    line.remove_prefix(static_cast<size_t>(end - line.data()));
    if (i < kSide * kSide)
      digit.image.set(i, value);
    else
      digit.label = value >= 0 && value <= 9 ? static_cast<int32_t>(value) : -1;
    if (line.empty() != (i == kSide * kSide)) wrong();
    if (!line.empty() && line[0] != ',') wrong();
    if (!line.empty()) line.remove_prefix(1);
  }
  if (digit.label < 0) wrong();
  return digit;
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) user_error("images: {} cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The next number of a header, behind blanks and comments; -1: there is none.
int64_t header_number(std::string_view& text) {
  while (!text.empty() && (std::isspace(static_cast<unsigned char>(text[0])) || text[0] == '#'))
    text.remove_prefix(text[0] == '#' ? std::min(text.find('\n'), text.size() - 1) + 1 : 1);
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() ? value : -1;
}

// P5 and P6 of 8 and 16 bits.
Array read_netpbm(const std::string& path) {
  const std::string whole = read_whole(path);
  std::string_view text = whole;
  if (!text.starts_with("P5") && !text.starts_with("P6"))
    user_error("images: {} is no binary PGM or PPM; it begins with P5 or P6", path);
  const int64_t channels = text[1] == '6' ? 3 : 1;
  text.remove_prefix(2);
  const int64_t width = header_number(text), height = header_number(text),
                most = header_number(text);
  const bool small = width > 0 && height > 0 && width <= kMostBytes && height <= kMostBytes / width;
  if (!small || most < 1 || most > 65535 || text.empty())
    user_error("images: {} has a wrong header", path);
  text.remove_prefix(1);  // the one blank behind the header
  const int64_t values = height * width * channels, bytes = most > 255 ? 2 : 1;
  if (std::ssize(text) != values * bytes)
    user_error("images: {} has {} bytes for {}x{} pixels of {}; it is cut short or too long", path,
               text.size(), height, width, channels * bytes);
  Array image(DType::f32, {height, width, channels});
  const auto byte = [&](int64_t i) { return int(static_cast<unsigned char>(text[size_t(i)])); };
  const auto out = image.data<float>();
  for (int64_t i = 0; i < values; ++i)
    out[size_t(i)] = float(bytes == 1 ? byte(i) : 256 * byte(2 * i) + byte(2 * i + 1));
  return image;
}

bool is_image(const std::filesystem::path& path) {
  const std::string kind = path.extension().string();
  return kind == ".ppm" || kind == ".pgm" || kind == ".npy";
}

// What stands in a folder and is wanted, sorted by name.
template <class F>
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder, F wanted) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (wanted(entry)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Which image stands at place `at` of the time `epoch` through `count` of them.
class Order {
 public:
  Order(int64_t count, uint32_t seed) : order_(static_cast<size_t>(count)), seed_(seed) {}
  int64_t at(int64_t epoch, int64_t place) {
    if (epoch != epoch_) {
      std::seed_seq words{seed_, uint32_t(epoch), uint32_t(epoch >> 32)};
      std::mt19937_64 random(words);
      std::iota(order_.begin(), order_.end(), 0);
      for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
      epoch_ = epoch;
    }
    return order_[static_cast<size_t>(place)];
  }

 private:
  std::vector<int64_t> order_;
  uint32_t seed_;
  int64_t epoch_ = -1;
};

// Image `from` of a set as image `to` of a batch, shifted.
void copy_shifted(const Array& set, int64_t from, const Array& batch, int64_t to, int64_t down,
                  int64_t right) {
  const int64_t h = set.dim(1), w = set.dim(2), c = set.dim(3);
  const float* source = set.data<float>().data() + from * h * w * c;
  float* target = batch.data<float>().data() + to * h * w * c;
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x) {
      const int64_t sy = std::clamp<int64_t>(y - down, 0, h - 1);
      const int64_t sx = std::clamp<int64_t>(x - right, 0, w - 1);
      std::memcpy(target + (y * w + x) * c, source + (sy * w + sx) * c, size_t(c) * sizeof(float));
    }
}

ImageBatch empty_batch(const LabelledImages& set, int64_t batch) {
  Dims dims = set.pixels.dims();
  dims[0] = batch;
  return {Array(DType::f32, dims), Array(DType::s32, {batch})};
}

}  // namespace

ImageSet load_digits(const std::string& file) {
  const std::string path = file.empty() ? kDigits : file;
  const std::string text = read_gzip(path);
  std::vector<Example> digits;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    digits.push_back(digit_of(line, path, std::ssize(digits)));
    begin = end + 1;
  }
  if (std::ssize(digits) < kHeldOut)
    user_error("digits: {} has {} lines; it must have at least {}", path, digits.size(), kHeldOut);
  std::vector<std::string> classes;
  for (int i = 0; i < 10; ++i) classes.push_back(std::to_string(i));
  return set_of("handwritten digits", classes, digits);
}

Array read_image(const std::string& path) {
  if (!path.ends_with(".npy")) return read_netpbm(path);
  const Array values = read_npy(path);
  Dims dims = values.dims();
  if (dims.size() == 2) dims.push_back(1);
  if (dims.size() != 3 || values.size() == 0)
    user_error("images: {} is {}; an image has the dims h,w or h,w,c", path,
               to_string(values.shape()));
  Array image(DType::f32, dims);
  for (int64_t i = 0; i < image.size(); ++i) image.set(i, values.at(i));
  return image;
}

ImageSet load_image_folder(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) user_error("images: {} is no folder", path);
  std::vector<std::string> classes;
  std::vector<Example> examples;
  for (const fs::path& folder : entries(path, [](const auto& e) { return e.is_directory(); })) {
    int64_t number = 0;
    for (const fs::path& file : entries(folder, [](const auto& e) { return is_image(e.path()); })) {
      const bool held_out = number++ % kHeldOut == kHeldOut - 1;
      examples.push_back({read_image(file.string()), int32_t(classes.size()), held_out});
      const Shape &first = examples[0].image.shape(), &shape = examples.back().image.shape();
      if (shape != first)
        user_error("images: {} is {}, and the first image is {}; give images of one size",
                   file.string(), to_string(shape), to_string(first));
    }
    if (number == 0) continue;
    if (number < kHeldOut)
      user_error("images: {} has {} images; give at least {} of each class, one is held out",
                 folder.string(), number, kHeldOut);
    classes.push_back(folder.filename().string());
  }
  if (classes.size() < 2)
    user_error(
        "images: {} has {} folders with .ppm, .pgm or .npy files; give one for each of at least "
        "two classes",
        path, classes.size());
  return set_of(fs::path(path).filename().string(), std::move(classes), examples);
}

ImageBatch random_images(const LabelledImages& set, int64_t batch, int64_t shift, uint32_t seed,
                         int64_t step) {
  ImageBatch made = empty_batch(set, batch);
  Order order(set.count(), seed);
  std::seed_seq words{seed, uint32_t(step), uint32_t(step >> 32), uint32_t(1)};
  std::mt19937_64 random(words);
  const auto offset = [&] { return int64_t(random() % uint64_t(2 * shift + 1)) - shift; };
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t place = step * batch + i;
    const int64_t image = order.at(place / set.count(), place % set.count());
    const int64_t down = offset(), right = offset();
    copy_shifted(set.pixels, image, made.images, i, down, right);
    made.labels.set(i, set.labels[size_t(image)]);
  }
  return made;
}

ImageBatch images_from(const LabelledImages& set, int64_t first, int64_t batch) {
  ImageBatch made = empty_batch(set, batch);
  for (int64_t i = 0; i < std::min(batch, set.count() - first); ++i) {
    copy_shifted(set.pixels, first + i, made.images, i, 0, 0);
    made.labels.set(i, set.labels[size_t(first + i)]);
  }
  return made;
}

}  // namespace gspmd::examples
