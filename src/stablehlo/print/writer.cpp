#include "stablehlo/print/writer.h"

#include <algorithm>
#include <charconv>

#include "gspmd/ir/op.h"
#include "gspmd/mesh/sdy.h"
#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/text/dense.h"

namespace gspmd::stablehlo {
namespace {

constexpr char kMark = '\1';          // around the number of a large literal
constexpr size_t kFunctionDepth = 2;  // of the lines of a function
constexpr int64_t kMostLines = 50'000'000;

bool is_called_as_region(const Node& node) {
  return !node.is(Opcode::call) && !node.is(Opcode::fusion) && !node.is(Opcode::custom_call);
}

// Whether the text it was read from left the number of partitions to its meshes, which have it.
bool counts_meshes(const Module& module) {
  const auto& attributes = module.frontend_attributes;
  const auto text = attributes.find(kSdyMeshes);
  if (text == attributes.end() || !attributes.contains(kUncounted)) return false;
  const SdyMeshes meshes = parse_sdy_meshes(text->second);
  int64_t devices = 1;
  for (int64_t i = 0; i < meshes.size(); ++i) devices = std::max(devices, meshes[i].num_devices());
  return devices == module.num_partitions;
}

bool is_implicit(const Node& node) { return node.frontend_attributes.contains(kImplicit); }

std::string location_text(const Metadata& metadata) {
  std::string place = "unknown";
  if (!metadata.source_file.empty()) {
    const auto column = metadata.other.find("source_column");
    place = fmt::format("{}:{}:{}", quote(*metadata.source_file), metadata.source_line,
                        column == metadata.other.end() ? "0" : column->second);
  }
  if (!metadata.op_name.empty()) {
    place = place == "unknown" ? quote(*metadata.op_name)
                               : fmt::format("{}({})", quote(*metadata.op_name), place);
    if (!metadata.op_type.empty())
      place = fmt::format("{}({})", quote(*metadata.op_type + ":"), place);
  }
  return fmt::format(" loc({})", place);
}

}  // namespace

std::string Writer::new_number() { return "%" + std::to_string(numbers_++); }

std::string Writer::new_name(const std::string& base) {
  if (names_.add(base).is_new) return "%" + base;
  std::string name;
  do name = fmt::format("{}_{}", base, suffixes_++);
  while (!names_.add(name).is_new);
  return "%" + name;
}

const Written& Writer::written(const Node* node) {
  const Written* found = values_.find(node);
  if (found == nullptr) {  // what stands beside an op is written where it is read
    write_node(*node);
    found = values_.find(node);
  }
  if (found == nullptr) internal_error("\"{}\" is written without a name", node->name());
  return *found;
}

std::string Writer::name_of(const Node* node) {
  const Written& value = written(node);
  return value.is_pack ? name_of(Written(value), node->shape) : value.name;
}

std::string Writer::name_of(const Written& value, const Shape& shape) {
  if (!value.is_pack) return value.name;
  std::string operands, types;
  for (size_t i = 0; i < value.elements.size(); ++i) {
    operands += (i ? ", " : "") + name_of(value.elements[i], shape.elements[i]);
    types += (i ? ", " : "") + type_text(shape.elements[i]);
  }
  const std::string made = new_number();
  raw_line(fmt::format("{} = \"stablehlo.tuple\"({}) : ({}) -> {}", made, operands, types,
                       type_text(shape)));
  return made;
}

std::vector<Written> Writer::elements_of(const Node* node) {
  const Written value = written(node);
  std::vector<Written> elements;
  for (size_t i = 0; value.is_pack && i < value.elements.size(); ++i)
    elements.push_back(value.elements[i].is_pack
                           ? Written{name_of(value.elements[i], node->shape.elements[i]), {}, false}
                           : value.elements[i]);
  if (value.is_pack) return elements;
  for (size_t i = 0; i < node->shape.elements.size(); ++i) {
    const std::string made = new_number();
    raw_line(fmt::format("{} = stablehlo.get_tuple_element {}[{}] : ({}) -> {}", made, value.name,
                         i, type_text(node->shape), type_text(node->shape.elements[i])));
    elements.push_back({made, {}, false});
  }
  return elements;
}

void Writer::raw_line(const std::string& text) {
  if (++lines_ > kMostLines)
    user_error(
        "module \"{}\": its text has more than {} lines, for computations are written where they "
        "are used; print it as HLO",
        module_.name, kMostLines);
  out_ += indent() + text + "\n";
}

void Writer::reserve(const Node& node) {
  if (!node.shape.is_tuple || !node.shape.elements.empty()) reserved_[&node] = new_number();
}

std::string Writer::number_of(const Node& node) {
  if (reserved_.empty()) return new_number();
  const auto reserved = reserved_.extract(&node);
  return reserved.empty() ? new_number() : reserved.mapped();
}

void Writer::line_of_one(const Node& node, const std::string& op) {
  const std::string name = number_of(node);
  bind(&node, {name, {}, false});
  raw_line(name + " = " + op + (options_.locations ? location_text(node.metadata) : ""));
}

void Writer::line(const Node& node, const std::string& op) {
  const std::string place = options_.locations ? location_text(node.metadata) : "";
  if (!node.shape.is_tuple) {
    const bool is_constant = node.is(Opcode::constant);
    const bool is_integer_constant =
        is_constant && (is_integer(node.shape.dtype) || node.shape.dtype == DType::pred);
    const std::string name =
        is_constant ? new_name(is_integer_constant ? "c" : "cst") : number_of(node);
    const bool is_copied = is_constant || node.is(Opcode::iota);
    bind(&node, {name, {}, false, is_copied ? &node : nullptr});
    return raw_line(name + " = " + op + place);
  }
  const size_t count = node.shape.elements.size();
  Written results{"", {}, true};
  if (count == 0) {
    bind(&node, std::move(results));
    return raw_line(op + place);
  }
  const std::string name = number_of(node);
  for (size_t i = 0; i < count; ++i)
    results.elements.push_back({count == 1 ? name : fmt::format("{}#{}", name, i), {}, false});
  bind(&node, std::move(results));
  raw_line(fmt::format("{}{} = {}{}", name, count == 1 ? std::string() : fmt::format(":{}", count),
                       op, place));
}

Fields Writer::discardable(const Node& node, std::span<const std::string_view> said) const {
  Fields fields, frontend;
  const bool is_composite = composite_form(node).has_value();
  for (const auto& [name, value] : node.frontend_attributes) {
    if (name == kImplicit || name == kCaptures || name == kRemoved) continue;
    if (std::find(said.begin(), said.end(), name) != said.end()) continue;
    if (is_composite && name.starts_with("composite.")) continue;
    add_attribute(name_in_text(node, name, value), name, value, fields, frontend);
  }
  if (node.backward) frontend.emplace_back("gspmd.phase", "\"backward\"");
  for (const auto& [name, value] : node.attrs.other) {
    // What the rows of the ops write.
    constexpr std::string_view kWritten[] = {"operand_precision",
                                             "backend_config",
                                             "api_version",
                                             "custom_call_has_side_effect",
                                             "operand_layout_constraints",
                                             "output_to_operand_aliasing",
                                             "is_host_transfer",
                                             "source_target_pairs",
                                             "infeed_config",
                                             "outfeed_config",
                                             "control-predecessors"};
    if (is_composite && name == "is_composite") continue;
    if (std::find(std::begin(kWritten), std::end(kWritten), name) == std::end(kWritten))
      frontend.emplace_back("hlo." + name, quote(value));
  }
  if (!frontend.empty())
    fields.emplace_back("mhlo.frontend_attributes", "{" + fields_text(std::move(frontend)) + "}");
  if (node.sharding && !says_in_sdy(node))
    fields.emplace_back("mhlo.sharding", quote(sharding_text_of(node)));
  return fields;
}

std::string Writer::symbol(const Computation& computation) {
  const auto [found, is_new] = symbol_of_.try_emplace(&computation);
  if (!is_new) return found->second;
  std::string name = computation.name();
  const bool is_entry = module_.entry() == &computation;
  if (is_entry && name.starts_with("main.")) name = "main";
  if (!is_entry && name == "main") name = "main_0";
  for (int64_t i = 0; symbols_.contains(name); ++i)
    name = fmt::format("{}_{}", computation.name(), i);
  symbols_.emplace(name, &computation);
  found->second = name;
  return found->second;
}

void Writer::write_node(const Node& node) {
  if (node.is(Opcode::tuple)) {
    Written pack{"", {}, true};
    for (const Node* operand : node.operands()) pack.elements.push_back(written(operand));
    return bind(&node, std::move(pack));
  }
  if (node.is(Opcode::get_tuple_element)) {
    const Written& value = written(node.operand(0));
    if (value.is_pack)
      return bind(&node, Written(value.elements[static_cast<size_t>(node.attrs.index)]));
  }
  if (depth_ == kFunctionDepth && is_result_sharding(node))
    return bind(&node, Written(written(node.operand(0))));
  OpWriter op(*this, node);
  const PrintRow* const row = find_print_row(node.opcode());
  if (row == nullptr) return write_custom_call(op, "");
  row->write(op, row->name);
}

void Writer::write_nodes(const Computation& computation) {
  for (const auto& node : computation.nodes()) {
    if (node->is(Opcode::parameter) || is_implicit(*node) || values_.find(node.get()) != nullptr)
      continue;
    if (node->frontend_attributes.contains(kRemoved) && node->users().empty()) continue;
    if (node->is(Opcode::tuple) || is_part_of_manual(*node)) continue;  // where it is read
    write_node(*node);
  }
}

std::vector<Written> Writer::results_of(const Computation& computation) {
  const Node* const root = computation.root();
  if (root->shape.is_tuple) return elements_of(root);
  return {Written{name_of(root), {}, false}};
}

std::string Writer::write_return(const Computation& computation, std::string_view terminator,
                                 size_t drop) {
  std::vector<Written> results = results_of(computation);
  const Shape& shape = computation.root()->shape;
  if (drop > 0) results.resize(results.size() - std::min(drop, results.size()));
  std::string names, types;
  for (size_t i = 0; i < results.size(); ++i) {
    names += (i ? ", " : " ") + results[i].name;
    types += (i ? ", " : " : ") + type_text(shape.is_tuple ? shape.elements[i] : shape);
  }
  return std::string(terminator) + names + types;
}

std::string Writer::body(const Computation& computation, const std::vector<Written>& parameters,
                         std::string_view terminator, size_t drop, bool isolated) {
  std::string outer;
  std::swap(outer, out_);
  const int64_t numbers = numbers_, arguments = arguments_, suffixes = suffixes_;
  NameTable names;
  if (isolated) {
    std::swap(names, names_);
    numbers_ = suffixes_ = 0;
  }
  ++depth_;
  if (const Node* const captured = std::exchange(captured_, nullptr))
    bind(computation.parameters().at(0), inside(Written(written(captured))));
  for (size_t i = 0; i < parameters.size() && i < computation.parameters().size(); ++i)
    bind(computation.parameters()[i], parameters[i]);
  write_nodes(computation);
  const std::string last = write_return(computation, terminator, drop);
  raw_line(last);
  --depth_;
  // The same computation may be a region elsewhere, under other names.
  for (const auto& node : computation.nodes()) values_.extract(node.get());
  numbers_ = numbers;
  if (isolated) {
    std::swap(names, names_);
    suffixes_ = suffixes;
    arguments_ = arguments;
  }
  std::swap(outer, out_);
  return "{\n" + outer + indent() + "}";
}

// A value as a region reads it: readers make constants anew there.
Written Writer::inside(const Written& value) {
  if (value.is_pack) {
    Written pack{"", {}, true};
    for (const Written& element : value.elements) pack.elements.push_back(inside(element));
    return pack;
  }
  const Node* const constant = value.constant;
  if (constant == nullptr) return value;
  const std::unique_ptr<Written> before = values_.extract(constant);
  write_node(*constant);
  Written copy = written(constant);
  values_.extract(constant);
  if (before) bind(constant, std::move(*before));
  return copy;
}

std::string Writer::branch(const Computation& computation, const Node* operand) {
  written(operand);  // what it needs stands in front of the op
  captured_ = operand;
  return body(computation, {}, "stablehlo.return");
}

std::string Writer::region(const Computation& computation, const std::vector<Written>& parameters,
                           size_t drop) {
  if (!parameters.empty() || computation.parameters().empty())
    return body(computation, parameters, "stablehlo.return", drop);
  std::vector<Written> arguments;
  std::string label;
  for (const Node* parameter : computation.parameters()) {
    arguments.push_back({new_argument(), {}, false});
    label +=
        (label.empty() ? "" : ", ") + arguments.back().name + ": " + type_text(parameter->shape);
  }
  const std::string text = body(computation, arguments, "stablehlo.return", drop);
  return "{\n" + indent() + "^bb0(" + label + "):" + text.substr(1);
}

// The entry, then what it calls in the order of the text, then what nothing calls.
std::vector<const Computation*> Writer::functions() {
  std::set<const Computation*> seen, regions;
  std::vector<const Computation*> order;
  const auto visit = [&](const auto& self, const Computation* computation,
                         bool is_function) -> void {
    if (is_function && !seen.insert(computation).second) return;
    if (!is_function && !regions.insert(computation).second) return;
    if (is_function) order.push_back(computation);
    for (const auto& node : computation->nodes())
      for (const Computation* called : node->called) {
        const bool is_region = is_called_as_region(*node) ||
                               (node->is(Opcode::call) && is_manual_call(*node)) ||
                               node->frontend_attributes.contains(kSdyNamed);
        self(self, called, !is_region);
      }
  };
  visit(visit, module_.entry(), true);
  std::set<const Computation*> called;
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes())
      called.insert(node->called.begin(), node->called.end());
  for (const auto& computation : module_.computations())
    if (!called.contains(computation.get())) visit(visit, computation.get(), true);
  return order;
}

