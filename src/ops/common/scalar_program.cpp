#include "ops/common/scalar_program.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

// Nested calls are written out; a computation that grows beyond this runs through `call`.
constexpr size_t kMostSteps = 10000;
constexpr size_t kMostVisits = 10 * kMostSteps;  // nodes looked at, also those that make no step

// Bytes of the lanes of a value, which lie in its slots one behind the other.
std::byte* bytes_behind(ScalarSlot& first, size_t offset) {
  return reinterpret_cast<std::byte*>(&first) + offset;
}

void run_table_step(const ScalarProgram::Step& step, const ScalarProgram::Frame& frame) {
  const ScalarProgram::TableStep& table = frame.table[step.a];
  for (size_t lane = 0; lane < frame.lanes; ++lane) {
    std::vector<Value> operands;
    for (size_t i = 0; i < table.operands.size(); ++i) {
      const Array array(table.node->operands()[i]->shape);
      const size_t size = array.bytes().size();
      std::memcpy(array.bytes().data(), bytes_behind(frame.slots[table.operands[i]], lane * size),
                  size);
      operands.push_back({array, {}, false});
    }
    const Value value = at_node(*table.node, [&] {
      return table.node->op().evaluate({*table.node, operands, *frame.call});
    });
    const std::span<const std::byte> bytes = value.array.bytes();
    std::memcpy(bytes_behind(frame.slots[step.out], lane * bytes.size()), bytes.data(),
                bytes.size());
  }
}

bool is_scalar(const Shape& shape) {
  const int64_t size = dtype_size(shape.dtype);
  return !shape.is_tuple && shape.rank() == 0 && size > 0 && size <= 16;
}

bool is_same_value(const Node& node) {
  switch (node.opcode()) {
    case Opcode::copy:
    case Opcode::reshape:
    case Opcode::broadcast:
    case Opcode::bitcast:
    case Opcode::bitcast_convert:
    case Opcode::optimization_barrier:
    case Opcode::transpose:
      return true;
    case Opcode::convert:
      return node.shape.dtype == node.operand(0)->shape.dtype;
    default:
      return false;
  }
}

}  // namespace

// Gives each live node its slots: one, or those of a tuple's leaves.
class ScalarProgram::Compiler {
 public:
  using Slots = std::vector<size_t>;
  explicit Compiler(ScalarProgram& program) : program_(program) {}

  // Slots of `root`; empty where something in the computation is no scalar.
  Slots compile(const Computation& computation, const Node& root,
                const std::vector<Slots>& arguments) {
    std::unordered_map<const Node*, Slots> values;
    const Node* const wanted = &root;
    const FlatSet<const Node*> live = needed_by({&wanted, 1});
    for (const std::unique_ptr<Node>& node : computation.nodes()) {
      if (!live.contains(node.get())) continue;
      if (++visits_ > kMostVisits) return {};
      std::vector<Slots> operands;
      for (const Node* operand : node->operands()) operands.push_back(values.at(operand));
      Slots slots = value_of(*node, operands, arguments);
      if (slots.empty()) return {};
      if (node.get() == &root) return slots;
      values.emplace(node.get(), std::move(slots));
    }
    return {};
  }

 private:
  size_t fresh_slot() {
    program_.slots_.resize(program_.slots_.size() + program_.lanes_);
    return program_.slots_.size() - program_.lanes_;
  }

  Slots value_of(const Node& node, const std::vector<Slots>& operands,
                 const std::vector<Slots>& arguments) {
    switch (node.opcode()) {
      case Opcode::parameter:
        return arguments.at(static_cast<size_t>(node.attrs.index));
      case Opcode::tuple: {
        Slots all;
        for (const Slots& slots : operands) all.insert(all.end(), slots.begin(), slots.end());
        return all;
      }
      case Opcode::get_tuple_element: {
        const std::vector<Shape>& elements = node.operand(0)->shape.elements;
        const auto index = static_cast<size_t>(node.attrs.index);
        int64_t first = 0;
        for (size_t i = 0; i < index; ++i) first += leaf_count(elements.at(i));
        const auto begin = operands[0].begin() + first;
        return Slots(begin, begin + leaf_count(elements.at(index)));
      }
      case Opcode::call:
      case Opcode::fusion:
        return compile(*node.called.at(0), *node.called.at(0)->root(), operands);
      default:
        return computed(node, operands);
    }
  }

