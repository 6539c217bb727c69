#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/collective/collective.h"
#include "ops/common/combine_values.h"
#include "ops/common/loops.h"
#include "ops/common/widen.h"
#include "ops/control/control.h"

namespace gspmd {
namespace {

using Operands = std::vector<std::vector<Value>>;  // [lane][operand]

// Lanes of the groups that take part, in the groups' order.
std::vector<std::vector<size_t>> groups_of_lanes(const Node& node,
                                                 const std::vector<int64_t>& devices,
                                                 int64_t num_devices) {
  std::vector<std::vector<size_t>> groups;
  std::vector<bool> covered(devices.size(), false);
  for (const std::vector<int64_t>& group : materialize(node.attrs.replica_groups, num_devices)) {
    std::vector<size_t> lanes;
    for (const int64_t device : group) {
      if (device >= num_devices)
        execution_error("{}: \"{}\" names device {}, there are {}", opcode_name(node.opcode()),
                        node.name(), device, num_devices);
      const auto at = std::lower_bound(devices.begin(), devices.end(), device);
      if (at == devices.end() || *at != device) continue;
      lanes.push_back(static_cast<size_t>(at - devices.begin()));
      covered[lanes.back()] = true;
    }
    if (lanes.empty()) continue;
    if (lanes.size() != group.size())
      execution_error(
          "{}: \"{}\" is reached by {} of the {} devices of its group {{{}}} only: a branch or "
          "loop around it went different ways",
          opcode_name(node.opcode()), node.name(), lanes.size(), group.size(),
          fmt::join(group, ","));
    groups.push_back(std::move(lanes));
  }
  if (node.is(Opcode::collective_broadcast)) return groups;
  const auto outside = std::find(covered.begin(), covered.end(), false);
  if (outside != covered.end())
    execution_error("{}: device {} is in no group of \"{}\"", opcode_name(node.opcode()),
                    devices[static_cast<size_t>(outside - covered.begin())], node.name());
  return groups;
}

std::vector<Array> members_of(const Operands& operands, const std::vector<size_t>& lanes,
                              size_t i) {
  std::vector<Array> members;
  for (const size_t lane : lanes) members.push_back(operands[lane][i].array);
  return members;
}

Array combine_members(const Node& node, const std::vector<Array>& members,
                      const CallComputation& call) {
  const DType dtype = members[0].dtype();
  const std::optional<Combiner> combiner = recognize_combiner(*node.called[0]);
  if (!combiner) {
    const Array result = members[0].clone();
    for (size_t m = 1; m < members.size(); ++m) {
      CalledCombiner called(call, *node.called[0], {result}, {members[m]});
      for (int64_t i = 0; i < result.size(); ++i) called.combine(i, i);
    }
    return result;
  }
  std::vector<Array> wide;
  for (const Array& member : members) wide.push_back(widened(member));
  const Array result = wide[0].clone();
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = AccumulatorOf<T>;
    const std::span<T> out = result.data<T>();
    std::vector<std::span<const T>> in;
    for (const Array& array : wide) in.push_back(array.data<T>());
    for (size_t i = 0; i < out.size(); ++i) {
      A sum = convert_element<A>(T(out[i]));
      for (size_t m = 1; m < in.size(); ++m)
        sum = combine(*combiner, sum, convert_element<A>(T(in[m][i])));
      out[i] = convert_element<T>(sum);
    }
  });
  return is_narrow(dtype) ? narrowed(result, dtype) : result;
}

// The part-th of `parts` equal pieces of an array along `dim`.
Array piece(const Array& array, size_t dim, int64_t parts, int64_t part) {
  Shape shape(array.dtype(), array.dims());
  shape.dims[dim] /= parts;
  const Array result(shape);
  if (result.size() == 0) return result;
  const Dims from = row_major_strides(array.dims());
  copy_elements(shape.dims, whole(result), {array, from, part * shape.dims[dim] * from[dim]});
  return result;
}

Array joined(const std::vector<Array>& arrays, size_t dim) {
  Shape shape(arrays[0].dtype(), arrays[0].dims());
  shape.dims[dim] *= static_cast<int64_t>(arrays.size());
  return concatenated(Array(shape), arrays, dim);
}

}  // namespace

Opcode sync_form(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_reduce_start:
      return Opcode::all_reduce;
    case Opcode::all_gather_start:
      return Opcode::all_gather;
    case Opcode::collective_permute_start:
      return Opcode::collective_permute;
    default:
      return opcode;
  }
}

