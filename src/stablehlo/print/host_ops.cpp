// Transfers to and from the host and between devices, and what runs beside other ops, as text.
#include <algorithm>

#include "gspmd/base/error.h"
#include "ir/lexer.h"
#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"

namespace gspmd::stablehlo {
namespace {

constexpr const char* kToken = "!stablehlo.token";

bool are_arrays(std::span<const Shape> shapes) {
  return std::none_of(shapes.begin(), shapes.end(),
                      [](const Shape& shape) { return shape.is_tuple; });
}

// Whether the text has a value's parts one by one and reads them back as this: one bare, several as
// a tuple.
bool is_plain(const Shape& data) {
  return !data.is_tuple || (data.elements.size() > 1 && are_arrays(data.elements));
}

std::string types_text(std::span<const Shape> shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += (text.empty() ? "" : ", ") + type_text(shape);
  return text;
}

std::string other(const Node& node, const char* name) {
  const auto found = node.attrs.other.find(name);
  return found == node.attrs.other.end() ? "" : found->second;
}

Fields config_fields(const Node& node, const char* name) {
  const std::string config = other(node, name);
  return {{name, config.empty() ? "\"\"" : quote(Lexer(config, name).quoted(name))}};
}

// The names of data that go out, "%0, %1", and their types.
std::pair<std::string, std::string> data_text(OpWriter& op) {
  const Node* const data = op.node().operand(0);
  if (!data->shape.is_tuple) return {op.operand(0), type_text(data->shape)};
  std::string names;
  for (const Written& element : op.writer().elements_of(data))
    names += (names.empty() ? "" : ", ") + element.name;
  return {names, types_text(data->shape.elements)};
}

// Names "%3#0", "%3#1", .. of the results of a line that begins with what is returned first.
std::pair<std::string, std::vector<Written>> results(OpWriter& op, size_t count) {
  const std::string name = op.writer().new_number();
  std::vector<Written> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back({count == 1 ? name : fmt::format("{}#{}", name, i), {}, false});
  return {count == 1 ? name : fmt::format("{}:{}", name, count), std::move(values)};
}

void write_infeed(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  const Shape& values = node.shape.elements.at(0);
  if (!values.is_tuple || !are_arrays(values.elements)) return write_custom_call(op, "");
  const std::string token = op.operand(0);
  auto [text, written] = results(op, values.elements.size() + 1);
  std::string types = types_text(values.elements);
  types += (types.empty() ? "" : ", ") + std::string(kToken);
  const bool is_one = values.elements.empty();
  op.writer().raw_line(fmt::format("{} = \"{}\"({}) <{{{}}}>{} : ({}) -> {}", text, name, token,
                                   fields_text(config_fields(node, "infeed_config")),
                                   op.dictionary(), std::string(kToken),
                                   is_one ? types : "(" + types + ")"));
  Written last = written.back();
  written.pop_back();
  op.writer().bind(&node, {"", {Written{"", std::move(written), true}, std::move(last)}, true});
}

void write_outfeed(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  if (!is_plain(node.operand(0)->shape)) return write_custom_call(op, "");
  const auto [data, types] = data_text(op);
  const std::string token = op.operand(1);
  op.writer().line_of_one(
      node, fmt::format("\"{}\"({}, {}) <{{{}}}>{} : ({}, {}) -> {}", name, data, token,
                        fields_text(config_fields(node, "outfeed_config")), op.dictionary(), types,
                        std::string(kToken), std::string(kToken)));
}

// The only op that waits for a transfer, where the two say the same; nullptr: there is none.
const Node* done_of(const Node& start, Opcode opcode) {
  if (start.users().size() != 1 || start.sharding) return nullptr;
  const Node* const done = start.users()[0];
  const bool same = done->is(opcode) && done->frontend_attributes == start.frontend_attributes &&
                    done->attrs.other == start.attrs.other &&
                    done->attrs.channel_id == start.attrs.channel_id;
  return same ? done : nullptr;
}

Fields transfer_fields(const Node& node, bool sends) {
  const bool is_host = other(node, "is_host_transfer") == "true";
  Fields fields = {
      {"channel_handle", fmt::format("#stablehlo.channel_handle<handle = {}, type = {}>",
                                     node.attrs.channel_id.value_or(0),
                                     !is_host ? 1
                                     : sends  ? 2
                                              : 3)},
      {"is_host_transfer", is_host ? "true" : "false"}};
  // "{{0,1},{1,2}}".
  std::string text, number;
  int64_t count = 0;
  for (const char c : other(node, "source_target_pairs")) {
    if (is_digit(c)) {
      number.push_back(c);
    } else if (!number.empty()) {
      text += fmt::format("{}{}{}{}", count > 0 ? ", " : "", count % 2 == 0 ? "[" : "", number,
                          count % 2 == 0 ? "" : "]");
      ++count;
      number.clear();
    }
  }
  if (count > 0)
    fields.emplace_back("source_target_pairs",
                        fmt::format("dense<[{}]> : tensor<{}x2xi64>", text, count / 2));
  return fields;
}

void write_send(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  const Node* const done = done_of(node, Opcode::send_done);
  if (done == nullptr || !is_plain(node.operand(0)->shape)) return write_custom_call(op, "");
  const auto [data, types] = data_text(op);
  const std::string token = op.operand(1);
  auto [text, written] = results(op, 1);
  op.writer().raw_line(fmt::format("{} = \"{}\"({}, {}) <{{{}}}>{} : ({}, {}) -> {}", text, name,
                                   data, token, fields_text(transfer_fields(node, true)),
                                   OpWriter(op.writer(), *done).dictionary(), types,
                                   std::string(kToken), std::string(kToken)));
  op.writer().bind(&node, {});
  op.writer().bind(done, std::move(written[0]));
}

void write_recv(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  const Node* const done = done_of(node, Opcode::recv_done);
  const Shape& data = node.shape.elements.at(0);
  if (done == nullptr || !is_plain(data)) return write_custom_call(op, "");
  const std::string token = op.operand(0);
  auto [text, written] = results(op, data.is_tuple ? data.elements.size() + 1 : 2);
  const std::string types = data.is_tuple ? types_text(data.elements) : type_text(data);
  op.writer().raw_line(fmt::format("{} = \"{}\"({}) <{{{}}}>{} : ({}) -> ({}, {})", text, name,
                                   token, fields_text(transfer_fields(node, false)),
                                   OpWriter(op.writer(), *done).dictionary(), std::string(kToken),
                                   types, std::string(kToken)));
  Written last = written.back();
  written.pop_back();
  Written values = data.is_tuple ? Written{"", std::move(written), true} : written[0];
  op.writer().bind(&node, {});
  op.writer().bind(done, {"", {std::move(values), std::move(last)}, true});
}

// Of what runs beside other ops: its results, later.
void write_async_start(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  const auto is_done = [](const Node* user) { return user->is(Opcode::async_done); };
  if (node.called.size() != 1 || !std::all_of(node.users().begin(), node.users().end(), is_done))
    return write_custom_call(op, "");
  const Shape& result = node.called[0]->root()->shape;
  const std::string operands = op.operands();
  const std::string region = op.region(0);
  op.writer().line_of_one(
      node, fmt::format("\"{}\"({}) ({}){} : ({}) -> !stablehlo.future<{}>", name, operands, region,
                        op.dictionary(), op.operand_types(),
                        result.is_tuple ? types_text(result.elements) : type_text(result)));
}

void write_async_done(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  const Node& start = *node.operand(0);
  if (!start.is(Opcode::async_start)) return write_custom_call(op, "");
  const std::string operand = op.operand(0);
  const Shape& result = start.called.at(0)->root()->shape;
  op.writer().line(
      node,
      fmt::format("\"{}\"({}){} : (!stablehlo.future<{}>) -> {}", name, operand, op.dictionary(),
                  result.is_tuple ? types_text(result.elements) : type_text(result),
                  op.result_types()));
}

constexpr PrintRow kPrintedHostOpsRows[] = {
    {Opcode::infeed, "stablehlo.infeed", write_infeed},
    {Opcode::outfeed, "stablehlo.outfeed", write_outfeed},
    {Opcode::send, "stablehlo.send", write_send},
    {Opcode::recv, "stablehlo.recv", write_recv},
    {Opcode::async_start, "stablehlo.async_start", write_async_start},
    {Opcode::async_done, "stablehlo.async_done", write_async_done},
};

}  // namespace

std::span<const PrintRow> host_print_rows() { return kPrintedHostOpsRows; }

}  // namespace gspmd::stablehlo
