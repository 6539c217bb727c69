#include "examples/volumes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace gspmd::examples {
namespace {

using Point = std::array<double, 3>;  // z, y, x in voxels

// The distributions of <random> differ between libraries.
class Random {
 public:
  Random(uint32_t seed, int64_t number) {
    std::seed_seq words{seed, uint32_t(number), uint32_t(number >> 32)};
    engine_.seed(words);
  }
  double uniform(double low, double high) {
    return low + (high - low) * double(engine_() >> 11) * 0x1p-53;
  }
  int64_t below(int64_t n) { return int64_t(engine_() % uint64_t(n)); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform(0x1p-53, 1)));
    return radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
  }

 private:
  std::mt19937_64 engine_;
};

struct Body {
  int32_t kind = 1;  // 1: ellipsoid, 2: box
  Point center = {}, radius = {};

  bool contains(const Point& p) const {
    double squares = 0, most = 0;
    for (size_t i = 0; i < 3; ++i) {
      const double r = std::abs(p[i] - center[i]) / radius[i];
      squares += r * r;
      most = std::max(most, r);
    }
    return kind == 1 ? squares <= 1 : most <= 1;
  }
};

Body random_body(Random& random, const Point& size, int32_t kind) {
  Body body;
  body.kind = kind;
  const double side = std::min({size[0], size[1], size[2]});
  for (size_t i = 0; i < 3; ++i) {
    body.radius[i] = side * random.uniform(0.18, 0.32);
    body.center[i] = random.uniform(body.radius[i], size[i] - 1 - body.radius[i]);
  }
  return body;
}

// One volume, d*h*w numbers of both.
void fill(const VolumeOptions& o, Random& random, float* volume, int32_t* mask) {
  const Point size = {double(o.depth), double(o.height), double(o.width)};
  std::vector<Body> bodies(size_t(2 + random.below(3)));
  for (size_t i = 0; i < bodies.size(); ++i)
    bodies[i] = random_body(random, size, int32_t(i < 2 ? i + 1 : size_t(1 + random.below(2))));
  Point slope;
  for (size_t i = 0; i < 3; ++i) slope[i] = random.uniform(-0.5, 0.5) / size[i];
  for (int64_t z = 0; z < o.depth; ++z)
    for (int64_t y = 0; y < o.height; ++y)
      for (int64_t x = 0; x < o.width; ++x) {
        const Point p = {double(z), double(y), double(x)};
        int32_t kind = 0;
        for (const Body& body : bodies)
          if (body.contains(p)) kind = body.kind;
        const double around = slope[0] * p[0] + slope[1] * p[1] + slope[2] * p[2];
        *volume++ = float(around + (kind > 0 ? 1 : 0) + o.noise * random.normal());
        *mask++ = kind;
      }
}

}  // namespace

VolumeBatch generated_volumes(const VolumeOptions& o, int64_t first, int64_t n, uint32_t seed) {
  VolumeBatch made{Array(DType::f32, {n, o.depth, o.height, o.width, 1}),
                   Array(DType::s32, {n, o.depth, o.height, o.width})};
  const int64_t voxels = o.depth * o.height * o.width;
  for (int64_t i = 0; i < n; ++i) {
    Random random(seed, first + i);
    fill(o, random, made.volumes.data<float>().data() + i * voxels,
         made.masks.data<int32_t>().data() + i * voxels);
  }
  return made;
}

}  // namespace gspmd::examples
