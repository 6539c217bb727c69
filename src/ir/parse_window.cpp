#include "ir/parse_window.h"

#include <charconv>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

struct WindowField {
  std::string_view name;
  int64_t standard;
  void (*set)(WindowDim& dim, int64_t value);
  int64_t (*get)(const WindowDim& dim);
};

// Of one number per dim, in print order; pad, of two, stands behind stride.
constexpr WindowField kFields[] = {
    {"size", 0, [](WindowDim& d, int64_t v) { d.size = v; },
     [](const WindowDim& d) { return d.size; }},
    {"stride", 1, [](WindowDim& d, int64_t v) { d.stride = v; },
     [](const WindowDim& d) { return d.stride; }},
    {"lhs_dilate", 1, [](WindowDim& d, int64_t v) { d.base_dilation = v; },
     [](const WindowDim& d) { return d.base_dilation; }},
    {"rhs_dilate", 1, [](WindowDim& d, int64_t v) { d.window_dilation = v; },
     [](const WindowDim& d) { return d.window_dilation; }},
    {"rhs_reversal", 0, [](WindowDim& d, int64_t v) { d.reversal = v != 0; },
     [](const WindowDim& d) { return int64_t{d.reversal}; }},
};
constexpr size_t kPadPlace = 2;

// "3x-1_2x4": reads the numbers, `per_dim` of them joined by '_', dims by 'x'.
std::vector<int64_t> read_numbers(Lexer& lexer, std::string_view name, size_t per_dim) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.number(name);
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (;;) {
    int64_t value = 0;
    const auto [behind, error] = std::from_chars(at, end, value);
    if (error != std::errc{})
      lexer.fail(start + static_cast<size_t>(at - text.data()),
                 "window: {} needs a 64-bit number here", name);
    numbers.push_back(value);
    at = behind;
    if (at == end) break;
    const char wanted = numbers.size() % per_dim != 0 ? '_' : 'x';
    if (*at++ != wanted)
      lexer.fail(start + static_cast<size_t>(at - 1 - text.data()), "window: {} needs '{}' here",
                 name, wanted);
  }
  if (numbers.size() % per_dim != 0)
    lexer.fail(start, "window: pad is low_high per dim, as in 0_1x2_2");
  return numbers;
}

void read_field(Lexer& lexer, std::string_view name, size_t at, std::vector<WindowDim>& window) {
  const WindowField* field = nullptr;
  for (const WindowField& row : kFields)
    if (row.name == name) field = &row;
  if (field == nullptr && name != "pad")
    lexer.fail(at,
               "window: \"{}\" is no field; known are size, stride, pad, lhs_dilate, rhs_dilate "
               "and rhs_reversal",
               name);
  const std::vector<int64_t> numbers = read_numbers(lexer, name, field ? 1 : 2);
  const size_t dims = field ? numbers.size() : numbers.size() / 2;
  if (window.empty()) window.resize(dims);
  if (window.size() != dims)
    lexer.fail(at, "window: {} has {} dims, the fields before it have {}", name, dims,
               window.size());
  const bool flags = name == "rhs_reversal";
  for (size_t d = 0; d < dims; ++d) {
    if (flags && numbers[d] != 0 && numbers[d] != 1)
      lexer.fail(at, "window: rhs_reversal is 0 or 1 per dim, {} is neither", numbers[d]);
    if (field) {
      field->set(window[d], numbers[d]);
    } else {
      window[d].pad_low = numbers[2 * d];
      window[d].pad_high = numbers[2 * d + 1];
    }
  }
}

void put_pad(std::string& text, const std::vector<WindowDim>& window) {
  bool any = false;
  for (const WindowDim& dim : window) any = any || dim.pad_low != 0 || dim.pad_high != 0;
  if (!any) return;
  text += " pad=";
  for (size_t d = 0; d < window.size(); ++d)
    text += fmt::format("{}{}_{}", d ? "x" : "", window[d].pad_low, window[d].pad_high);
}

}  // namespace

void read_window(Lexer& lexer, Attributes& attrs) {
  attrs.window.clear();
  std::vector<std::string_view> seen;
  lexer.expect("{", "before a window");
  while (!lexer.accept("}")) {
    if (!seen.empty()) lexer.accept(",");
    const size_t at = lexer.position();
    const std::string_view name = lexer.word("a window field");
    for (const std::string_view other : seen)
      if (other == name) lexer.fail(at, "window: {} is given twice", name);
    seen.push_back(name);
    lexer.expect("=", "after a window field");
    read_field(lexer, name, at, attrs.window.edit());
  }
}

