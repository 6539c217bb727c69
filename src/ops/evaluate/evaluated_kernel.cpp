#include "ops/evaluate/evaluated_kernel.h"

#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
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

}  // namespace

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

PreparedKernel evaluated_kernel(const Node& node) {
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

}  // namespace gspmd
