// Values that are known while a module is read: what follows from constants and sizes.
#include <algorithm>
#include <limits>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {
namespace {

constexpr int64_t kMostElements = 65536;  // of each value on the way
constexpr double kMostWork = 1 << 24;     // elements that one call computes
constexpr double kTimesPerElement = 16;   // that a reduction or a sort calls its computation
constexpr double kNever = std::numeric_limits<double>::infinity();

double elements_of(const Shape& shape) {
  if (!shape.is_tuple) return static_cast<double>(shape.elements_count());
  double sum = 0;
  for (const Shape& element : shape.elements) sum += elements_of(element);
  return sum;
}

bool is_opaque(const Node& node) {
  const OpInfo& op = node.op();
  return op.evaluate == nullptr || op.has(kSideEffect) || op.has(kCollective);
}

// Ops whose value is another one each time or on each device, that may not end, or take long.
bool is_left_out(const Node& node) {
  switch (node.opcode()) {
    case Opcode::parameter:
    case Opcode::custom_call:
    case Opcode::rng:
    case Opcode::partition_id:
    case Opcode::replica_id:
    case Opcode::while_:
    case Opcode::dot:
    case Opcode::convolution:
    case Opcode::reduce_window:
    case Opcode::select_and_scatter:
      return true;
    default:
      return is_opaque(node);
  }
}

}  // namespace

// Elements that running the node computes; kNever: it is not run while the module is read.
double ModuleLowering::work_of(const Node& node) {
  const double elements = elements_of(node.shape);
  if (is_left_out(node) || elements > static_cast<double>(kMostElements)) return kNever;
  double most = 1;
  for (const Node* operand : node.operands()) most = std::max(most, elements_of(operand->shape));
  const bool once = node.is(Opcode::call) || node.is(Opcode::conditional);
  double work = 1 + elements;
  for (const Computation* body : node.called)
    work += (once ? 1 : kTimesPerElement * most) * work_of(*body);
  return work;
}

double ModuleLowering::work_of(const Computation& body) {
  if (const auto found = work_.find(&body); found != work_.end()) return found->second;
  double work = 1;
  for (const auto& node : body.nodes())
    if (!node->is(Opcode::parameter)) work += work_of(*node);
  return work_[&body] = work;
}

// The node whose value this one has, whatever its operands are: of a region's parameter what the
// region reads, of an element of a tuple that element, of a call what the function returns.
Node* ModuleLowering::source_of(const Node& node) const {
  if (const auto found = same_.find(&node); found != same_.end()) return found->second;
  if (node.is(Opcode::call)) return node.called[0]->root();
  if (!node.is(Opcode::get_tuple_element)) return nullptr;
  const Node* tuple = node.operand(0);
  if (tuple->is(Opcode::optimization_barrier)) tuple = tuple->operand(0);
  if (tuple->is(Opcode::call)) tuple = tuple->called[0]->root();
  return tuple->is(Opcode::tuple) ? tuple->operand(node.attrs.index) : nullptr;
}

// The node that is run for the value of this one: a call is, for its elements.
const Node& ModuleLowering::runs_for(const Node& node) {
  return node.is(Opcode::get_tuple_element) && node.operand(0)->is(Opcode::call) ? *node.operand(0)
                                                                                 : node;
}

std::optional<Array> ModuleLowering::computed_value(const Node& node) {
  const Node& run = runs_for(node);
  if (work_of(run) > kMostWork) return std::nullopt;
  std::vector<Value> values;
  for (const Node* operand : run.operands()) {
    const auto found = known_.find(operand);
    if (found == known_.end() || !found->second) return std::nullopt;
    values.push_back({*found->second, {}, false});
  }
  const CallComputation call = [](const Computation& body, std::span<const Value> arguments) {
    return evaluate(body, arguments);
  };
  try {
    const Value value = run.op().evaluate({run, values, call});
    if (&run != &node) return value.elements.at(static_cast<size_t>(node.attrs.index)).array;
    if (value.is_tuple) return std::nullopt;
    return value.array;
  } catch (const Error&) {  // what has no value is not known
    return std::nullopt;
  }
}

std::optional<Array> ModuleLowering::known_value(const Node* node) {
  std::vector<const Node*> stack = {node};
  while (!stack.empty()) {
    const Node* const at = stack.back();
    if (known_.contains(at)) {
      stack.pop_back();
      continue;
    }
    const Node* const source = source_of(*at);
    std::vector<const Node*> reads;
    if (source != nullptr) reads.push_back(source);
    const Node& run = runs_for(*at);
    if (work_of(run) <= kMostWork)
      reads.insert(reads.end(), run.operands().begin(), run.operands().end());
    const size_t size = stack.size();
    for (const Node* read : reads)
      if (!known_.contains(read)) stack.push_back(read);
    if (stack.size() > size) continue;
    stack.pop_back();
    std::optional<Array> value;
    if (source != nullptr) value = known_[source];
    if (!value) value = computed_value(*at);
    known_[at] = std::move(value);
  }
  return known_[node];
}

}  // namespace gspmd::stablehlo