std::string print_window(const Attributes& attrs) {
  if (attrs.window.empty()) return "";
  std::string text = "{";
  for (size_t f = 0; f < std::size(kFields); ++f) {
    if (f == kPadPlace) put_pad(text, attrs.window);
    const WindowField& field = kFields[f];
    bool any = f == 0;  // a window has sizes, whatever they are
    for (const WindowDim& dim : attrs.window) any = any || field.get(dim) != field.standard;
    if (!any) continue;
    text += fmt::format("{}{}=", f ? " " : "", field.name);
    for (size_t d = 0; d < attrs.window.size(); ++d)
      text += fmt::format("{}{}", d ? "x" : "", field.get(attrs.window[d]));
  }
  return text + "}";
}

namespace {

// One of the three parts: positions of its two letters and of its spatial digits.
struct Labels {
  int64_t first = -1, second = -1;
  Dims spatial;
};

Labels parse_labels(Lexer& lexer, size_t at, std::string_view text, char first, char second) {
  Labels labels;
  const auto place = [&](int64_t& slot, size_t i) {
    if (slot >= 0) lexer.fail(at + i, "dim_labels: '{}' stands twice in \"{}\"", text[i], text);
    slot = static_cast<int64_t>(i);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '?') continue;
    if (c == first) {
      place(labels.first, i);
    } else if (c == second) {
      place(labels.second, i);
    } else if (c >= '0' && c <= '9') {
      const auto dim = static_cast<size_t>(c - '0');
      if (dim >= labels.spatial.size()) labels.spatial.resize(dim + 1, -1);
      place(labels.spatial[dim], i);
    } else {
      lexer.fail(at + i, "dim_labels: '{}' in \"{}\"; use '{}', '{}', digits and '?'", c, text,
                 first, second);
    }
  }
  bool whole = labels.first >= 0 && labels.second >= 0;
  for (const int64_t position : labels.spatial) whole = whole && position >= 0;
  if (!whole)
    lexer.fail(at, "dim_labels: \"{}\" needs '{}', '{}' and the digits from 0 on without a gap",
               text, first, second);
  return labels;
}

void put_labels(std::string& text, int64_t first, char first_name, int64_t second, char second_name,
                const Dims& spatial) {
  int64_t last = std::max(first, second);
  for (const int64_t position : spatial) last = std::max(last, position);
  std::string part(static_cast<size_t>(last + 1), '?');
  const auto put = [&](int64_t position, char name) {
    if (position >= 0) part[static_cast<size_t>(position)] = name;
  };
  put(first, first_name);
  put(second, second_name);
  for (size_t d = 0; d < spatial.size(); ++d) put(spatial[d], static_cast<char>('0' + d));
  text += part;
}

}  // namespace

void read_dim_labels(Lexer& lexer, Attributes& attrs) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.raw_value("dim_labels such as b01f_01io->b01f");
  const size_t bar = text.find('_');
  const size_t arrow = text.find("->");
  if (bar == std::string_view::npos || arrow == std::string_view::npos || arrow < bar)
    lexer.fail(start, "dim_labels: \"{}\" is not of the form b01f_01io->b01f", text);
  const std::string_view kernel_text = text.substr(bar + 1, arrow - bar - 1);
  Labels input = parse_labels(lexer, start, text.substr(0, bar), 'b', 'f');
  Labels kernel = parse_labels(lexer, start + bar + 1, kernel_text, 'i', 'o');
  Labels output = parse_labels(lexer, start + arrow + 2, text.substr(arrow + 2), 'b', 'f');
  if (input.spatial.size() != kernel.spatial.size() ||
      input.spatial.size() != output.spatial.size())
    lexer.fail(start, "dim_labels: {} has {}, {} and {} spatial dims; they must agree", text,
               input.spatial.size(), kernel.spatial.size(), output.spatial.size());
  ConvDims& conv = attrs.conv.edit();
  conv.input_batch = input.first;
  conv.input_feature = input.second;
  conv.input_spatial = std::move(input.spatial);
  conv.kernel_input_feature = kernel.first;
  conv.kernel_output_feature = kernel.second;
  conv.kernel_spatial = std::move(kernel.spatial);
  conv.output_batch = output.first;
  conv.output_feature = output.second;
  conv.output_spatial = std::move(output.spatial);
  if (text.find('?') != std::string_view::npos) attrs.other["dim_labels"] = text;
}

std::string print_dim_labels(const Attributes& attrs) {
  if (attrs.other.contains("dim_labels") || !attrs.conv.present()) return "";
  const ConvDims& conv = attrs.conv.get();
  if (conv.input_batch == conv.input_feature) return "";  // no labels were ever given
  std::string text;
  put_labels(text, conv.input_batch, 'b', conv.input_feature, 'f', conv.input_spatial);
  text += "_";
  put_labels(text, conv.kernel_input_feature, 'i', conv.kernel_output_feature, 'o',
             conv.kernel_spatial);
  text += "->";
  put_labels(text, conv.output_batch, 'b', conv.output_feature, 'f', conv.output_spatial);
  return text;
}

}  // namespace gspmd
