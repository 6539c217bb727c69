// Ops with regions, calls, collectives and transfers as text.
#include <algorithm>
#include <charconv>

#include "gspmd/ops/builders.h"
#include "gspmd/ops/sdy_rules.h"
#include "ir/lexer.h"
#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"
#include "stablehlo/row.h"

namespace gspmd::stablehlo {
namespace {

std::string boolean(bool value) { return value ? "true" : "false"; }

// The op of a body that is one commutative op on its two arguments in order; empty: it is not.
std::string_view applied_op(const Node& node) {
  const Computation& body = *node.called[0];
  const Node& root = *body.root();
  const bool one = node.operands().size() == 2 && body.parameters().size() == 2 &&
                   root.operands().size() == 2 && root.operand(0) == body.parameters()[0] &&
                   root.operand(1) == body.parameters()[1] && body.nodes().size() == 3 &&
                   root.shape.dtype == node.operand(0)->shape.dtype &&
                   root.frontend_attributes.empty() && !root.sharding;
  if (!one) return "";
  switch (root.opcode()) {
    case Opcode::add:
    case Opcode::and_:
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::multiply:
    case Opcode::or_:
    case Opcode::xor_:
      return find_print_row(root.opcode())->name;
    default:
      return "";
  }
}

void write_reduce(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  const std::string_view applied = applied_op(node);
  const size_t inputs = node.operands().size() / 2;
  if (applied.empty()) {
    const std::string region = op.region(0);
    return op.generic(std::string(name), {{"dimensions", array_text(node.attrs.dimensions)}},
                      region);
  }
  std::string text(name);
  for (size_t i = 0; i < inputs; ++i) {
    const std::string input = op.operand(i), init = op.operand(i + inputs);
    text += fmt::format("({} init: {})", input, init);
  }
  op.custom(fmt::format("{} applies {} across dimensions = {}", text, applied,
                        list_text(node.attrs.dimensions)),
            op.function_type());
}

// Windows as arrays, those that say nothing left out.
Fields window_fields(const std::vector<WindowDim>& window) {
  Dims sizes, strides, base, dilations;
  std::string padding;
  bool pads = false;
  for (const WindowDim& w : window) {
    sizes.push_back(w.size);
    strides.push_back(w.stride);
    base.push_back(w.base_dilation);
    dilations.push_back(w.window_dilation);
    padding += fmt::format("{}[{}, {}]", padding.empty() ? "" : ", ", w.pad_low, w.pad_high);
    pads = pads || w.pad_low != 0 || w.pad_high != 0;
  }
  Fields fields = {{"window_dimensions", array_text(sizes)}};
  const auto put = [&](const char* name, const Dims& dims) {
    if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d != 1; }))
      fields.emplace_back(name, array_text(dims));
  };
  put("window_strides", strides);
  put("base_dilations", base);
  put("window_dilations", dilations);
  if (pads)
    fields.emplace_back("padding",
                        fmt::format("dense<[{}]> : tensor<{}x2xi64>", padding, window.size()));
  return fields;
}

void write_reduce_window(OpWriter& op, std::string_view name) {
  const std::string region = op.region(0);
  op.generic(std::string(name), window_fields(op.attrs().window), region);
}

void write_select_and_scatter(OpWriter& op, std::string_view name) {
  const std::string select = op.region(0);
  const std::string scatter = op.region(1);
  op.generic(std::string(name), window_fields(op.attrs().window), select + ", " + scatter);
}

void write_sort(OpWriter& op, std::string_view name) {
  const std::string region = op.region(0);
  op.generic(std::string(name),
             {{"dimension", fmt::format("{} : i64", op.attrs().dimensions[0])},
              {"is_stable", boolean(op.attrs().scalar->is_stable)}},
             region);
}

void write_map(OpWriter& op, std::string_view name) {
  Dims dims = op.attrs().dimensions;
  for (int64_t d = 0; dims.empty() && d < op.node().rank(); ++d) dims.push_back(d);
  const std::string region = op.region(0);
  op.generic(std::string(name), {{"dimensions", array_text(dims)}}, region);
}