void Writer::write_header(std::string& text) {
  Fields fields, frontend;
  for (const auto& [name, value] : module_.frontend_attributes) {
    if (name == kSdyMeshes || name == kUncounted || is_said_by_result(name, value)) continue;
    std::string_view own;
    if (name.starts_with(kKept)) own = std::string_view(name).substr(kKept.size());
    if (own == "mhlo.num_partitions" || own == "mhlo.num_replicas" ||
        own == "mhlo.frontend_attributes")
      own = {};  // what stands for something else
    add_attribute(own, name, value, fields, frontend);
  }
  if (!frontend.empty())
    fields.emplace_back("mhlo.frontend_attributes", "{" + fields_text(std::move(frontend)) + "}");
  if (!counts_meshes(module_))
    fields.emplace_back("mhlo.num_partitions", fmt::format("{} : i32", module_.num_partitions));
  fields.emplace_back("mhlo.num_replicas", fmt::format("{} : i32", module_.num_replicas));
  text += fmt::format("module {} attributes {{{}}} {{\n", symbol_text(module_.name),
                      fields_text(fields));
  const auto meshes = module_.frontend_attributes.find(kSdyMeshes);
  if (meshes == module_.frontend_attributes.end()) return;
  Cursor cursor(meshes->second, kSdyMeshes, 0, meshes->second.size());
  cursor.expect("{", "before meshes");
  while (!cursor.accept("}")) {
    const std::string name =
        cursor.peek() == '"' ? cursor.quoted("a mesh") : std::string(cursor.suffix_id("a mesh"));
    cursor.expect("=", "behind the name of a mesh");
    cursor.accept("#sdy.mesh");
    cursor.expect("<", "before a mesh");
    text += fmt::format("  sdy.mesh {} = <{}>\n", symbol_text(name), cursor.balanced("a mesh"));
    cursor.expect(">", "behind a mesh");
    cursor.accept(",");
  }
}

