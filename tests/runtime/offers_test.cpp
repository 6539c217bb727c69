#include "runtime/offers.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/run_text.h"

namespace gspmd {

// The owner waits for what others took; helpers may look at any moment, also between two works.
TEST_CASE("offers: every part of every work is done once, whoever takes it", "[offers]") {
  constexpr int64_t kWorks = 2000, kParts = 5;
  OfferedParts offer;
  std::vector<std::atomic<int>> done(kWorks * kParts);
  std::atomic<bool> ended{false};
  const auto run = [&](int64_t part) {  // the work's device is its number
    ++done[static_cast<size_t>(offer.work().device * kParts + part)];
    offer.done();
  };
  std::vector<std::thread> helpers;
  for (int i = 0; i < 2; ++i)
    helpers.emplace_back([&] {
      while (!ended) {
        const int64_t part = offer.take();
        if (part >= 0)
          run(part);
        else
          std::this_thread::yield();
      }
    });
  for (int64_t work = 0; work < kWorks; ++work) {
    OfferedParts::Work next;
    next.device = work;
    offer.put_up(next, kParts);
    for (int64_t part = offer.take(); part >= 0; part = offer.take()) run(part);
    while (offer.parts_done() < kParts) std::this_thread::yield();
  }
  ended = true;
  for (std::thread& helper : helpers) helper.join();
  CHECK(std::all_of(done.begin(), done.end(), [](const auto& n) { return n == 1; }));
}

// Kernels with and without a first stage, in parts that take long enough to be offered. The last of
// three devices leaves one of two workers nothing else to do.
TEST_CASE("executor: workers that help each other leave no trace", "[offers]") {
  const auto module = parse_module(R"(HloModule m, num_partitions=3
ENTRY e {
  x = f32[4,16,16,64]{3,2,1,0} parameter(0)
  k = f32[3,3,64,64]{3,2,1,0} parameter(1)
  y = f32[4,16,16,64]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  g = f32[3,3,64,64]{3,2,1,0} convolution(x, y), window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf
  h = f32[3,3,64,64]{3,2,1,0} add(k, g)
  ROOT z = f32[4,16,16,64]{3,2,1,0} convolution(y, h), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}
)");
  ProgramOptions options;
  options.num_devices = 3;
  const auto program = build_program(*module, options);
  std::vector<std::shared_ptr<DeviceBuffer>> arguments;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> values(-1, 1);
  for (const Node* parameter : module->entry()->parameters()) {
    const Shape& shape = parameter->shape;
    arguments.push_back(std::make_shared<DeviceBuffer>(Shape(shape.dtype, shape.dims), 3));
    for (int64_t d = 0; d < 3; ++d)
      for (int64_t i = 0; i < shape.elements_count(); ++i)
        reinterpret_cast<float*>(arguments.back()->shard(d))[i] = values(random);
  }
  Executor alone(program, make_worker_pool(1));
  const auto expected = alone.run(arguments);
  for (const int workers : {2, 3, 4}) {
    Executor executor(program, make_worker_pool(workers));
    for (int run = 0; run < 20; ++run) {
      const auto found = executor.run(arguments);
      for (int64_t d = 0; d < 3; ++d)
        REQUIRE(std::memcmp(found[0]->shard(d), expected[0]->shard(d),
                            static_cast<size_t>(found[0]->shape().bytes())) == 0);
    }
  }
}

}  // namespace gspmd
