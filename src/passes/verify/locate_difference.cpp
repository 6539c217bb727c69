#include "gspmd/passes/verify/locate_difference.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "gspmd/ops/builders.h"
#include "ops/evaluate/interpreter.h"
#include "ops/evaluate/lockstep.h"

namespace gspmd {
namespace {

std::vector<Sharding> leaf_shardings(const Shape& shape, const Sharding& s) {
  if (s.is_tuple()) return s.elements();
  return std::vector<Sharding>(static_cast<size_t>(leaf_count(shape)), s);
}

// The box of `size` at `from` in one array and at `to` in another.
void copy_box(const Array& source, const Dims& from, const Array& target, const Dims& to,
              const Dims& size) {
  const Dims in = row_major_strides(source.dims()), out = row_major_strides(target.dims());
  const auto bytes = static_cast<size_t>(dtype_size(source.dtype()));
  const int64_t count = Shape(DType::pred, size).elements_count();
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n, at_source = 0, at_target = 0;
    for (size_t d = size.size(); d-- > 0;) {
      const int64_t i = rest % size[d];
      rest /= size[d];
      at_source += (from[d] + i) * in[d];
      at_target += (to[d] + i) * out[d];
    }
    std::memcpy(target.bytes().data() + static_cast<size_t>(at_target) * bytes,
                source.bytes().data() + static_cast<size_t>(at_source) * bytes, bytes);
  }
}

Array part_of(const Array& array, const Dims& start, const Dims& size) {
  Array part(array.dtype(), size);
  copy_box(array, start, part, Dims(size.size(), 0), size);
  return part;
}

Array element_of(const Array& array, int64_t index) {
  Array element(array.dtype(), {});
  const auto bytes = static_cast<size_t>(dtype_size(array.dtype()));
  std::memcpy(element.bytes().data(), array.bytes().data() + static_cast<size_t>(index) * bytes,
              bytes);
  return element;
}

Dims unflattened(int64_t flat, const Dims& dims) {
  Dims index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
  return index;
}

Array combined(const Array& a, const Array& b, Combiner combiner) {
  Module module("combine");
  Computation* c = module.add_computation("combine");
  Node* x = hlo::parameter(*c, 0, a.shape());
  Node* y = hlo::parameter(*c, 1, a.shape());
  c->set_root(hlo::binary(combiner_opcode(combiner), x, y));
  const std::vector<Value> arguments = {{a, {}, false}, {b, {}, false}};
  return evaluate(*c, arguments).array;
}

bool is_comparable(const Sharding& s) {
  return s.kind() == ShardingKind::maximal ||
         (s.kind() == ShardingKind::tiled && s.manual_digits().empty());
}

// What devices beside those of a layout have of a value means nothing.
bool holds(const Sharding& s, int64_t device) {
  if (s.kind() == ShardingKind::maximal) return s.device() == device;
  return s.order() == nullptr || s.order()->rank(device) >= 0;
}

class Locator {
 public:
  Locator(const PartitionResult& partitioned, const FirstUnequal& first_unequal,
          const LocateOptions& options)
      : first_unequal_(first_unequal), options_(options) {
    for (const PartitionedValue& value : partitioned.values) {
      of_local_[value.local].push_back(&value);
      expected_[value.global];
    }
  }

  void expect(const Node& node, const Value& value) {
    const auto wanted = expected_.find(node.id());
    if (wanted == expected_.end()) return;  // a combiner's
    ++time_;
    for (const Array& leaf : leaves(value)) bytes_ += static_cast<int64_t>(leaf.bytes().size());
    if (bytes_ <= options_.most_bytes) wanted->second.push_back({time_, &node, value});
  }

  void found(const Node& local, std::span<const int64_t> devices, std::span<const Value> values) {
    const auto places = of_local_.find(local.id());
    if (places == of_local_.end()) return;
    for (const PartitionedValue* place : places->second) {
      const int64_t run = runs_[place->global]++;
      const auto known = expected_.find(place->global);
      if (known == expected_.end() || run >= std::ssize(known->second)) continue;
      const Expected& expected = known->second[static_cast<size_t>(run)];
      if (first_ && first_time_ <= expected.time) continue;
      if (auto difference = compare(expected, place->sharding, devices, values)) {
        difference->run = run;
        first_ = std::move(difference);
        first_time_ = expected.time;
      }
    }
  }

  // The results, as the signature lays them out.
  void results(const Node& root, const Value& whole, std::span<const Value> values) {
    if (first_) return;
    std::vector<int64_t> devices(values.size());
    std::iota(devices.begin(), devices.end(), 0);
    first_ =
        compare({0, &root, whole}, root.sharding.value_or(Sharding::replicated()), devices, values);
  }

  std::optional<ValueDifference> first() const { return first_; }

 private:
  struct Expected {
    int64_t time;
    const Node* node;
    Value value;
  };

