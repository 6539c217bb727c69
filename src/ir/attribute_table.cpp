#include "ir/attribute_table.h"

#include <array>
#include <initializer_list>

#include "ir/parse_attributes.h"

namespace gspmd {
namespace {

using Custom = AttributeRow::Custom;

// clang-format off
const AttributeRow kRows[] = {
    {"dimensions", [](Attributes& a) -> Dims& { return a.dimensions; }},
    {"iota_dimension", [](Attributes& a) -> int64_t& { return a.index; }},
    {"index", [](Attributes& a) -> int64_t& { return a.index; }},
    {"slice", Custom{read_slice, print_slice}},
    {"padding", Custom{read_padding, print_padding}},
    {"dynamic_slice_sizes", [](Attributes& a) -> Dims& { return a.slice_sizes; }},
    {"slice_sizes", [](Attributes& a) -> Dims& { return a.slice_sizes; }},
    {"lhs_batch_dims", [](Attributes& a) -> Dims& { return a.dot->lhs_batch; }},
    {"lhs_contracting_dims", [](Attributes& a) -> Dims& { return a.dot->lhs_contracting; }},
    {"rhs_batch_dims", [](Attributes& a) -> Dims& { return a.dot->rhs_batch; }},
    {"rhs_contracting_dims", [](Attributes& a) -> Dims& { return a.dot->rhs_contracting; }},
    {"offset_dims", [](Attributes& a) -> Dims& { return a.gather->offset_dims; }},
    {"collapsed_slice_dims", [](Attributes& a) -> Dims& { return a.gather->collapsed_slice_dims; }},
    {"start_index_map", [](Attributes& a) -> Dims& { return a.gather->start_index_map; }},
    {"operand_batching_dims",
     [](Attributes& a) -> Dims& { return a.gather->operand_batching_dims; }},
    {"start_indices_batching_dims",
     [](Attributes& a) -> Dims& { return a.gather->start_indices_batching_dims; }},
    {"update_window_dims", [](Attributes& a) -> Dims& { return a.scatter->update_window_dims; }},
    {"inserted_window_dims", [](Attributes& a) -> Dims& { return a.scatter->inserted_window_dims; }},
    {"scatter_dims_to_operand_dims",
     [](Attributes& a) -> Dims& { return a.scatter->scatter_dims_to_operand_dims; }},
    {"input_batching_dims", [](Attributes& a) -> Dims& { return a.scatter->input_batching_dims; }},
    {"scatter_indices_batching_dims",
     [](Attributes& a) -> Dims& { return a.scatter->scatter_indices_batching_dims; }},
    // gather and scatter keep their own index_vector_dim; an instruction is one of them only.
    {"gather:index_vector_dim", [](Attributes& a) -> int64_t& { return a.gather->index_vector_dim; }},
    {"scatter:index_vector_dim",
     [](Attributes& a) -> int64_t& { return a.scatter->index_vector_dim; }},
    {"indices_are_sorted", [](Attributes& a) -> bool& { return a.indices_are_sorted; }},
    {"unique_indices", [](Attributes& a) -> bool& { return a.unique_indices; }},
    {"direction", Custom{read_direction, print_direction}},
    {"type", Custom{read_compare_type, print_compare_type}},
    {"channel_id", Custom{read_channel_id, print_channel_id}},
    {"replica_groups", Custom{read_replica_groups, print_replica_groups}},
    {"source_target_pairs", Custom{read_pairs, print_pairs}},
    {"use_global_device_ids", [](Attributes& a) -> bool& { return a.use_global_device_ids; }},
    {"custom_call_target", [](Attributes& a) -> std::string& { return a.custom_call_target; }},
    {"kind", Custom{read_fusion_kind, print_fusion_kind}},
};

struct OpcodeRow {
  Opcode opcode;
  std::vector<std::pair<std::string_view, Presence>> attributes;
};
constexpr Presence optional = Presence::optional, always = Presence::always,
                   required = Presence::required;

const OpcodeRow kOpcodeRows[] = {
    {Opcode::iota, {{"iota_dimension", always}}},
    {Opcode::get_tuple_element, {{"index", required}}},
    {Opcode::broadcast, {{"dimensions", required}}},
    {Opcode::transpose, {{"dimensions", required}}},
    {Opcode::reverse, {{"dimensions", required}}},
    {Opcode::concatenate, {{"dimensions", required}}},
    {Opcode::pad, {{"padding", required}}},
    {Opcode::slice, {{"slice", required}}},
    {Opcode::dynamic_slice, {{"dynamic_slice_sizes", required}}},
    {Opcode::gather,
     {{"offset_dims", always}, {"collapsed_slice_dims", always}, {"start_index_map", always},
      {"operand_batching_dims", optional}, {"start_indices_batching_dims", optional},
      {"gather:index_vector_dim", required}, {"slice_sizes", required},
      {"indices_are_sorted", optional}}},
    {Opcode::scatter,
     {{"update_window_dims", always}, {"inserted_window_dims", always},
      {"scatter_dims_to_operand_dims", always}, {"input_batching_dims", optional},
      {"scatter_indices_batching_dims", optional}, {"scatter:index_vector_dim", required},
      {"indices_are_sorted", optional}, {"unique_indices", optional}}},
    {Opcode::compare, {{"direction", required}, {"type", optional}}},
    {Opcode::dot,
     {{"lhs_batch_dims", optional}, {"lhs_contracting_dims", always},
      {"rhs_batch_dims", optional}, {"rhs_contracting_dims", always}}},
    {Opcode::reduce, {{"dimensions", required}}},
    {Opcode::fusion, {{"kind", required}}},
    {Opcode::custom_call, {{"custom_call_target", required}}},
    {Opcode::all_reduce,
     {{"channel_id", optional}, {"replica_groups", always}, {"use_global_device_ids", optional}}},
    {Opcode::all_gather,
     {{"channel_id", optional}, {"replica_groups", always}, {"dimensions", required},
      {"use_global_device_ids", optional}}},
    {Opcode::reduce_scatter,
     {{"channel_id", optional}, {"replica_groups", always}, {"use_global_device_ids", optional},
      {"dimensions", required}}},
    {Opcode::all_to_all,
     {{"channel_id", optional}, {"replica_groups", always}, {"dimensions", optional}}},
    {Opcode::collective_permute,
     {{"channel_id", optional}, {"source_target_pairs", required}}},
};

struct CalledRow {
  Opcode opcode;
  std::array<std::string_view, 2> names;
  size_t count;
};
constexpr CalledRow kCalled[] = {
    {Opcode::reduce, {"to_apply"}, 1},        {Opcode::scatter, {"to_apply"}, 1},
    {Opcode::all_reduce, {"to_apply"}, 1},    {Opcode::reduce_scatter, {"to_apply"}, 1},
    {Opcode::call, {"to_apply"}, 1},          {Opcode::fusion, {"calls"}, 1},
    {Opcode::while_, {"condition", "body"}, 2},
};
// clang-format on

const AttributeRow* find_row(std::string_view name) {
  for (const AttributeRow& row : kRows)
    if (row.name == name) return &row;
  internal_error("attribute table: no row \"{}\"", name);
}

// By opcode, rows resolved.
std::vector<std::vector<OpcodeAttribute>> build_index() {
  std::vector<std::vector<OpcodeAttribute>> index(static_cast<size_t>(opcode_count()));
  for (const OpcodeRow& row : kOpcodeRows)
    for (const auto& [name, presence] : row.attributes)
      index[static_cast<size_t>(row.opcode)].push_back({find_row(name), presence});
  return index;
}

struct Reader {
  Lexer& lexer;
  Attributes& attrs;
  std::string_view name;

