#include "ir/attribute_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/parse_attributes.h"
#include "ir/parse_window.h"

namespace gspmd {
namespace {

using Row = AttributeRow;
using Custom = AttributeRow::Custom;

template <class T>
T& plain(T& field) {
  return field;
}
template <class T>
T& plain(Rare<T>& field) {
  return field.edit();
}
template <class T>
const T& plain(const Rare<T>& field) {
  return field.get();
}

// `F` is a lambda from Attributes, const or not, to the member.
template <class T, class F>
constexpr AttributeMember<T> member(F) {
  return {[](Attributes& attrs) -> T& { return plain(F{}(attrs)); },
          [](const Attributes& attrs) -> const T& { return plain(F{}(attrs)); }};
}
template <class F>
Row dims(std::string_view name, F f) {
  return {name, member<Dims>(f)};
}
template <class F>
Row integer(std::string_view name, F f, int64_t standard = 0) {
  return {name, Row::Integer{member<int64_t>(f), standard}};
}
template <class F>
Row real(std::string_view name, F f) {
  return {name, member<double>(f)};
}
template <class F>
Row flag(std::string_view name, F f) {
  return {name, member<bool>(f)};
}
template <class F>
Row maybe_flag(std::string_view name, F f) {
  return {name, member<std::optional<bool>>(f)};
}
template <class F>
Row quoted(std::string_view name, F f) {
  return {name, Row::Quoted{member<std::string>(f)}};
}
template <class F>
Row word(std::string_view name, F f) {
  return {name, Row::Word{member<std::string>(f)}};
}

// clang-format off
#define AT(path) [](auto& a) -> auto& { return a.path; }
#define IN(box, field) [](auto& a) -> auto& { return plain(a.box).field; }
const Row kAttributeRows[] = {
    dims("dimensions", AT(dimensions)),
    integer("iota_dimension", AT(index)),
    integer("index", AT(index)),
    {"slice", Custom{read_slice, print_slice}},
    {"padding", Custom{read_padding, print_padding}},
    dims("dynamic_slice_sizes", AT(slice_sizes)),
    dims("slice_sizes", AT(slice_sizes)),
    dims("lhs_batch_dims", IN(dot, lhs_batch)),
    dims("lhs_contracting_dims", IN(dot, lhs_contracting)),
    dims("rhs_batch_dims", IN(dot, rhs_batch)),
    dims("rhs_contracting_dims", IN(dot, rhs_contracting)),
    word("algorithm", IN(scalar, algorithm)),
    dims("lhs_ragged_dims", IN(ragged, lhs_ragged)),
    dims("rhs_group_dims", IN(ragged, rhs_group)),
    {"window", Custom{read_window, print_window}},
    {"dim_labels", Custom{read_dim_labels, print_dim_labels}},
    integer("feature_group_count", IN(conv, feature_group_count), 1),
    integer("batch_group_count", IN(conv, batch_group_count), 1),
    dims("offset_dims", IN(gather, offset_dims)),
    dims("collapsed_slice_dims", IN(gather, collapsed_slice_dims)),
    dims("start_index_map", IN(gather, start_index_map)),
    dims("operand_batching_dims", IN(gather, operand_batching_dims)),
    dims("start_indices_batching_dims", IN(gather, start_indices_batching_dims)),
    dims("update_window_dims", IN(scatter, update_window_dims)),
    dims("inserted_window_dims", IN(scatter, inserted_window_dims)),
    dims("scatter_dims_to_operand_dims", IN(scatter, scatter_dims_to_operand_dims)),
    dims("input_batching_dims", IN(scatter, input_batching_dims)),
    dims("scatter_indices_batching_dims", IN(scatter, scatter_indices_batching_dims)),
    // gather and scatter keep their own index_vector_dim; an instruction is one of them only.
    integer("gather:index_vector_dim", IN(gather, index_vector_dim)),
    integer("scatter:index_vector_dim", IN(scatter, index_vector_dim)),
    flag("indices_are_sorted", AT(indices_are_sorted)),
    flag("unique_indices", AT(unique_indices)),
    {"direction", Custom{read_direction, print_direction}},
    {"type", Custom{read_compare_type, print_compare_type}},
    {"order", Custom{read_compare_order, print_compare_order}},
    {"channel_id", Custom{read_channel_id, print_channel_id}},
    {"replica_groups", Custom{read_replica_groups, print_replica_groups}},
    {"source_target_pairs", Custom{read_pairs, print_pairs}},
    flag("use_global_device_ids", AT(use_global_device_ids)),
    quoted("custom_call_target", AT(custom_call_target)),
    {"kind", Custom{read_fusion_kind, print_fusion_kind}},
    word("fft_type", IN(scalar, fft_type)),
    dims("fft_length", AT(dimensions)),
    real("epsilon", IN(scalar, epsilon)),
    integer("feature_index", AT(index)),
    integer("exponent_bits", IN(scalar, exponent_bits)),
    integer("mantissa_bits", IN(scalar, mantissa_bits)),
    word("distribution", IN(scalar, distribution)),
    integer("delta", IN(scalar, delta)),
    flag("is_stable", IN(scalar, is_stable)),
    integer("k", IN(scalar, k)),
    flag("largest", IN(scalar, largest)),
    flag("is_reverse", IN(scalar, is_reverse)),
    maybe_flag("is_associative", IN(scalar, is_associative)),
    integer("num_carries", IN(scalar, num_carries)),
    flag("left_side", IN(triangular, left_side)),
    flag("lower", IN(triangular, lower)),
    flag("unit_diagonal", IN(triangular, unit_diagonal)),
    word("transpose_a", IN(triangular, transpose_a)),
};
#undef AT
#undef IN

struct OpcodeRow {
  Opcode opcode;
  std::vector<std::pair<std::string_view, Presence>> attributes;
};
constexpr Presence optional = Presence::optional, always = Presence::always,
                   required = Presence::required;

const OpcodeRow kOpcodeRows[] = {
    {Opcode::iota, {{"iota_dimension", always}}},
    {Opcode::get_tuple_element, {{"index", required}}},
    {Opcode::reduce_precision, {{"exponent_bits", required}, {"mantissa_bits", required}}},
    // A scalar operand has no dims to name: may be absent; infer compares the count with the operand.
    {Opcode::broadcast, {{"dimensions", always}}},
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
    {Opcode::compare, {{"direction", required}, {"type", optional}, {"order", optional}}},
    {Opcode::map, {{"dimensions", optional}}},
    {Opcode::dot,
     {{"lhs_batch_dims", optional}, {"lhs_contracting_dims", always},
      {"rhs_batch_dims", optional}, {"rhs_contracting_dims", always}, {"algorithm", optional}}},
    {Opcode::ragged_dot,
     {{"lhs_batch_dims", optional}, {"lhs_contracting_dims", always},
      {"rhs_batch_dims", optional}, {"rhs_contracting_dims", always},
      {"lhs_ragged_dims", always}, {"rhs_group_dims", optional}, {"algorithm", optional}}},
    {Opcode::scaled_dot,
     {{"lhs_batch_dims", optional}, {"lhs_contracting_dims", always},
      {"rhs_batch_dims", optional}, {"rhs_contracting_dims", always}, {"algorithm", optional}}},
    {Opcode::convolution,
     {{"window", optional}, {"dim_labels", required}, {"feature_group_count", optional},
      {"batch_group_count", optional}, {"algorithm", optional}}},
    {Opcode::reduce, {{"dimensions", required}}},
    {Opcode::reduce_window, {{"window", optional}}},
    {Opcode::select_and_scatter, {{"window", optional}}},
    {Opcode::sort, {{"dimensions", required}, {"is_stable", optional}}},
    {Opcode::topk, {{"k", required}, {"largest", always}, {"is_stable", optional}}},
    {Opcode::scan,
     {{"dimensions", required}, {"is_reverse", optional}, {"is_associative", optional},
      {"num_carries", optional}}},
    {Opcode::batch_norm_training, {{"epsilon", required}, {"feature_index", required}}},
    {Opcode::batch_norm_inference, {{"epsilon", required}, {"feature_index", required}}},
    {Opcode::batch_norm_grad, {{"epsilon", required}, {"feature_index", required}}},
    {Opcode::cholesky, {{"lower", optional}}},
    {Opcode::triangular_solve,
     {{"left_side", optional}, {"lower", optional}, {"unit_diagonal", optional},
      {"transpose_a", optional}}},
    {Opcode::fft, {{"fft_type", required}, {"fft_length", required}}},
    {Opcode::rng, {{"distribution", required}}},
    {Opcode::rng_bit_generator, {{"algorithm", required}}},
    {Opcode::rng_get_and_update_state, {{"delta", required}}},
    {Opcode::get_dimension_size, {{"dimensions", required}}},
    {Opcode::set_dimension_size, {{"dimensions", required}}},
    {Opcode::fusion, {{"kind", required}}},
    {Opcode::custom_call,
     {{"custom_call_target", required}, {"window", optional}, {"dim_labels", optional},
      {"feature_group_count", optional}, {"batch_group_count", optional}}},
    {Opcode::send, {{"channel_id", optional}}},
    {Opcode::send_done, {{"channel_id", optional}}},
    {Opcode::recv, {{"channel_id", optional}}},
    {Opcode::recv_done, {{"channel_id", optional}}},
    {Opcode::all_reduce,
     {{"channel_id", optional}, {"replica_groups", always}, {"use_global_device_ids", optional}}},
    {Opcode::all_reduce_start,
     {{"channel_id", optional}, {"replica_groups", always}, {"use_global_device_ids", optional}}},
    {Opcode::all_gather,
     {{"channel_id", optional}, {"replica_groups", always}, {"dimensions", required},
      {"use_global_device_ids", optional}}},
    {Opcode::all_gather_start,
     {{"channel_id", optional}, {"replica_groups", always}, {"dimensions", required},
      {"use_global_device_ids", optional}}},
    {Opcode::reduce_scatter,
     {{"channel_id", optional}, {"replica_groups", always}, {"use_global_device_ids", optional},
      {"dimensions", required}}},
    {Opcode::all_to_all,
     {{"channel_id", optional}, {"replica_groups", always}, {"dimensions", optional}}},
    {Opcode::ragged_all_to_all, {{"channel_id", optional}, {"replica_groups", always}}},
    {Opcode::collective_permute,
     {{"channel_id", optional}, {"source_target_pairs", required}}},
    {Opcode::collective_permute_start,
     {{"channel_id", optional}, {"source_target_pairs", required}}},
    {Opcode::collective_broadcast,
     {{"channel_id", optional}, {"replica_groups", always}}},
};
// clang-format on

const AttributeRow* find_row(std::string_view name) {
  for (const AttributeRow& row : kAttributeRows)
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

double read_real(Lexer& lexer, std::string_view name) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number(name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // HLO keeps them as f32.
  const bool fits = std::fabs(value) <= double{std::numeric_limits<float>::max()};
  if (error != std::errc{} || end != text.data() + text.size() || !fits)
    lexer.fail(start, "{}: \"{}\" is no finite number of f32", name, text);
  return value;
}

struct Reader {
  Lexer& lexer;
  Attributes& attrs;
  std::string_view name;

  void operator()(const AttributeMember<Dims>& field) const {
    field.edit(attrs) = read_dims(lexer, name);
  }
  void operator()(const Row::Integer& field) const { field.edit(attrs) = lexer.integer(name); }
  void operator()(const AttributeMember<double>& field) const {
    field.edit(attrs) = read_real(lexer, name);
  }
  void operator()(const AttributeMember<bool>& field) const {
    field.edit(attrs) = lexer.boolean(name);
  }
  void operator()(const AttributeMember<std::optional<bool>>& field) const {
    field.edit(attrs) = lexer.boolean(name);
  }
  void operator()(const Row::Quoted& field) const { field.edit(attrs) = lexer.quoted(name); }
  void operator()(const Row::Word& field) const { field.edit(attrs) = lexer.word(name); }
  void operator()(const Custom& custom) const { custom.read(lexer, attrs); }
};

struct Printer {
  const Attributes& attrs;
  bool always;

  std::string operator()(const AttributeMember<Dims>& field) const {
    const Dims& dims = field.view(attrs);
    return dims.empty() && !always ? "" : fmt::format("{{{}}}", fmt::join(dims, ","));
  }
  std::string operator()(const Row::Integer& field) const {
    const int64_t value = field.view(attrs);
    return value == field.standard && !always ? "" : fmt::format("{}", value);
  }
  std::string operator()(const AttributeMember<double>& field) const {
    return field.view(attrs) == 0 && !always ? "" : fmt::format("{}", field.view(attrs));
  }
  std::string operator()(const AttributeMember<bool>& field) const {
    return field.view(attrs) ? "true" : always ? "false" : "";
  }
  std::string operator()(const AttributeMember<std::optional<bool>>& field) const {
    const std::optional<bool>& value = field.view(attrs);
    return !value ? "" : *value ? "true" : "false";
  }
  std::string operator()(const Row::Quoted& field) const {
    return field.view(attrs).empty() && !always ? "" : quote(field.view(attrs));
  }
  std::string operator()(const Row::Word& field) const { return field.view(attrs); }
  std::string operator()(const Custom& custom) const { return custom.print(attrs); }
};

}  // namespace

std::span<const OpcodeAttribute> attributes_of(Opcode opcode) {
  static const std::vector<std::vector<OpcodeAttribute>> index = build_index();
  return index[static_cast<size_t>(opcode)];
}

std::string_view spelling(const AttributeRow& row) {
  const size_t colon = row.name.find(':');
  return colon == std::string_view::npos ? row.name : row.name.substr(colon + 1);
}

bool is_kept_attribute(std::string_view name) {
  constexpr std::string_view kKept[] = {"alias_passthrough_params",
                                        "api_version",
                                        "async_execution_thread",
                                        "backend_config",
                                        "called_computations",
                                        "calls",
                                        "channel_id",
                                        "collective_id",
                                        "constrain_layout",
                                        "control-predecessors",
                                        "cross_program_prefetch_index",
                                        "custom_call_has_side_effect",
                                        "custom_call_schedule",
                                        "dim_labels",
                                        "entry",
                                        "exit",
                                        "execution_thread",
                                        "infeed_config",
                                        "is_composite",
                                        "is_cross_program_prefetch",
                                        "is_host_transfer",
                                        "is_pipelined",
                                        "is_sync",
                                        "literal",
                                        "operand_layout_constraints",
                                        "operand_precision",
                                        "origin",
                                        "original_value",
                                        "outfeed_config",
                                        "outfeed_shape",
                                        "output_operand_aliasing",
                                        "output_to_operand_aliasing",
                                        "padding_type",
                                        "parameter_replication",
                                        "precision",
                                        "replicated",
                                        "result_accuracy",
                                        "schedule",
                                        "source_target_pairs",
                                        "sparsity",
                                        "statistics",
                                        "window"};
  return std::find(std::begin(kKept), std::end(kKept), name) != std::end(kKept);
}

void read_attribute(const AttributeRow& row, Lexer& lexer, Attributes& attrs) {
  std::visit(Reader{lexer, attrs, spelling(row)}, row.field);
}

std::string print_attribute(const OpcodeAttribute& attribute, const Attributes& attrs) {
  return std::visit(Printer{attrs, attribute.presence != Presence::optional}, attribute.row->field);
}

}  // namespace gspmd