  std::optional<ValueDifference> compare(const Expected& expected, const Sharding& sharding,
                                         std::span<const int64_t> devices,
                                         std::span<const Value> values) const {
    const std::vector<Array> whole = leaves(expected.value);
    const std::vector<Sharding> shardings = leaf_shardings(expected.node->shape, sharding);
    std::vector<std::vector<Array>> shards;
    for (const Value& value : values) shards.push_back(leaves(value));
    for (size_t leaf = 0; leaf < whole.size(); ++leaf) {
      const Sharding& s = shardings[leaf];
      if (!is_comparable(s)) continue;
      for (size_t lane = 0; lane < devices.size(); ++lane) {
        if (!holds(s, devices[lane])) continue;
        const Box box = shard_box(whole[leaf].shape(), s, devices[lane]);
        const Array shard = settled(shards, leaf, lane, s, devices);
        if (shard.empty()) continue;
        const Array want = part_of(whole[leaf], box.start, box.size);
        const Array have = part_of(shard, Dims(box.size.size(), 0), box.size);
        const std::optional<int64_t> at = first_unequal_(want, have);
        if (!at) continue;
        Dims index = unflattened(*at, box.size);
        for (size_t d = 0; d < index.size(); ++d) index[d] += box.start[d];
        return ValueDifference{
            expected.node,         static_cast<int64_t>(leaf), 0, devices[lane], std::move(index),
            element_of(want, *at), element_of(have, *at)};
      }
    }
    return std::nullopt;
  }

  // The shard of one device with the partial values of its group combined; empty where not all of
  // the group are there.
  static Array settled(const std::vector<std::vector<Array>>& shards, size_t leaf, size_t lane,
                       const Sharding& s, std::span<const int64_t> devices) {
    Array sum = shards[lane][leaf];
    if (s.unreduced().empty()) return sum;
    if (s.order() == nullptr) return {};
    for (const Unreduced& unreduced : s.unreduced())
      if (unreduced.digits.empty() || unreduced.combiner != s.unreduced()[0].combiner) return {};
    int64_t members = 1, expected = 1;
    for (const Unreduced& unreduced : s.unreduced()) expected *= tile_count(unreduced.digits);
    const int64_t rank = s.order()->rank(devices[lane]);
    for (size_t other = 0; other < devices.size(); ++other) {
      if (other == lane || !holds(s, devices[other]) ||
          !in_group(s, rank, s.order()->rank(devices[other])))
        continue;
      ++members;
      sum = combined(sum, shards[other][leaf], s.unreduced()[0].combiner);
    }
    return members == expected ? sum : Array();
  }

  // Whether two ranks differ in unreduced digits only.
  static bool in_group(const Sharding& s, int64_t a, int64_t b) {
    for (const Unreduced& unreduced : s.unreduced())
      for (const Digit& digit : unreduced.digits) {
        a -= a / digit.stride % digit.size * digit.stride;
        b -= b / digit.stride % digit.size * digit.stride;
      }
    return a == b;
  }

  const FirstUnequal& first_unequal_;
  const LocateOptions& options_;
  std::unordered_map<int64_t, std::vector<const PartitionedValue*>> of_local_;
  std::unordered_map<int64_t, std::vector<Expected>> expected_;
  std::unordered_map<int64_t, int64_t> runs_;
  int64_t time_ = 0, first_time_ = 0, bytes_ = 0;
  std::optional<ValueDifference> first_;
};

}  // namespace

std::vector<std::vector<Value>> device_arguments(const Module& completed, int64_t num_devices,
                                                 std::span<const Value> arguments) {
  std::vector<std::vector<Value>> all(static_cast<size_t>(num_devices));
  for (int64_t device = 0; device < num_devices; ++device)
    for (size_t p = 0; p < arguments.size(); ++p) {
      const Node& parameter = *completed.entry()->parameters()[p];
      const std::vector<Sharding> shardings =
          leaf_shardings(parameter.shape, parameter.sharding.value_or(Sharding::replicated()));
      std::vector<Array> shards;
      for (const Array& whole : leaves(arguments[p])) {
        const Sharding& s = shardings[shards.size()];
        const Box box = shard_box(whole.shape(), s, device);
        shards.emplace_back(local_shape(whole.shape(), s));
        if (box.is_empty()) continue;
        copy_box(whole, box.start, shards.back(), Dims(box.size.size(), 0), box.size);
      }
      all[static_cast<size_t>(device)].push_back(pack(parameter.shape, shards));
    }
  return all;
}

std::vector<Array> whole_results(const Module& completed, std::span<const Value> results) {
  const Node& root = *completed.entry()->root();
  const std::vector<Sharding> shardings =
      leaf_shardings(root.shape, root.sharding.value_or(Sharding::replicated()));
  std::vector<Array> whole;
  for (const Shape& shape : leaf_shapes(root.shape)) whole.emplace_back(shape);
  for (size_t device = 0; device < results.size(); ++device) {
    const std::vector<Array> shards = leaves(results[device]);
    for (size_t i = 0; i < whole.size(); ++i) {
      const Box box = shard_box(whole[i].shape(), shardings[i], static_cast<int64_t>(device));
      if (box.is_empty()) continue;
      copy_box(shards[i], Dims(box.size.size(), 0), whole[i], box.start, box.size);
    }
  }
  return whole;
}

std::optional<ValueDifference> locate_difference(const Module& completed,
                                                 const PartitionResult& partitioned,
                                                 std::span<const Value> arguments,
                                                 const FirstUnequal& first_unequal,
                                                 const LocateOptions& options) {
  Locator locator(partitioned, first_unequal, options);
  Interpreter whole([&](const Node& node, std::span<const Value>, const Value& value) {
    locator.expect(node, value);
  });
  const Value expected = whole.run(*completed.entry(), arguments);
  const std::vector<Value> results = evaluate_devices(
      *partitioned.module, options.num_devices,
      device_arguments(completed, options.num_devices, arguments),
      [&](const Node& local, std::span<const int64_t> devices, std::span<const Value> values) {
        locator.found(local, devices, values);
      });
  locator.results(*completed.entry()->root(), expected, results);
  return locator.first();
}

}  // namespace gspmd