  Slots computed(const Node& node, const std::vector<Slots>& operands) {
    if (!is_scalar(node.shape) || program_.steps_.size() >= kMostSteps) return {};
    for (const Node* operand : node.operands())
      if (!is_scalar(operand->shape)) return {};
    if (operands.size() == 1 && is_same_value(node)) return operands[0];
    const size_t out = fresh_slot();
    if (node.is(Opcode::constant)) {
      const std::span<const std::byte> bytes = node.attrs.literal.bytes();
      const size_t size = std::min<size_t>(bytes.size(), 16);
      for (size_t lane = 0; lane < program_.lanes_; ++lane)
        std::memcpy(bytes_behind(program_.slots_[out], lane * size), bytes.data(), size);
      return {out};
    }
    const auto slot = [&](size_t i) { return i < operands.size() ? operands[i][0] : 0; };
    if (const Function function = scalar_function(node)) {
      program_.steps_.push_back(
          {function, out, slot(0), slot(1), slot(2), real_function(node.opcode())});
      return {out};
    }
    if (node.op().evaluate == nullptr) return {};
    TableStep table{&node, {}};
    for (const Slots& slots : operands) table.operands.push_back(slots[0]);
    program_.table_.push_back(std::move(table));
    program_.steps_.push_back({run_table_step, out, program_.table_.size() - 1});
    return {out};
  }

  ScalarProgram& program_;
  size_t visits_ = 0;
};

ScalarProgram::ScalarProgram(const Computation& computation, const CallComputation& call,
                             size_t lanes)
    : ScalarProgram(computation, *computation.root(), call, lanes) {}

ScalarProgram::ScalarProgram(const Computation& computation, const Node& root,
                             const CallComputation& call, size_t lanes)
    : lanes_(lanes), call_(&call) {
  for (const Shape& leaf : leaf_shapes(root.shape))
    result_sizes_.push_back(static_cast<size_t>(dtype_size(leaf.dtype)));
  compile(computation, root);
  if (!result_slots_.empty() || result_sizes_.empty()) return;
  if (&root != computation.root())
    internal_error("scalar program: {} of {} is not made of scalars", root.name(),
                   computation.name());
  callee_ = &computation;
  for (size_t i = 0; i < result_sizes_.size(); ++i) {
    slots_.resize(slots_.size() + lanes_);
    result_slots_.push_back(slots_.size() - lanes_);
  }
}

void ScalarProgram::compile(const Computation& computation, const Node& root) {
  std::vector<Compiler::Slots> arguments;
  for (const Node* parameter : computation.parameters()) {
    sizes_.push_back(static_cast<size_t>(dtype_size(parameter->shape.dtype)));
    arguments.push_back({slots_.size()});
    slots_.resize(slots_.size() + lanes_);
  }
  result_slots_ = Compiler(*this).compile(computation, root, arguments);
  if (result_slots_.size() != result_sizes_.size()) result_slots_.clear();
}

void ScalarProgram::set_lanes(size_t i, const std::byte* first, int64_t step, size_t count) {
  std::byte* to = slots_[i * lanes_].bytes;
  const size_t size = sizes_[i];
  if (step == static_cast<int64_t>(size)) {
    std::memcpy(to, first, count * size);
    return;
  }
  for (size_t lane = 0; lane < count; ++lane, to += size, first += step) copy(to, first, size);
}

void ScalarProgram::run(size_t count) {
  if (callee_ == nullptr) {
    const Frame frame{slots_.data(), table_.data(), call_, count};
    for (const Step& step : steps_) step.run(step, frame);
    return;
  }
  for (size_t lane = 0; lane < count; ++lane) {
    std::vector<Value> arguments;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const Array array(callee_->parameters()[i]->shape);
      std::memcpy(array.bytes().data(), bytes_behind(slots_[i * lanes_], lane * sizes_[i]),
                  sizes_[i]);
      arguments.push_back({array, {}, false});
    }
    const std::vector<Array> values = leaves((*call_)(*callee_, arguments));
    for (size_t i = 0; i < values.size(); ++i)
      std::memcpy(bytes_behind(slots_[result_slots_[i]], lane * result_sizes_[i]),
                  values[i].bytes().data(), result_sizes_[i]);
  }
}

}  // namespace gspmd