std::string Writer::parameter_attributes(const Node& parameter) const {
  Fields fields = discardable(parameter);
  if (&parameter.parent() == module_.entry()) {
    for (const Alias& alias : module_.aliases)
      if (alias.parameter == parameter.attrs.index && alias.parameter_index.empty() &&
          alias.output.size() <= 1)
        fields.emplace_back("tf.aliasing_output",
                            fmt::format("{} : i32", alias.output.empty() ? 0 : alias.output[0]));
    const std::string donor = fmt::format("({}, {{}})", parameter.attrs.index);
    for (const auto& [name, value] : module_.header)
      if (name == "buffer_donor" && value.find(donor) != std::string::npos)
        fields.emplace_back("jax.buffer_donor", "true");
  }
  return fields.empty() ? "" : " {" + fields_text(std::move(fields)) + "}";
}

void Writer::write_function(std::string& text, const Computation& computation) {
  numbers_ = arguments_ = suffixes_ = 0;
  names_ = {};
  values_.clear();
  std::string arguments;
  std::vector<Written> parameters;
  for (const Node* parameter : computation.parameters()) {
    parameters.push_back({new_argument(), {}, false});
    arguments += (arguments.empty() ? "" : ", ") + parameters.back().name + ": " +
                 type_text(parameter->shape) + parameter_attributes(*parameter);
    if (options_.locations && !parameter->metadata.op_name.empty())
      arguments += location_text(parameter->metadata);
  }
  const Shape& shape = computation.root()->shape;
  const size_t count = result_count(computation);
  std::string results;
  bool has_attributes = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string attributes = result_attributes(computation, i);
    has_attributes = has_attributes || !attributes.empty();
    results += (i ? ", " : "") + type_text(shape.is_tuple ? shape.elements[i] : shape) + attributes;
  }
  if (count != 1 || has_attributes) results = "(" + results + ")";
  bool is_public = module_.entry() == &computation;
  for (const auto& [name, value] : computation.attributes)
    is_public = is_public || (name == kVisibility && value == "public");
  depth_ = 1;
  text += fmt::format("  func.func {} {}({}){} ", is_public ? "public" : "private",
                      symbol_text(symbol(computation)), arguments,
                      count == 0 ? std::string() : " -> " + results);
  text += body(computation, parameters, "return") + "\n";
}