void write_scatter(OpWriter& op, std::string_view name) {
  const ScatterDims& s = *op.attrs().scatter;
  std::string numbers;
  const auto put = [&](const char* key, const Dims& dims) {
    if (!dims.empty())
      numbers += fmt::format("{}{} = {}", numbers.empty() ? "" : ", ", key, list_text(dims));
  };
  put("update_window_dims", s.update_window_dims);
  put("inserted_window_dims", s.inserted_window_dims);
  put("input_batching_dims", s.input_batching_dims);
  put("scatter_indices_batching_dims", s.scatter_indices_batching_dims);
  put("scatter_dims_to_operand_dims", s.scatter_dims_to_operand_dims);
  if (s.index_vector_dim != 0)
    numbers +=
        fmt::format("{}index_vector_dim = {}", numbers.empty() ? "" : ", ", s.index_vector_dim);
  const std::string region = op.region(0);
  op.generic(std::string(name),
             {{"scatter_dimension_numbers", "#stablehlo.scatter<" + numbers + ">"},
              {"indices_are_sorted", boolean(op.attrs().indices_are_sorted)},
              {"unique_indices", boolean(op.attrs().unique_indices)}},
             region);
}

void write_scan(OpWriter& op, std::string_view name) {
  const ScalarAttributes& scalar = *op.attrs().scalar;
  const auto carries = static_cast<size_t>(scalar.num_carries);
  const size_t inputs = op.node().operands().size() - carries;
  std::string xs, inits;
  for (size_t i = 0; i < op.node().operands().size(); ++i) {
    std::string& list = i < inputs ? xs : inits;
    list += (list.empty() ? "" : ", ") + op.operand(i);
  }
  Fields own;
  if (scalar.is_associative) own.emplace_back("is_associative", boolean(*scalar.is_associative));
  if (scalar.is_reverse) own.emplace_back("is_reverse", "true");
  const std::string dictionary = op.dictionary(std::move(own));
  const std::string region = op.region(0);
  op.writer().line(op.node(), fmt::format("{}({}) inits ({}) dimension={}{} {} : {}", name, xs,
                                          inits, op.attrs().dimensions[0],
                                          dictionary.empty() ? "" : " attributes" + dictionary,
                                          region, op.function_type()));
}

void write_while(OpWriter& op, std::string_view name) {
  Writer& writer = op.writer();
  const Node& node = op.node();
  const Node* const state = node.operand(0);
  const bool is_tuple = state->shape.is_tuple;
  std::vector<Written> values = is_tuple ? writer.elements_of(state)
                                         : std::vector<Written>{{writer.name_of(state), {}, false}};
  const std::vector<Shape> shapes =
      is_tuple ? state->shape.elements : std::vector<Shape>{state->shape};
  const size_t captured = is_tuple ? std::min(captures_of(node), values.size()) : 0;
  const size_t count = values.size() - captured;
  Written inside{"", {}, true};
  std::string bindings, types;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i >= count) {
      inside.elements.push_back(values[i]);
      continue;
    }
    const std::string argument = writer.new_name("iterArg");
    bindings += fmt::format("{}{} = {}", i ? ", " : "", argument, values[i].name);
    types += (i ? ", " : "") + type_text(shapes[i]);
    inside.elements.push_back({argument, {}, false});
  }
  const Written parameter = is_tuple ? inside : inside.elements[0];
  // The results' number comes before those inside.
  const std::string number = count == 0 ? "" : writer.new_number();
  const std::string condition = writer.body(*node.called[0], {parameter}, "stablehlo.return");
  const std::string body = writer.body(*node.called[1], {parameter}, "stablehlo.return", captured);
  const std::string dictionary = op.dictionary();
  std::string text;
  if (count > 0) text = number + (count > 1 ? fmt::format(":{}", count) : std::string()) + " = ";
  text += fmt::format("{}({})", name, bindings);
  if (count > 0) text += " : " + types;
  if (!dictionary.empty()) text += " attributes" + dictionary;
  writer.raw_line(text + " cond " + condition + " do " + body);
  Written results{"", {}, true};
  for (size_t i = 0; i < count; ++i)
    results.elements.push_back({count == 1 ? number : fmt::format("{}#{}", number, i), {}, false});
  results.elements.insert(results.elements.end(),
                          inside.elements.begin() + static_cast<std::ptrdiff_t>(count),
                          inside.elements.end());
  writer.bind(&node, is_tuple ? results : results.elements[0]);
}

