// Tokens, transfers to and from the host, random numbers.
#include "ir/lexer.h"
#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// "stablehlo.create_token : T", "stablehlo.replica_id {..} : T": of no operand.
Node* lower_after_all(OpLowering& op) {
  return op.emit(Opcode::after_all, op.operands(), {}, Shape(DType::token, {}));
}

void add_config(const OpLowering& op, Attributes& attrs, const char* name) {
  const std::string config = op.string(name);
  if (!config.empty()) attrs.other[name] = gspmd::quote(config);
}

// What goes out together: one value bare, several as a tuple.
Node* data_of(OpLowering& op) {
  if (op.count() == 0 || op.operands().back()->shape.dtype != DType::token)
    op.fail("the last operand has to be a token");
  std::vector<Node*> data(op.operands().begin(), op.operands().end() - 1);
  return data.size() == 1 ? data[0] : op.implicit(hlo::tuple(op.computation(), std::move(data)));
}

// The declared results but the token.
std::vector<Shape> values_of(OpLowering& op) {
  if (op.result_count() == 0 || op.result(op.result_count() - 1).dtype != DType::token)
    op.fail("the last result has to be a token");
  std::vector<Shape> shapes;
  for (size_t i = 0; i + 1 < op.result_count(); ++i) {
    if (!op.is_static(i)) op.fail("result {} has an open size: export with static shapes", i);
    shapes.push_back(op.result(i));
  }
  return shapes;
}

Node* lower_infeed(OpLowering& op) {
  op.need_operands(1, 1);
  const std::vector<Shape> shapes = values_of(op);
  Attributes attrs;
  add_config(op, attrs, "infeed_config");
  Node* const infeed = op.emit(Opcode::infeed, op.operands(), std::move(attrs),
                               Shape::tuple({Shape::tuple(shapes), Shape(DType::token, {})}));
  Node* const values = hlo::get_tuple_element(infeed, 0);
  std::vector<Node*> results;
  for (size_t i = 0; i < shapes.size(); ++i)
    results.push_back(hlo::get_tuple_element(values, static_cast<int64_t>(i)));
  results.push_back(hlo::get_tuple_element(infeed, 1));
  op.set_results(std::move(results));
  return infeed;
}

Node* lower_outfeed(OpLowering& op) {
  Node* const data = data_of(op);
  Attributes attrs;
  add_config(op, attrs, "outfeed_config");
  return op.emit(Opcode::outfeed, {data, op.operands().back()}, std::move(attrs),
                 Shape(DType::token, {}));
}

Attributes transfer_attributes(OpLowering& op) {
  Attributes attrs;
  for (const NamedAttribute& field : op.fields(op.attribute("channel_handle")))
    if (field.name == "handle" && field.value.integer > 0) attrs.channel_id = field.value.integer;
  if (op.flag("is_host_transfer", false)) attrs.other["is_host_transfer"] = "true";
  if (op.find("source_target_pairs") != nullptr) {
    std::string pairs;
    for (const auto& [source, target] : op.pairs("source_target_pairs"))
      pairs += fmt::format("{}{{{},{}}}", pairs.empty() ? "" : ",", source, target);
    attrs.other["source_target_pairs"] = "{" + pairs + "}";
  }
  return attrs;
}

// XLA reads the frontend attributes of a transfer where it begins and where it ends.
void annotate_both(OpLowering& op, Node& start, Node& done) {
  annotate(op, done);
  start.frontend_attributes = done.frontend_attributes;
}

Node* lower_send(OpLowering& op) {
  Node* const data = data_of(op);
  const Attributes attrs = transfer_attributes(op);
  const Shape token(DType::token, {});
  Node* const send = op.emit(Opcode::send, {data, op.operands().back()}, attrs,
                             Shape::tuple({data->shape, Shape(DType::u32, {}), token}));
  Node* const done = op.emit(Opcode::send_done, {send}, attrs, token);
  annotate_both(op, *send, *done);
  return done;
}

