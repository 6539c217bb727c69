// Loops, branches, barriers.
#include <algorithm>

#include "stablehlo/lowering.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// "(%iterArg = %a, ..) : T, T attributes {..} cond {..} do {..}".
void read_while(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  List<Argument> arguments;
  cursor.expect("(", "before the values of a loop");
  while (!cursor.accept(")")) {
    if (!arguments.empty()) cursor.expect(",", "between the values of a loop");
    Argument& argument = arguments.emplace_back();
    argument.position = cursor.position();
    cursor.expect("%", "before the name of a loop's value");
    argument.name = cursor.suffix_id("the name of a loop's value");
    cursor.expect("=", "behind the name of a loop's value");
    op.operands.push_back(reader.read_use());
  }
  if (cursor.accept(":")) reader.read_type_list(op.operand_types);
  if (op.operand_types.size() != arguments.size())
    cursor.fail(op.position, "{}: {} types for {} values", op.name, op.operand_types.size(),
                arguments.size());
  op.result_types = op.operand_types;
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i].type = op.operand_types[i];
  if (cursor.accept_word("attributes")) reader.read_dictionary(op);
  for (const char* word : {"cond", "do"}) {
    cursor.expect_word(word, "before a region of a loop");
    Region& region = op.regions.emplace_back();
    reader.read_region(region);
    region.arguments = arguments;
  }
}

// "{..} %a, %b : T, T"; "()" without operands.
void read_list(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  if (cursor.accept("(")) {
    cursor.expect(")", "behind no operands");
    reader.read_dictionary(op);
    return;
  }
  reader.read_dictionary(op);
  reader.read_uses(op.operands);
  reader.read_dictionary(op);
  if (cursor.accept(":")) reader.read_type_list(op.operand_types);
}

void read_barrier(OpReader& reader, Op& op) {
  read_list(reader, op);
  op.result_types = op.operand_types;
}

// --- HLO

// One value stands bare, none or several are a tuple.
Node* packed(OpLowering& op, const std::vector<Node*>& values) {
  return values.size() == 1 ? values[0]
                            : OpLowering::implicit(hlo::tuple(op.computation(), values));
}

// The values of a loop and those that its regions read of the values around it, as its state.
class Loop {
 public:
  explicit Loop(OpLowering& op) : op_(op), lowering_(op.lowering()) {
    if (op.op().regions.size() != 2)
      op.fail("{} regions; condition and body are needed", op.op().regions.size());
    const Region* const regions[] = {&op.region(0), &op.region(1)};
    captured_ = lowering_.captured(regions);
    state_ = op.operands();
    for (const Use& use : captured_) state_.push_back(lowering_.frame().value(use));
  }

  Node* lower() {
    Node* const init = packed(op_, state_);
    Computation* const condition = region(op_.region(0), "cond", false);
    Computation* const body = region(op_.region(1), "body", true);
    Node* const loop = op_.emit(Opcode::while_, {init}, {}, {}, {condition, body});
    const size_t count = op_.count();
    if (!captured_.empty()) loop->frontend_attributes[kCaptures] = std::to_string(captured_.size());
    if (state_.size() == 1 && count == 1) {
      op_.set_results({loop});
      return loop;
    }
    if (captured_.empty()) return loop;
    std::vector<Node*> results;  // without what is carried for the regions
    for (size_t i = 0; i < count; ++i)
      results.push_back(state_.size() == 1 ? loop
                                           : hlo::get_tuple_element(loop, static_cast<int64_t>(i)));
    op_.set_results(std::move(results));
    return loop;
  }

 private:
  Computation* region(const Region& region, const char* name, bool is_body) {
    if (region.arguments.size() != op_.count())
      op_.fail("a region has {} arguments, the loop {} values", region.arguments.size(),
               op_.count());
    const Region* const one[] = {&region};
    std::vector<Use> own = lowering_.captured(one);
    ModuleLowering::RegionForm form;
    form.bind = [&](Frame& frame) { bind(region, frame, is_body ? captured_ : own); };
    if (is_body) {
      form.extra = [&](Frame& frame) {
        std::vector<Node*> values;
        for (const Use& use : captured_) values.push_back(frame.value(use));
        return values;
      };
      form.tuple = state_.size() != 1;
    }
    return lowering_.lower_region(region, name, form);
  }

