#pragma once

#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/runtime/executor.h"

namespace gspmd {

// Per-device arguments of small whole numbers: sums are exact in any order.
inline std::vector<std::vector<Value>> small_arguments(const Module& module, int64_t devices,
                                                       unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<std::vector<Value>> arguments(static_cast<size_t>(devices));
  for (auto& values : arguments) {
    for (const Node* parameter : module.entry()->parameters()) {
      std::vector<Array> arrays;
      for (const Shape& leaf : leaf_shapes(parameter->shape)) {
        arrays.emplace_back(leaf);
        for (int64_t i = 0; i < leaf.elements_count(); ++i) {
          const int x = int(random() % 7) - 3;
          arrays.back().set(i, leaf.dtype == DType::pred         ? x > 0
                               : is_unsigned_integer(leaf.dtype) ? x + 3
                                                                 : x);
        }
      }
      values.push_back(pack(parameter->shape, arrays));
    }
  }
  return arguments;
}

inline std::vector<std::shared_ptr<DeviceBuffer>> to_buffers(
    const std::vector<std::vector<Value>>& arguments) {
  std::vector<std::vector<Array>> flat;
  for (const auto& values : arguments) {
    flat.emplace_back();
    for (const Value& value : values) {
      for (const Array& leaf : leaves(value)) flat.back().push_back(leaf);
    }
  }
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  for (size_t i = 0; i < flat[0].size(); ++i) {
    buffers.push_back(std::make_shared<DeviceBuffer>(flat[0][i].shape(), int64_t(flat.size())));
    for (int64_t d = buffers[i]->local().first; d < buffers[i]->local().last; ++d) {
      const auto bytes = flat[size_t(d)][i].bytes();
      if (!bytes.empty()) std::memcpy(buffers[i]->shard(d), bytes.data(), bytes.size());
    }
  }
  return buffers;
}

inline Array shard_array(const DeviceBuffer& buffer, int64_t device) {
  Array array(buffer.shape());
  if (array.size() > 0)
    std::memcpy(array.bytes().data(), buffer.shard(device), array.bytes().size());
  return array;
}

// Runs `text` on devices with each number of workers, fast and reference kernels, twice each with
// poisoned memory; every result leaf must have the oracle's bits.
inline void expect_oracle(const std::string& text, int64_t devices,
                          std::vector<int> workers = {1, 2, 4}) {
  const auto module = parse_module(text);
  const auto arguments = small_arguments(*module, devices);
  const std::vector<Value> wanted = evaluate_devices(*module, devices, arguments);
  for (const bool reference : {true, false}) {
    ProgramOptions options;
    options.num_devices = devices;
    options.reference_kernels = reference;
    options.poison = true;
    const auto program = build_program(*module, options);
    for (const int count : workers) {
      Executor executor(program, make_worker_pool(count));
      for (int run = 0; run < 2; ++run) {
        const auto results = executor.run(to_buffers(arguments));
        for (int64_t d = 0; d < devices; ++d) {
          const std::vector<Array> expected = leaves(wanted[size_t(d)]);
          REQUIRE(results.size() == expected.size());
          for (size_t i = 0; i < expected.size(); ++i) {
            INFO((reference ? "reference" : "fast") << " kernels, " << count << " workers, run "
                                                    << run << ", device " << d << ", leaf " << i);
            CHECK(bitwise_equal(shard_array(*results[i], d), expected[i]));
          }
        }
      }
    }
  }
}

}  // namespace gspmd