// Branches read the values around them.
void write_conditional(OpWriter& op, std::string_view) {
  Writer& writer = op.writer();
  const Node& node = op.node();
  const std::string selector = op.operand(0);
  const bool is_pred = node.operand(0)->shape.dtype == DType::pred;
  for (size_t i = 1; i < node.operands().size(); ++i) writer.written(node.operands()[i]);
  std::string regions;
  writer.reserve(node);
  for (size_t i = 0; i < node.called.size(); ++i)
    regions +=
        fmt::format("{}{}", i ? ", " : "", writer.branch(*node.called[i], node.operands()[i + 1]));
  writer.line(node, fmt::format("\"stablehlo.{}\"({}) ({}){} : ({}) -> {}", is_pred ? "if" : "case",
                                selector, regions, op.dictionary(),
                                type_text(node.operand(0)->shape), op.result_types()));
}

void write_barrier(OpWriter& op, std::string_view name) {
  const Node* const value = op.node().operand(0);
  if (!value->shape.is_tuple) {
    const std::string operand = op.operand(0);
    return op.writer().line(op.node(), fmt::format("{}{} {} : {}", name, op.dictionary(), operand,
                                                   type_text(value->shape)));
  }
  std::string names, types;
  const std::vector<Written> elements = op.writer().elements_of(value);
  for (size_t i = 0; i < elements.size(); ++i) {
    names += (i ? ", " : " ") + elements[i].name;
    types += (i ? ", " : " : ") + type_text(value->shape.elements[i]);
  }
  if (elements.empty()) names = "()";
  op.writer().line(op.node(), std::string(name) + op.dictionary() + names + types);
}

void write_call(OpWriter& op, std::string_view) {
  if (write_sdy_call(op)) return;
  const Node& node = op.node();
  const std::string operands = op.operands();
  const std::string callee = symbol_text(op.writer().symbol(*node.called[0]));
  if (std::optional<CompositeForm> composite = composite_form(node)) {
    composite->fields.emplace_back("decomposition", callee);
    return op.custom(fmt::format("stablehlo.composite {} {}", quote(composite->name), operands),
                     op.function_type(), std::move(composite->fields));
  }
  op.custom(fmt::format("func.call {}({})", callee, operands), op.function_type());
}

// --- Collectives

Fields collective_fields(const OpWriter& op, bool with_groups = true) {
  const gspmd::Attributes& attrs = op.attrs();
  Fields fields;
  if (attrs.channel_id)
    fields.emplace_back(
        "channel_handle",
        fmt::format("#stablehlo.channel_handle<handle = {}, type = 1>", *attrs.channel_id));
  if (attrs.use_global_device_ids) fields.emplace_back("use_global_device_ids", "");
  if (!with_groups) return fields;
  const ReplicaGroups& groups = attrs.replica_groups;
  if (groups.lists.empty() && groups.num_groups == 0) {
    fields.emplace_back("replica_groups", "dense<> : tensor<0x0xi64>");
    return fields;
  }
  const auto lists = materialize(groups, op.node().parent().module().num_partitions);
  size_t size = 0;
  for (const auto& list : lists) size = std::max(size, list.size());
  std::string text;
  for (const auto& list : lists) {
    std::vector<int64_t> padded = list;
    padded.resize(size, -1);
    text += (text.empty() ? "" : ", ") + list_text(padded);
  }
  fields.emplace_back("replica_groups",
                      fmt::format("dense<[{}]> : tensor<{}x{}xi64>", text, lists.size(), size));
  return fields;
}

void write_all_reduce(OpWriter& op, std::string_view name) {
  const std::string region = op.region(0);
  op.generic(std::string(name), collective_fields(op), region);
}

void write_all_gather(OpWriter& op, std::string_view name) {
  Fields fields = collective_fields(op);
  fields.emplace_back("all_gather_dim", fmt::format("{} : i64", op.attrs().dimensions[0]));
  op.generic(std::string(name), std::move(fields));
}