  void operator()(Dims& (*field)(Attributes&)) const { field(attrs) = read_dims(lexer, name); }
  void operator()(int64_t& (*field)(Attributes&)) const { field(attrs) = lexer.integer(name); }
  void operator()(bool& (*field)(Attributes&)) const { field(attrs) = lexer.boolean(name); }
  void operator()(std::string& (*field)(Attributes&)) const { field(attrs) = lexer.quoted(name); }
  void operator()(const Custom& custom) const { custom.read(lexer, attrs); }
};

struct Printer {
  Attributes& attrs;
  bool always;

  std::string operator()(Dims& (*field)(Attributes&)) const {
    const Dims& dims = field(attrs);
    return dims.empty() && !always ? "" : fmt::format("{{{}}}", fmt::join(dims, ","));
  }
  std::string operator()(int64_t& (*field)(Attributes&)) const {
    return field(attrs) == 0 && !always ? "" : fmt::format("{}", field(attrs));
  }
  std::string operator()(bool& (*field)(Attributes&)) const {
    return field(attrs) ? "true" : always ? "false" : "";
  }
  std::string operator()(std::string& (*field)(Attributes&)) const {
    return field(attrs).empty() && !always ? "" : quote(field(attrs));
  }
  std::string operator()(const Custom& custom) const { return custom.print(attrs); }
};

}  // namespace

std::span<const OpcodeAttribute> attributes_of(Opcode opcode) {
  static const std::vector<std::vector<OpcodeAttribute>> index = build_index();
  return index[static_cast<size_t>(opcode)];
}

std::span<const std::string_view> called_names(Opcode opcode) {
  for (const CalledRow& row : kCalled)
    if (row.opcode == opcode) return {row.names.data(), row.count};
  return {};
}

std::string_view spelling(const AttributeRow& row) {
  const size_t colon = row.name.find(':');
  return colon == std::string_view::npos ? row.name : row.name.substr(colon + 1);
}

void read_attribute(const AttributeRow& row, Lexer& lexer, Attributes& attrs) {
  std::visit(Reader{lexer, attrs, spelling(row)}, row.field);
}

std::string print_attribute(const OpcodeAttribute& attribute, const Attributes& attrs) {
  // The accessors serve reading too, hence take a mutable reference; printing only looks.
  Printer printer{const_cast<Attributes&>(attrs), attribute.presence != Presence::optional};
  return std::visit(printer, attribute.row->field);
}

}  // namespace gspmd
