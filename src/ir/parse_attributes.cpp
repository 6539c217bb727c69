#include "ir/parse_attributes.h"

#include <charconv>

#include "ir/sharding_text.h"

namespace gspmd {
namespace {

struct DirectionName {
  Direction direction;
  std::string_view name;
};
constexpr DirectionName kDirections[] = {{Direction::eq, "EQ"}, {Direction::ne, "NE"},
                                         {Direction::ge, "GE"}, {Direction::gt, "GT"},
                                         {Direction::le, "LE"}, {Direction::lt, "LT"}};
constexpr std::string_view kTotalOrder = "TOTALORDER";
constexpr std::string_view kCompareTypes[] = {"FLOAT", kTotalOrder, "SIGNED", "UNSIGNED"};

// "{a,b,c}" with `element` reading one item.
template <class Element>
void read_braced(Lexer& lexer, std::string_view what, Element element) {
  // Messages are made only where they are needed.
  if (!lexer.accept("{")) lexer.expect("{", fmt::format("before {}", what));
  bool first = true;
  while (!lexer.accept("}")) {
    if (!first && !lexer.accept(","))
      lexer.expect(",", fmt::format("between elements of {}", what));
    first = false;
    element();
  }
}

}  // namespace

Dims read_dims(Lexer& lexer, std::string_view what) {
  Dims dims;
  read_braced(lexer, what, [&] { dims.push_back(lexer.integer(what)); });
  return dims;
}

void read_slice(Lexer& lexer, Attributes& attrs) {
  attrs.starts.clear();
  attrs.limits.clear();
  attrs.strides.clear();
  read_braced(lexer, "slice", [&] {
    lexer.expect("[", "before a slice range");
    attrs.starts.push_back(lexer.integer("a slice start"));
    lexer.expect(":", "between start and limit");
    attrs.limits.push_back(lexer.integer("a slice limit"));
    attrs.strides.push_back(lexer.accept(":") ? lexer.integer("a slice stride") : 1);
    lexer.expect("]", "after a slice range");
  });
}

std::string print_slice(const Attributes& attrs) {
  std::string text = "{";
  for (size_t i = 0; i < attrs.starts.size(); ++i) {
    text += fmt::format("{}[{}:{}", i ? ", " : "", attrs.starts[i], attrs.limits.at(i));
    text += attrs.strides.at(i) == 1 ? "]" : fmt::format(":{}]", attrs.strides[i]);
  }
  return text + "}";
}

void read_padding(Lexer& lexer, Attributes& attrs) {
  attrs.padding.clear();
  const char next = lexer.peek();
  if (next != '-' && (next < '0' || next > '9')) return;  // of a scalar: "padding="
  const size_t start = lexer.position();
  const std::string_view text = lexer.number("padding such as 0_1x2_0");
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  const auto here = [&] { return start + static_cast<size_t>(at - text.data()); };
  const auto number = [&] {
    int64_t value = 0;
    const auto [behind, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) lexer.fail(here(), "padding: expected low_high or low_high_interior");
    at = behind;
    return value;
  };
  for (;;) {
    PaddingDim dim;
    dim.low = number();
    if (at == end || *at++ != '_') lexer.fail(start, "padding: expected low_high per dim");
    dim.high = number();
    if (at != end && *at == '_') {
      ++at;
      dim.interior = number();
    }
    attrs.padding.push_back(dim);
    if (at == end) return;
    if (*at++ != 'x') lexer.fail(here() - 1, "padding: dims are separated by 'x'");
  }
}

std::string print_padding(const Attributes& attrs) {
  std::string text;
  for (const PaddingDim& dim : attrs.padding) {
    text += fmt::format("{}{}_{}", text.empty() ? "" : "x", dim.low, dim.high);
    if (dim.interior != 0) text += fmt::format("_{}", dim.interior);
  }
  return text;
}

void read_direction(Lexer& lexer, Attributes& attrs) {
  const size_t start = lexer.position();
  const std::string_view name = lexer.word("a direction");
  for (const DirectionName& row : kDirections)
    if (row.name == name) {
      attrs.direction = row.direction;
      return;
    }
  lexer.fail(start, "\"{}\" is no direction; use EQ, NE, GE, GT, LE or LT", name);
}

std::string print_direction(const Attributes& attrs) {
  return std::string(kDirections[static_cast<size_t>(attrs.direction)].name);
}

void read_compare_type(Lexer& lexer, Attributes& attrs) {
  const size_t start = lexer.position();
  const std::string_view name = lexer.word("a compare type");
  for (const std::string_view known : kCompareTypes)
    if (known == name) {
      // "type=FLOAT, order=TOTAL" are in total order, whichever is read first.
      if (attrs.compare_type != kTotalOrder) attrs.compare_type = name;
      return;
    }
  lexer.fail(start, "\"{}\" is no compare type; use FLOAT, TOTALORDER, SIGNED or UNSIGNED", name);
}

std::string print_compare_type(const Attributes& attrs) { return attrs.compare_type; }

void read_compare_order(Lexer& lexer, Attributes& attrs) {
  const size_t start = lexer.position();
  const std::string_view name = lexer.word("an order");
  if (name == "TOTAL")
    attrs.compare_type = std::string(kTotalOrder);
  else if (name != "PARTIAL")
    lexer.fail(start, "\"{}\" is no order of compare; use TOTAL or PARTIAL", name);
}

std::string print_compare_order(const Attributes&) { return ""; }

void read_channel_id(Lexer& lexer, Attributes& attrs) {
  attrs.channel_id = lexer.integer("channel_id");
}

std::string print_channel_id(const Attributes& attrs) {
  return attrs.channel_id ? fmt::format("{}", *attrs.channel_id) : "";
}

void read_fusion_kind(Lexer& lexer, Attributes& attrs) {
  attrs.fusion_kind = lexer.word("a fusion kind");
}

std::string print_fusion_kind(const Attributes& attrs) {
  return attrs.fusion_kind.empty() ? "kLoop" : *attrs.fusion_kind;
}

Sharding read_sharding(Lexer& lexer, const Shape& shape) {
  const size_t start = lexer.position();
  const std::string_view text = lexer.raw_value("sharding");
  try {
    return sharding_of(text, shape);
  } catch (const ShardingTextError& error) {
    lexer.fail_at(start + error.offset, error.message);
  }
}

}  // namespace gspmd