void write_reduce_scatter(OpWriter& op, std::string_view name) {
  Fields fields = collective_fields(op);
  fields.emplace_back("scatter_dimension", fmt::format("{} : i64", op.attrs().dimensions[0]));
  const std::string region = op.region(0);
  op.generic(std::string(name), std::move(fields), region);
}

void write_all_to_all(OpWriter& op, std::string_view name) {
  if (op.attrs().dimensions.empty()) return write_custom_call(op, "");  // of a tuple
  Fields fields = collective_fields(op);
  const int64_t dim = op.attrs().dimensions[0];
  const int64_t parts =
      group_size(op.attrs().replica_groups, op.node().parent().module().num_partitions);
  const std::optional<SdyAllToAll> exchange = sdy_all_to_all(op.node());
  fields.emplace_back("split_dimension",
                      fmt::format("{} : i64", exchange ? exchange->split_dim : dim));
  fields.emplace_back("concat_dimension", fmt::format("{} : i64", dim));
  fields.emplace_back("split_count", fmt::format("{} : i64", parts));
  if (!exchange) return op.generic(std::string(name), std::move(fields));
  const std::string operand = op.writer().name_of(exchange->operand);
  op.writer().line(op.node(), fmt::format("\"{}\"({}) <{{{}}}>{} : ({}) -> {}", name, operand,
                                          fields_text(std::move(fields)), op.dictionary(),
                                          type_text(exchange->operand->shape), op.result_types()));
}

std::pair<std::string, std::string> pairs_field(const OpWriter& op) {
  std::string text;
  const auto pairs = materialize(*op.attrs().permutation);
  for (const auto& [source, target] : pairs)
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", source, target);
  return {"source_target_pairs",
          pairs.empty() ? std::string("dense<> : tensor<0x2xi64>")
                        : fmt::format("dense<[{}]> : tensor<{}x2xi64>", text, pairs.size())};
}

void write_collective_permute(OpWriter& op, std::string_view name) {
  if (op.node().operands().size() != 1) return write_custom_call(op, "");
  Fields fields = collective_fields(op, false);
  fields.push_back(pairs_field(op));
  op.generic(std::string(name), std::move(fields));
}

void write_collective_broadcast(OpWriter& op, std::string_view name) {
  op.generic(std::string(name), collective_fields(op));
}

// The fields of a start's collective, or nothing where it has no form in the text.
std::optional<Fields> started_fields(const OpWriter& op) {
  const gspmd::Attributes& attrs = op.attrs();
  switch (op.node().opcode()) {
    case Opcode::all_gather_start: {
      Fields fields = collective_fields(op);
      fields.emplace_back("all_gather_dim", fmt::format("{} : i64", attrs.dimensions.at(0)));
      return fields;
    }
    case Opcode::collective_permute_start: {
      if (op.node().operands().size() != 1) return std::nullopt;
      Fields fields = collective_fields(op, false);
      fields.push_back(pairs_field(op));
      return fields;
    }
    default:
      return collective_fields(op);
  }
}

// What begins and ends apart, and is read by its end alone, is the collective that does both: the
// text has no other form of it. What is between them waits for neither.
void write_pair(OpWriter& op, std::string_view name) {
  const Node& start = op.node();
  const auto is_end = [&](const Node& node) {
    switch (node.opcode()) {
      case Opcode::all_reduce_done:
        return start.is(Opcode::all_reduce_start);
      case Opcode::all_gather_done:
        return start.is(Opcode::all_gather_start);
      case Opcode::collective_permute_done:
        return start.is(Opcode::collective_permute_start);
      default:
        return false;
    }
  };
  if (start.users().size() != 1 || !is_end(*start.users()[0])) return write_custom_call(op, "");
  const Node& done = *start.users()[0];
  Writer& writer = op.writer();
  OpWriter end(writer, done);
  std::optional<Fields> fields = started_fields(op);
  Fields said = writer.discardable(done);
  for (auto& field : writer.discardable(start)) {
    const auto same = std::find_if(said.begin(), said.end(),
                                   [&](const auto& other) { return other.first == field.first; });
    if (same == said.end())
      said.push_back(std::move(field));
    else if (same->second != field.second)
      fields.reset();  // what either says would be lost
  }
  if (!fields) return write_custom_call(op, "");
  const std::string operands = op.operands();
  writer.reserve(done);
  std::string text = fmt::format("\"{}\"({}) <{{{}}}>", name, operands, fields_text(*fields));
  if (!start.called.empty()) text += fmt::format(" ({})", writer.region(*start.called[0], {}));
  if (!said.empty()) text += fmt::format(" {{{}}}", fields_text(std::move(said)));
  writer.bind(&start, {});
  writer.line(done, fmt::format("{} : ({}) -> {}", text, op.operand_types(), end.result_types()));
}