std::string Writer::literal(const Array& array) {
  if (!is_large_text(array)) return dense_text(array);
  literals_.push_back(&array);
  return fmt::format("{0}{1}{0}", kMark, literals_.size() - 1);
}

void Writer::hand_on(std::string_view text,
                     const std::function<void(std::string_view)>& sink) const {
  size_t begin = 0;
  for (size_t mark = text.find(kMark); mark != std::string_view::npos;
       mark = text.find(kMark, begin)) {
    size_t number = literals_.size();
    const char* const digits = text.data() + mark + 1;
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), number);
    const auto behind = static_cast<size_t>(end - text.data()) + 1;
    const bool is_ours =
        error == std::errc{} && number < literals_.size() && behind <= text.size() && *end == kMark;
    sink(text.substr(begin, mark + (is_ours ? 0 : 1) - begin));
    if (is_ours) print_dense(*literals_[number], sink);
    begin = is_ours ? behind : mark + 1;
  }
  sink(text.substr(begin));
}

void Writer::write(const std::function<void(std::string_view)>& sink) {
  std::string text;
  const std::vector<const Computation*> order = functions();
  for (const Computation* computation : order) {
    symbol(*computation);
    result_counts_[computation->name()] = result_count(*computation);
  }
  write_header(text);
  for (const Computation* computation : order) {
    write_function(text, *computation);
    hand_on(text, sink);
    text.clear();
  }
  sink("}\n");
}

}  // namespace gspmd::stablehlo

namespace gspmd {

std::string to_stablehlo(const Module& module, const StableHloOptions& options) {
  std::string text;
  print_stablehlo(
      module, [&](std::string_view piece) { text += piece; }, options);
  return text;
}

void print_stablehlo(const Module& module, const std::function<void(std::string_view)>& write,
                     const StableHloOptions& options) {
  if (module.entry() == nullptr) user_error("module \"{}\" has no entry computation", module.name);
  stablehlo::Writer(module, options).write(write);
}

}  // namespace gspmd