namespace {

// What member `self` of a group gets for operand `i`.
Array group_result(const Node& node, const Operands& operands, const std::vector<size_t>& lanes,
                   size_t self, size_t i, const CallComputation& call) {
  const auto parts = static_cast<int64_t>(lanes.size());
  const auto part = static_cast<int64_t>(self);
  const Opcode opcode = sync_form(node.opcode());
  if (opcode == Opcode::collective_broadcast) return operands[lanes[0]][i].array.clone();
  if (opcode == Opcode::all_to_all && node.attrs.dimensions.empty())
    return operands[lanes[i]][self].array.clone();  // operand `self` of member i
  const std::vector<Array> members = members_of(operands, lanes, i);
  if (opcode == Opcode::all_reduce) return combine_members(node, members, call);
  const auto dim = static_cast<size_t>(node.attrs.dimensions[0]);
  if (opcode == Opcode::all_gather) return joined(members, dim);
  if (opcode == Opcode::reduce_scatter)
    return piece(combine_members(node, members, call), dim, parts, part);
  std::vector<Array> received;
  for (const Array& member : members) received.push_back(piece(member, dim, parts, part));
  return joined(received, dim);
}

// The arrays that one device gets, as the node's value: a -start gives a tuple of its operands, of
// the results and of zeros for what else it declares; all-reduce-start gives the results.
Value result_value(const Node& node, const std::vector<Value>& operands,
                   std::vector<Array> arrays) {
  if (sync_form(node.opcode()) == node.opcode() || node.is(Opcode::all_reduce_start))
    return pack(node.shape, arrays);
  Value value = zero_value(node.shape);
  value.elements[0] = pack(node.shape.elements[0],
                           leaves(operands.size() == 1 ? operands[0] : Value::tuple(operands)));
  value.elements[1] = pack(node.shape.elements[1], arrays);
  return value;
}

std::vector<Value> permute(const Node& node, const std::vector<int64_t>& devices,
                           const Operands& operands, int64_t num_devices) {
  std::vector<std::vector<Array>> results(devices.size());
  for (std::vector<Array>& result : results)
    for (const Node* operand : node.operands()) result.emplace_back(operand->shape);
  for (const auto& [source, target] : materialize(node.attrs.permutation)) {
    const auto from = std::lower_bound(devices.begin(), devices.end(), source);
    const auto to = std::lower_bound(devices.begin(), devices.end(), target);
    const bool sends = from != devices.end() && *from == source;
    const bool receives = to != devices.end() && *to == target;
    if (source >= num_devices || target >= num_devices)
      execution_error("collective-permute: \"{}\" names devices {} and {}, there are {}",
                      node.name(), source, target, num_devices);
    if (sends != receives)
      execution_error("collective-permute: \"{}\" is reached by one of devices {} and {} only",
                      node.name(), source, target);
    if (!sends) continue;
    const std::vector<Value>& sent = operands[static_cast<size_t>(from - devices.begin())];
    for (size_t i = 0; i < sent.size(); ++i)
      results[static_cast<size_t>(to - devices.begin())][i] = sent[i].array.clone();
  }
  std::vector<Value> values;
  for (size_t lane = 0; lane < results.size(); ++lane)
    values.push_back(result_value(node, operands[lane], results[lane]));
  return values;
}

}  // namespace

std::vector<Value> evaluate_collective(const Node& node, const std::vector<int64_t>& devices,
                                       const std::vector<std::vector<Value>>& operands,
                                       int64_t num_devices, const CallComputation& call) {
  check_group_size(node, num_devices);
  if (node.op().evaluate == nullptr)
    user_error("{}: \"{}\" cannot run here: the op has no kernel", opcode_name(node.opcode()),
               node.name());
  const bool buffered = node.is(Opcode::collective_permute) &&
                        static_cast<int64_t>(node.operands().size()) != leaf_count(node.shape);
  if (buffered)
    user_error(
        "collective-permute: \"{}\" writes into a buffer (slice_sizes), which is read and "
        "printed only",
        node.name());
  if (sync_form(node.opcode()) == Opcode::collective_permute)
    return permute(node, devices, operands, num_devices);
  std::vector<Value> results(devices.size());
  for (const std::vector<size_t>& lanes : groups_of_lanes(node, devices, num_devices))
    for (size_t self = 0; self < lanes.size(); ++self) {
      std::vector<Array> arrays;
      for (size_t i = 0; i < node.operands().size(); ++i)
        arrays.push_back(group_result(node, operands, lanes, self, i, call));
      results[lanes[self]] = result_value(node, operands[lanes[self]], std::move(arrays));
    }
  for (Value& result : results)  // a device that no broadcast reaches
    if (!result.is_tuple && result.array.empty()) result = zero_value(node.shape);
  return results;
}

}  // namespace gspmd