// clang-format off
const PrintRow kPrintedRegionOpsRows[] = {
    {Opcode::reduce, "stablehlo.reduce", write_reduce},
    {Opcode::reduce_window, "stablehlo.reduce_window", write_reduce_window},
    {Opcode::select_and_scatter, "stablehlo.select_and_scatter", write_select_and_scatter},
    {Opcode::sort, "stablehlo.sort", write_sort},
    {Opcode::map, "stablehlo.map", write_map},
    {Opcode::scatter, "stablehlo.scatter", write_scatter},
    {Opcode::scan, "chlo.scan", write_scan},
    {Opcode::while_, "stablehlo.while", write_while},
    {Opcode::conditional, "stablehlo.case", write_conditional},
    {Opcode::optimization_barrier, "stablehlo.optimization_barrier", write_barrier},
    {Opcode::call, "func.call", write_call},
    {Opcode::fusion, "func.call", write_call},
    {Opcode::custom_call, "stablehlo.custom_call", write_custom_call},
    {Opcode::all_reduce, "stablehlo.all_reduce", write_all_reduce},
    {Opcode::all_gather, "stablehlo.all_gather", write_all_gather},
    {Opcode::reduce_scatter, "stablehlo.reduce_scatter", write_reduce_scatter},
    {Opcode::all_to_all, "stablehlo.all_to_all", write_all_to_all},
    {Opcode::collective_permute, "stablehlo.collective_permute", write_collective_permute},
    {Opcode::collective_broadcast, "stablehlo.collective_broadcast", write_collective_broadcast},
    {Opcode::all_reduce_start, "stablehlo.all_reduce", write_pair},
    {Opcode::all_gather_start, "stablehlo.all_gather", write_pair},
    {Opcode::collective_permute_start, "stablehlo.collective_permute", write_pair},
};
// clang-format on

}  // namespace

std::optional<CompositeForm> composite_form(const Node& node) {
  if (!node.is(Opcode::call) || !node.attrs.other.contains("is_composite")) return std::nullopt;
  const auto& frontend = node.frontend_attributes;
  const auto name = frontend.find("composite.name");
  if (name == frontend.end()) return std::nullopt;
  CompositeForm form{name->second, {}};
  if (const auto found = frontend.find("composite.attributes"); found != frontend.end()) {
    std::optional<std::string> attributes = whole_attribute_text(found->second);
    if (!attributes || !attributes->starts_with('{')) return std::nullopt;
    if (*attributes != "{}")
      form.fields.emplace_back("composite_attributes", std::move(*attributes));
  }
  if (const auto found = frontend.find("composite.version"); found != frontend.end()) {
    const std::string& text = found->second;
    int32_t version = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if (version != 0) form.fields.emplace_back("version", fmt::format("{} : i32", version));
  }
  return form;
}

std::span<const PrintRow> region_print_rows() { return kPrintedRegionOpsRows; }

const PrintRow* find_print_row(Opcode opcode) {
  static const std::vector<const PrintRow*> table = [] {
    std::vector<const PrintRow*> rows(static_cast<size_t>(opcode_count()), nullptr);
    for (const auto family : {plain_print_rows, region_print_rows, host_print_rows})
      for (const PrintRow& row : family()) rows[static_cast<size_t>(row.opcode)] = &row;
    return rows;
  }();
  return table[static_cast<size_t>(opcode)];
}

}  // namespace gspmd::stablehlo
