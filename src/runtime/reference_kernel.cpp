#include "runtime/reference_kernel.h"

#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ops/debug_calls.h"
#include "ops/collective/collective.h"
#include "ops/evaluate/interpreter.h"

namespace gspmd {
namespace {

// Somebody else's bytes as an array.
class Borrowed final : public ArrayStorage {
 public:
  explicit Borrowed(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> host_bytes() override { return bytes_; }
  bool on_host() const override { return true; }

 private:
  std::span<std::byte> bytes_;
};

Array borrow(const Shape& shape, const std::byte* data) {
  auto* bytes = const_cast<std::byte*>(data);
  return Array(Shape(shape.dtype, shape.dims),
               std::make_shared<Borrowed>(std::span(bytes, static_cast<size_t>(shape.bytes()))));
}

// The operands of a node from its flat leaf buffers.
std::vector<Value> operand_values(const Node& node, const std::byte* const* buffers) {
  std::vector<Value> values;
  size_t at = 0;
  for (const Node* operand : node.operands()) {
    std::vector<Array> arrays;
    for (const Shape& leaf : leaf_shapes(operand->shape))
      arrays.push_back(borrow(leaf, buffers[at++]));
    values.push_back(pack(operand->shape, arrays));
  }
  return values;
}

void write_result(const Value& value, std::byte* const* buffers) {
  size_t at = 0;
  for (const Array& leaf : leaves(value)) {
    const std::span<std::byte> bytes = leaf.bytes();
    if (!bytes.empty()) std::memmove(buffers[at], bytes.data(), bytes.size());
    ++at;
  }
}

}  // namespace

PreparedKernel reference_kernel(const Node& node) {
  if (node.op().evaluate == nullptr) {
    user_error("{}: \"{}\" cannot run here: the op has no kernel", opcode_name(node.opcode()),
               node.name());
  }
  PreparedKernel kernel;
  kernel.cost = 1e4;
  kernel.run = [&node](const KernelArgs& args) {
    Interpreter interpreter;
    const std::vector<Value> operands = operand_values(node, args.operands);
    write_result(node.op().evaluate({node, operands, interpreter.call()}), args.results);
  };
  return kernel;
}

PreparedKernel debug_kernel(const Node& node) {
  PreparedKernel kernel;
  kernel.cost = 1e4;
  kernel.run = [&node](const KernelArgs& args) {
    std::vector<Array> operands;
    for (const Value& value : operand_values(node, args.operands)) operands.push_back(value.array);
    run_debug_call(node, operands, args.device);
    args.results[0][0] = std::byte{1};
  };
  return kernel;
}

void reference_collective(const Node& node, const std::vector<int64_t>& devices,
                          int64_t num_devices, const std::vector<const std::byte* const*>& operands,
                          const std::vector<std::byte* const*>& results) {
  Interpreter interpreter;
  std::vector<std::vector<Value>> values;
  for (const std::byte* const* buffers : operands) values.push_back(operand_values(node, buffers));
  const std::vector<Value> made =
      evaluate_collective(node, devices, values, num_devices, interpreter.call());
  // What a start gives has the operands before the results.
  const bool is_pair =
      node.is(Opcode::all_gather_start) || node.is(Opcode::collective_permute_start);
  for (size_t i = 0; i < made.size(); ++i)
    if (results[i] != nullptr) write_result(is_pair ? made[i].elements[1] : made[i], results[i]);
}

}  // namespace gspmd
