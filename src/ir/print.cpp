#include "gspmd/ir/print.h"

#include <unordered_set>

#include "ir/attribute_table.h"
#include "ir/called_table.h"
#include "ir/parse_attributes.h"
#include "ir/parse_literal.h"
#include "ir/parse_shape.h"
#include "ir/sharding_text.h"

namespace gspmd {
namespace {

using Text = std::string;

template <class... Args>
void put(Text& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

void put_arguments(Text& text, const Node& node, const PieceWriter& write) {
  if (node.is(Opcode::parameter)) {
    text += std::to_string(node.attrs.index);
  } else if (node.is(Opcode::constant)) {
    if (node.attrs.literal.empty())
      text += "{...}";
    else
      print_literal(text, node.attrs.literal, write);
  } else {
    bool first = true;
    for (const Node* operand : node.operands()) {
      text += first ? "%" : ", %";
      text += operand->name();
      first = false;
    }
  }
}

// Attributes of the opcode itself, then the called computations.
void put_attributes(Text& text, const Node& node) {
  for (const OpcodeAttribute& attribute : attributes_of(node.opcode())) {
    const std::string value = print_attribute(attribute, node.attrs);
    const std::string_view name = spelling(*attribute.row);
    // What the fields cannot say is kept as text, and printed with the others.
    const bool kept = value.empty() && node.attrs.other.contains(std::string(name));
    if (kept || (value.empty() && attribute.presence != Presence::required)) continue;
    text += ", ";
    text += name;
    text += "=";
    text += value;
  }
  text += print_called(node);
}

using Names = std::unordered_set<std::string_view>;

// Of the names in "{%a, %b}" those that are instructions of the computation still. `names`: of its
// nodes, collected once for all of them.
Text present_controls(const std::string& kept, const Computation& computation, Names& names) {
  if (names.empty())
    for (const std::unique_ptr<Node>& node : computation.nodes()) names.insert(node->name());
  Lexer lexer(kept, "control-predecessors");
  Text text;
  lexer.accept("{");
  while (!lexer.peek_name().empty()) {
    const std::string_view name = lexer.name("an instruction");
    if (names.contains(name)) put(text, "{}%{}", text.empty() ? "" : ", ", name);
    lexer.accept(",");
  }
  return text;
}

void put_other(Text& text, const Node& node, Names& names) {
  for (const auto& [name, value] : node.attrs.other) {
    if (name != "control-predecessors") {
      put(text, ", {}={}", name, value);
      continue;
    }
    const Text present = present_controls(value, node.parent(), names);
    if (!present.empty()) put(text, ", {}={{{}}}", name, present);
  }
}

void put_sharding(Text& text, const Node& node) {
  std::string sharding = to_string(*node.sharding);
  if (node.frontend_attributes.contains(kCsePreventionAttribute))
    sharding.insert(sharding.size() - 1,
                    fmt::format(" metadata={{op_name=\"{}\"}}", kCsePreventionName));
  put(text, ", sharding={}", sharding);
}

void put_annotations(Text& text, const Node& node, const PrintOptions& options, Names& names) {
  if (options.shardings && node.sharding) put_sharding(text, node);
  if (node.backward || !node.frontend_attributes.empty()) {
    std::map<std::string, std::string> attributes = node.frontend_attributes;
    attributes.erase(kCsePreventionAttribute);
    if (node.backward) attributes["gspmd.phase"] = "backward";
    if (!attributes.empty())
      put(text, ", frontend_attributes={}", print_frontend_attributes(attributes));
  }
  put_other(text, node, names);
  if (!options.metadata) return;
  const std::string metadata = print_metadata(node.metadata);
  if (!metadata.empty()) put(text, ", metadata={}", metadata);
}

void put_node(Text& text, const Node& node, const PrintOptions& options, Names& names,
              const PieceWriter& write = {}) {
  text += node.is_root() ? "ROOT %" : "%";
  text += node.name();
  text += " = ";
  put_shape(text, node.shape);
  text += " ";
  text += opcode_name(node.opcode());
  text += "(";
  put_arguments(text, node, write);
  text += ")";
  put_attributes(text, node);
  put_annotations(text, node, options, names);
}

// Hands on what has come together, if it is much.
void hand_on(Text& text, const PieceWriter& write) {
  if (!write || text.size() < kPiece) return;
  write(text);
  text.clear();
}

void put_computation(Text& text, const Computation& computation, const PrintOptions& options,
                     const PieceWriter& write = {}) {
  const bool is_entry = computation.module().entry() == &computation;
  put(text, "{}%{} (", is_entry ? "ENTRY " : "", computation.name());
  bool first = true;
  for (const Node* parameter : computation.parameters()) {
    if (parameter == nullptr) continue;
    // Only a name behind % may hold these.
    const bool marked = parameter->name().find_first_of(":/@") != std::string::npos;
    put(text, "{}{}{}: {}", first ? "" : ", ", marked ? "%" : "", parameter->name(),
        shape_text(parameter->shape, false));
    first = false;
  }
  put(text, ") -> {} {{\n",
      computation.root() ? shape_text(computation.root()->shape, false) : std::string("()"));
  Names names;
  for (const std::unique_ptr<Node>& node : computation.nodes()) {
    text += "  ";
    put_node(text, *node, options, names, write);
    text += "\n";
    hand_on(text, write);
  }
  text += "}";
  for (const auto& [name, value] : computation.attributes) put(text, ", {}={}", name, value);
  text += "\n";
}

// Whether "{(f32[2]{0})->f32[2]{0}}" has the shapes of the entry.
bool fits_entry(const std::string& layout, const Computation& entry) {
  Lexer lexer(layout, "entry_computation_layout");
  try {
    lexer.expect("{", "");
    lexer.expect("(", "");
    std::vector<Shape> parameters;
    while (!lexer.accept(")")) {
      if (!parameters.empty()) lexer.expect(",", "");
      parameters.push_back(parse_shape(lexer));
    }
    lexer.expect("->", "");
    const Shape result = parse_shape(lexer);
    if (parameters.size() != entry.parameters().size() || !(result == entry.root()->shape))
      return false;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (!(parameters[i] == entry.parameters()[i]->shape)) return false;
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Passes that change the entry's shapes leave the header behind: it is written anew then.
std::string entry_layout(const std::string& kept, const Computation& entry) {
  if (fits_entry(kept, entry)) return kept;
  Text text = "{(";
  bool first = true;
  for (const Node* parameter : entry.parameters()) {
    put(text, "{}{}", first ? "" : ", ", shape_text(parameter->shape));
    first = false;
  }
  put(text, ")->{}}}", shape_text(entry.root()->shape));
  return text;
}

void put_header(Text& text, const Module& module) {
  put(text, "HloModule {}", module.name);
  for (const auto& [name, value] : module.header) {
    const bool layout =
        name == "entry_computation_layout" && module.entry() && module.entry()->root();
    put(text, ", {}={}", name, layout ? entry_layout(value, *module.entry()) : value);
  }
  if (!module.aliases.empty()) put(text, ", input_output_alias={}", print_aliases(module.aliases));
  if (module.num_replicas != 1) put(text, ", replica_count={}", module.num_replicas);
  if (module.num_partitions != 1) put(text, ", num_partitions={}", module.num_partitions);
  if (!module.frontend_attributes.empty())
    put(text, ", frontend_attributes={}", print_frontend_attributes(module.frontend_attributes));
  text += "\n";
}

}  // namespace

std::string to_text(const Node& node, const PrintOptions& options) {
  Text text;
  Names names;
  put_node(text, node, options, names);
  return text;
}

std::string to_text(const Computation& computation, const PrintOptions& options) {
  Text text;
  put_computation(text, computation, options);
  return text;
}

namespace {

void put_module(Text& text, const Module& module, const PrintOptions& options,
                const PieceWriter& write) {
  put_header(text, module);
  for (const std::unique_ptr<Computation>& computation : module.computations()) {
    if (computation.get() == module.entry()) continue;
    text += "\n";
    put_computation(text, *computation, options, write);
  }
  if (module.entry() == nullptr) return;
  text += "\n";
  put_computation(text, *module.entry(), options, write);
}

}  // namespace

std::string to_text(const Module& module, const PrintOptions& options) {
  Text text;
  put_module(text, module, options, {});
  return text;
}

void print_module(const Module& module, const PieceWriter& write, const PrintOptions& options) {
  Text text;
  put_module(text, module, options, write);
  write(text);
}

}  // namespace gspmd