  void bind(const Region& region, Frame& frame, const std::vector<Use>& captured) {
    std::vector<Shape> shapes;
    for (const Node* node : state_) shapes.push_back(node->shape);
    const bool is_bare = shapes.size() == 1;
    Node* const state =
        hlo::parameter(frame.computation(), 0, is_bare ? shapes[0] : Shape::tuple(shapes), "state");
    const auto count = static_cast<int64_t>(op_.count());
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view name = region.arguments[static_cast<size_t>(i)].name;
      if (is_bare)
        frame.bind(name, state);
      else
        frame.bind_tuple(name, state, i, 1);
    }
    for (const Use& use : captured) {
      const auto place = std::find_if(captured_.begin(), captured_.end(), [&](const Use& other) {
        return other.name == use.name && other.index == use.index;
      });
      const int64_t at = count + (place - captured_.begin());
      Node* const inner = is_bare ? state : hlo::get_tuple_element(state, at);
      frame.bind_one(use, inner);
      lowering_.is_same(inner, state_[static_cast<size_t>(at)]);
    }
  }

  OpLowering& op_;
  ModuleLowering& lowering_;
  std::vector<Use> captured_;
  std::vector<Node*> state_;
};

Node* lower_while(OpLowering& op) { return Loop(op).lower(); }

// Each branch takes what it reads of the values around it.
Node* lower_branches(OpLowering& op) {
  op.need_operands(1, 1);
  ModuleLowering& lowering = op.lowering();
  std::vector<Node*> operands = {op.operand(0)};
  std::vector<Computation*> branches;
  for (const Region& region : op.op().regions) {
    const Region* const one[] = {&region};
    const std::vector<Use> captured = lowering.captured(one);
    if (!region.arguments.empty()) op.fail("a branch has arguments; it reads the values around it");
    std::vector<Node*> values;
    for (const Use& use : captured) values.push_back(lowering.frame().value(use));
    Node* const operand = packed(op, values);
    operands.push_back(operand);
    branches.push_back(lowering.lower_region(
        region, fmt::format("branch_{}", branches.size()), {.bind = [&](Frame& frame) {
          Node* const parameter = hlo::parameter(frame.computation(), 0, operand->shape, "operand");
          for (size_t i = 0; i < captured.size(); ++i) {
            Node* const inner = captured.size() == 1
                                    ? parameter
                                    : hlo::get_tuple_element(parameter, static_cast<int64_t>(i));
            frame.bind_one(captured[i], inner);
            lowering.is_same(inner, values[i]);
          }
        }}));
  }
  return op.emit(Opcode::conditional, std::move(operands), {}, {}, std::move(branches));
}

Node* lower_if(OpLowering& op) {
  if (op.op().regions.size() != 2)
    op.fail("{} regions; two branches are needed", op.op().regions.size());
  if (!(op.operand(0)->shape == Shape(DType::pred, {})))
    op.fail("the condition is {}; it has to be tensor<i1>", type_text(op.operand(0)->shape));
  return lower_branches(op);
}

Node* lower_case(OpLowering& op) {
  if (op.op().regions.empty()) op.fail("it has no branch");
  if (!(op.operand(0)->shape == Shape(DType::s32, {})))
    op.fail("the index is {}; it has to be tensor<i32>", type_text(op.operand(0)->shape));
  return lower_branches(op);
}

Node* lower_barrier(OpLowering& op) {
  Node* const node = op.emit(Opcode::optimization_barrier, {packed(op, op.operands())});
  if (op.count() == 1) op.set_results({node});
  return node;
}

// clang-format off
const OpRow kControlRows[] = {
    {"stablehlo.while", lower_while, Opcode::while_, read_while},
    {"stablehlo.if", lower_if, Opcode::conditional},
    {"stablehlo.case", lower_case, Opcode::conditional},
    {"stablehlo.optimization_barrier", lower_barrier, Opcode::optimization_barrier, read_barrier},
    {"stablehlo.return", nullptr, Opcode::tuple, read_list},
    {"mhlo.return", nullptr, Opcode::tuple, read_list},
    {"func.return", nullptr, Opcode::tuple, read_list},
    {"sdy.return", nullptr, Opcode::tuple, read_list},
    {"chlo.return", nullptr, Opcode::tuple, read_list},
};
// clang-format on

}  // namespace

std::span<const OpRow> control_rows() { return kControlRows; }

}  // namespace gspmd::stablehlo
