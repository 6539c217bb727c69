#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::examples {

// Images of one size with a class each.
struct LabelledImages {
  Array pixels;                 // f32[n,h,w,c]
  std::vector<int32_t> labels;  // n of them

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

// A set of images in two parts. Pixels are shifted and scaled so that those of `train` have mean 0
// and variance 1.
struct ImageSet {
  std::string name;
  std::vector<std::string> classes;
  LabelledImages train, heldout;
};

// The 1797 handwritten digits of 8x8 pixels (Alpaydin and Kaynak 1998) that come with scikit-learn.
// `file`: digits.csv.gz, 64 numbers and a label a line; empty: where Debian's python3-sklearn has
// it. Every fifth is held out. UserError: the file is missing, with what to install; it has another
// form.
ImageSet load_digits(const std::string& file = {});

// A folder with a folder of images for each class, .ppm and .pgm (binary, P6 and P5) and .npy (h,w
// or h,w,c, any number), all of one size. Every fifth of each class, by name, is held out.
// UserError names the file: it cannot be read, or has another size; or the folder has no classes or
// too few images.
ImageSet load_image_folder(const std::string& path);

// One image, f32[h,w,c]. UserError names the file.
Array read_image(const std::string& path);

// `batch` images of a set in an order that is drawn anew for each time through it, each shifted by
// up to `shift` pixels along height and width, the border standing for what is beyond it: {f32
// [batch,h,w,c], s32[batch]}. A pure function of its arguments.
struct ImageBatch {
  Array images, labels;
};
ImageBatch random_images(const LabelledImages& set, int64_t batch, int64_t shift, uint32_t seed,
                         int64_t step);
// Those from `first` on; where they end, zeros follow.
ImageBatch images_from(const LabelledImages& set, int64_t first, int64_t batch);

}  // namespace gspmd::examples
