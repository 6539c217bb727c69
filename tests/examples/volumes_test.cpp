// Generated volumes: masks that say what is where.
#include "examples/volumes.h"

#include <catch2/catch.hpp>

namespace gspmd::examples {

TEST_CASE("volumes: a volume is the same in every batch", "[examples]") {
  const VolumeOptions options{8, 12, 10, 0.3};
  const VolumeBatch all = generated_volumes(options, 5, 4, 3),
                    one = generated_volumes(options, 7, 1, 3);
  CHECK(all.volumes.dims() == Dims{4, 8, 12, 10, 1});
  CHECK(all.masks.dims() == Dims{4, 8, 12, 10});
  const int64_t voxels = one.masks.size();
  int64_t same = 0;
  for (int64_t i = 0; i < voxels; ++i)
    same += all.volumes.at(2 * voxels + i) == one.volumes.at(i) &&
            all.masks.at(2 * voxels + i) == one.masks.at(i);
  CHECK(same == voxels);
  CHECK(!bitwise_equal(one.volumes, generated_volumes(options, 7, 1, 4).volumes));
}

TEST_CASE("volumes: bodies of both kinds are brighter by one", "[examples]") {
  const VolumeBatch made = generated_volumes({16, 16, 16, 0.3}, 0, 50, 1);
  std::vector<double> sums(3), counts(3);
  for (int64_t i = 0; i < made.masks.size(); ++i) {
    const auto kind = size_t(made.masks.at(i));
    sums.at(kind) += made.volumes.at(i);
    counts.at(kind) += 1;
  }
  for (const size_t kind : {1, 2}) {
    CHECK(counts[kind] > 0.01 * double(made.masks.size()));
    CHECK(sums[kind] / counts[kind] - sums[0] / counts[0] == Approx(1).margin(0.1));
  }
}

}  // namespace gspmd::examples