Node* lower_recv(OpLowering& op) {
  op.need_operands(1, 1);
  const std::vector<Shape> shapes = values_of(op);
  const Shape token(DType::token, {});
  const Shape data = shapes.size() == 1 ? shapes[0] : Shape::tuple(shapes);
  const Attributes attrs = transfer_attributes(op);
  Node* const recv = op.emit(Opcode::recv, op.operands(), attrs,
                             Shape::tuple({data, Shape(DType::u32, {}), token}));
  Node* const done = op.emit(Opcode::recv_done, {recv}, attrs, Shape::tuple({data, token}));
  annotate_both(op, *recv, *done);
  Node* const values = hlo::get_tuple_element(done, 0);
  std::vector<Node*> results;
  if (shapes.size() == 1) results.push_back(values);
  for (size_t i = 0; i < shapes.size() && shapes.size() != 1; ++i)
    results.push_back(hlo::get_tuple_element(values, static_cast<int64_t>(i)));
  results.push_back(hlo::get_tuple_element(done, 1));
  op.set_results(std::move(results));
  return recv;
}

Node* lower_rng(OpLowering& op) {
  op.need_operands(3, 3);
  const Dims sizes = op.known_integers(2);
  const std::string distribution = op.word("rng_distribution");
  if (distribution != "UNIFORM" && distribution != "NORMAL")
    op.fail("rng_distribution {} is neither UNIFORM nor NORMAL", distribution);
  // The sizes are written with the op.
  if (op.operand(2)->is(Opcode::constant) && op.operand(2)->users().empty())
    op.implicit(op.operand(2));
  Attributes attrs;
  attrs.scalar.edit().distribution = distribution == "UNIFORM" ? "rng_uniform" : "rng_normal";
  return op.emit(Opcode::rng, {op.operand(0), op.operand(1)}, std::move(attrs),
                 Shape(op.result().dtype, sizes));
}

// "%state, algorithm = THREE_FRY".
Node* lower_rng_bit_generator(OpLowering& op) {
  op.need_operands(1, 1);
  constexpr std::pair<std::string_view, const char*> kAlgorithms[] = {
      {"DEFAULT", "rng_default"}, {"THREE_FRY", "rng_three_fry"}, {"PHILOX", "rng_philox"}};
  const std::string algorithm = op.word("rng_algorithm");
  Attributes attrs;
  for (const auto& [text, name] : kAlgorithms)
    if (text == algorithm) attrs.scalar.edit().algorithm = name;
  if (attrs.scalar->algorithm.empty())
    op.fail("rng_algorithm {} is none of DEFAULT, THREE_FRY, PHILOX", algorithm);
  if (!op.is_static(1)) op.fail("the result has an open size: export with static shapes");
  return op.emit(Opcode::rng_bit_generator, op.operands(), std::move(attrs),
                 Shape::tuple({op.result(0), op.result(1)}));
}

constexpr KeyName kDistribution[] = {{"distribution", "rng_distribution"}};
constexpr KeyName kAlgorithm[] = {{"algorithm", "rng_algorithm"}};
constexpr std::string_view kLayout[] = {"layout"};

// clang-format off
const OpRow kHostRows[] = {
    {"stablehlo.after_all", lower_after_all, Opcode::after_all},
    {"stablehlo.create_token", lower_after_all, Opcode::after_all},
    {"stablehlo.infeed", lower_infeed, Opcode::infeed, nullptr, {}, kLayout},
    {"stablehlo.outfeed", lower_outfeed, Opcode::outfeed},
    {"stablehlo.send", lower_send, Opcode::send},
    {"stablehlo.recv", lower_recv, Opcode::recv},
    {"stablehlo.rng", lower_rng, Opcode::rng, nullptr, kDistribution},
    {"stablehlo.rng_bit_generator", lower_rng_bit_generator, Opcode::rng_bit_generator, nullptr, kAlgorithm},
};
// clang-format on

}  // namespace

std::span<const OpRow> host_rows() { return kHostRows; }

}  // namespace gspmd::stablehlo
