#include "stablehlo/text/attribute.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "stablehlo/text/dense.h"

namespace gspmd::stablehlo {
namespace {

// What one use of an alias may stand for, aliases inside it resolved.
constexpr int kMostOfAlias = 1 << 20;

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// "0x7F800000 : f32" and "1.5": a float, or the bits of one.
double float_value(Cursor& cursor, std::string_view text, DType dtype, size_t position) {
  Array scalar(dtype, {});
  read_float_element(cursor, text, dtype, position, scalar.bytes().data());
  return dtype_size(dtype) == 0 ? 0 : scalar.at(0);
}

}  // namespace

void AttributeReader::add_alias(std::string_view name, size_t position) {
  aliases_[name].position = position;
}

void AttributeReader::know_aliases_of(const AttributeReader& other) {
  for (const auto& [name, alias] : other.aliases_) add_alias(name, alias.position);
}

size_t AttributeReader::alias_position(std::string_view name) const {
  const auto found = aliases_.find(name);
  return found == aliases_.end() ? std::string_view::npos : found->second.position;
}

Attribute AttributeReader::read(Cursor& cursor) {
  const size_t begin = cursor.position();
  if (++depth_ > kMaxDepth)
    cursor.fail(begin, "attributes inside one another more than {} deep are not supported",
                kMaxDepth);
  Attribute attribute = read_new(cursor);
  --depth_;
  if (of_alias_ >= 0) {
    const size_t more = 1 + attribute.text.size() / 64 + attribute.integers.size() / 8;
    of_alias_ += static_cast<int>(std::min<size_t>(more, kMostOfAlias));
    if (of_alias_ > kMostOfAlias)
      cursor.fail(begin, "an alias stands for more than {} attributes", kMostOfAlias);
  }
  attribute.position = begin;
  attribute.end = cursor.position();
  while (attribute.end > begin && is_blank(cursor.text()[attribute.end - 1])) --attribute.end;
  return attribute;
}

Attribute AttributeReader::read_new(Cursor& cursor) {
  const char c = cursor.peek();
  Attribute attribute;
  switch (c) {
    case '#':
      return read_hash(cursor);
    case '[':
      return read_list(cursor);
    case '{':
      attribute.kind = AttributeKind::dictionary;
      read_dictionary(cursor, attribute.entries);
      return attribute;
    case '"':
      attribute.kind = AttributeKind::string;
      attribute.text = cursor.quoted("an attribute");
      if (cursor.accept(":")) attribute.type = types_.read(cursor);
      return attribute;
    case '@':
      attribute.kind = AttributeKind::symbol;
      attribute.text = cursor.symbol("a symbol");
      while (cursor.accept("::")) attribute.text += "::" + cursor.symbol("a symbol");
      return attribute;
    case '!':
    case '(':
      attribute.kind = AttributeKind::type;
      attribute.type = types_.read(cursor);
      return attribute;
    default:
      break;
  }
  if (c == '-' || is_digit(c)) return read_number(cursor);
  return read_word(cursor);
}

Attribute AttributeReader::read_number(Cursor& cursor) {
  Attribute attribute;
  const size_t begin = cursor.position();
  const std::string_view text = cursor.number("a number");
  const bool is_hex = text.find('x') != std::string_view::npos;
  const bool has_dot = text.find('.') != std::string_view::npos;
  if (cursor.accept(":")) attribute.type = types_.read(cursor);
  const DType dtype = attribute.type ? attribute.type->shape.dtype
                      : has_dot      ? DType::f64
                                     : DType::s64;
  if (has_dot || (is_hex && is_floating(dtype))) {
    attribute.kind = AttributeKind::real;
    if (!is_floating(dtype)) cursor.fail(begin, "\"{}\" is no {}", text, dtype_name(dtype));
    attribute.real = float_value(cursor, text, dtype, begin);
    return attribute;
  }
  attribute.kind = AttributeKind::integer;
  const size_t behind = cursor.position();
  cursor.seek(begin);
  attribute.integer = cursor.integer("a number");
  cursor.seek(behind);
  if (is_floating(dtype)) {
    attribute.kind = AttributeKind::real;
    attribute.real = static_cast<double>(attribute.integer);
  }
  return attribute;
}

Attribute AttributeReader::read_word(Cursor& cursor) {
  Attribute attribute;
  const size_t begin = cursor.position();
  const std::string_view word = cursor.peek_word();
  if (word == "dense" || word == "dense_resource") return read_dense(cursor);
  if (word == "array") return read_array(cursor);
  cursor.word("an attribute");
  if (word == "true" || word == "false") {
    attribute.kind = AttributeKind::integer;
    attribute.integer = word == "true";
    if (cursor.accept(":")) attribute.type = types_.read(cursor);
    return attribute;
  }
  if (word == "unit") return attribute;
  if (word == "loc") {
    attribute.kind = AttributeKind::other;
    cursor.expect("(", "behind loc");
    cursor.balanced("a location");
    cursor.expect(")", "behind a location");
    return attribute;
  }
  if (word == "affine_map" || word == "affine_set" || word == "sparse" || word == "distinct" ||
      word == "strided") {
    attribute.kind = AttributeKind::other;
    if (cursor.adjacent() == '[') {
      cursor.expect("[", "behind a word");
      cursor.balanced("an attribute");
      cursor.expect("]", "behind a number");
    }
    cursor.expect("<", fmt::format("behind {}", word));
    cursor.balanced("an attribute");
    cursor.expect(">", "behind an attribute");
    if (cursor.accept(":")) types_.read(cursor);
    return attribute;
  }
  const bool is_type =
      word == "tensor" || word == "tuple" || word == "none" || word == "index" ||
      word == "complex" || word == "memref" || word == "vector" ||
      (word.size() >= 2 && (word[0] == 'i' || word[0] == 'f') && is_digit(word[1])) ||
      word == "bf16" || (word.starts_with("ui") && is_digit(word.back())) ||
      (word.starts_with("si") && is_digit(word.back()));
  if (is_type) {
    cursor.seek(begin);
    attribute.kind = AttributeKind::type;
    attribute.type = types_.read(cursor);
    return attribute;
  }
  attribute.kind = AttributeKind::word;
  attribute.text = word;
  return attribute;
}

// "array<i64: 1, 2>"; "array<i64>" is empty.
Attribute AttributeReader::read_array(Cursor& cursor) {
  Attribute attribute;
  attribute.kind = AttributeKind::integers;
  cursor.expect_word("array", "before an array");
  cursor.expect("<", "behind array");
  attribute.type = types_.read(cursor);
  if (!attribute.type->known || attribute.type->shape.rank() != 0 ||
      dtype_size(attribute.type->shape.dtype) == 0)
    cursor.fail(cursor.position(), "an array holds numbers: array<i64: 1, 2>");
  const bool is_float = is_floating(attribute.type->shape.dtype);
  if (cursor.accept(":")) {
    do {
      const size_t at = cursor.position();
      if (is_float) {
        attribute.list.push_back(read_number(cursor));
        continue;
      }
      if (cursor.accept_word("true")) {
        attribute.integers.push_back(1);
      } else if (cursor.accept_word("false")) {
        attribute.integers.push_back(0);
      } else {
        cursor.seek(at);
        attribute.integers.push_back(cursor.integer("an element of an array"));
      }
    } while (cursor.accept(","));
  }
  cursor.expect(">", "behind the elements of an array");
  return attribute;
}

// "[1, 2]"; "[0] x [1]" is a list of two lists.
Attribute AttributeReader::read_list(Cursor& cursor) {
  Attribute attribute;
  attribute.kind = AttributeKind::list;
  cursor.expect("[", "before a list");
  while (!cursor.accept("]")) {
    if (!attribute.list.empty()) cursor.expect(",", "between the elements of a list");
    if (cursor.peek() == '<')
      attribute.list.push_back(read_body(cursor, ""));
    else
      attribute.list.push_back(read(cursor));
  }
  return attribute;
}

Attribute AttributeReader::read_body(Cursor& cursor, std::string name) {
  Attribute attribute;
  attribute.kind = AttributeKind::dialect;
  attribute.position = cursor.position();
  attribute.text = std::move(name);
  cursor.expect("<", "before an attribute's body");
  attribute.body = cursor.position();
  cursor.balanced("an attribute");
  attribute.body_end = cursor.position();
  cursor.expect(">", "behind an attribute's body");
  attribute.end = cursor.position();
  return attribute;
}

// "#stablehlo.gather<...>", "#stablehlo<precision DEFAULT>", "#alias".
Attribute AttributeReader::read_hash(Cursor& cursor) {
  const size_t begin = cursor.position();
  cursor.expect("#", "before an attribute");
  const std::string_view name = cursor.suffix_id("an attribute's name");
  if (name.find('.') == std::string_view::npos && cursor.adjacent() != '<') {
    cursor.seek(begin);
    return read_alias(cursor);
  }
  Attribute attribute;
  if (cursor.adjacent() != '<') {
    attribute.kind = AttributeKind::dialect;
    attribute.text = name;
    return attribute;
  }
  attribute = read_body(cursor, std::string(name));
  Cursor inside = cursor.sub(attribute.body, attribute.body_end);
  if (name.find('.') == std::string_view::npos) {  // the opaque form
    const std::string_view word = inside.word("the name of an attribute");
    attribute.text = fmt::format("{}.{}", name, word);
    attribute.body = inside.position();
    if (inside.accept("<")) {  // "#sdy<mesh<...>>"
      attribute.body = inside.position();
      inside.balanced("an attribute");
      attribute.body_end = inside.position();
    }
    inside = cursor.sub(attribute.body, attribute.body_end);
  }
  // A body of one word is an enumeration.
  const std::string_view word = inside.peek_word();
  if (!word.empty() &&
      (name.starts_with("stablehlo") || name.starts_with("chlo") || name.starts_with("mhlo"))) {
    inside.word("a word");
    if (inside.at_end()) {
      attribute.kind = AttributeKind::word;
      attribute.text = word;
    }
  }
  return attribute;
}

Attribute AttributeReader::read_alias(Cursor& cursor) {
  const size_t begin = cursor.position();
  cursor.expect("#", "before an alias");
  const std::string_view name = cursor.suffix_id("an alias");
  const auto found = aliases_.find(name);
  if (found == aliases_.end()) cursor.fail(begin, "there is no attribute alias \"#{}\"", name);
  if (found->second.open) cursor.fail(begin, "the attribute alias \"#{}\" stands for itself", name);
  found->second.open = true;
  const bool is_outermost = of_alias_ < 0;
  if (is_outermost) of_alias_ = 0;
  Cursor at = cursor.from(found->second.position);
  Attribute attribute = read(at);
  if (is_outermost) of_alias_ = -1;
  aliases_[name].open = false;
  return attribute;
}

void AttributeReader::read_dictionary(Cursor& cursor, Dictionary& into, bool is_property) {
  cursor.expect("{", "before attributes");
  bool first = true;
  while (!cursor.accept("}")) {
    if (!first) cursor.expect(",", "between attributes");
    first = false;
    NamedAttribute named;
    named.position = cursor.position();
    named.is_property = is_property;
    if (cursor.peek() != '"') {
      named.name = cursor.word("an attribute's name");
    } else {
      Cursor raw = cursor;
      named.name = raw.raw_quoted("an attribute's name");
      std::string decoded = cursor.quoted("an attribute's name");
      if (decoded != named.name) named.name = names_.emplace_back(std::move(decoded));
    }
    for (const NamedAttribute& other : into)
      if (other.name == named.name)
        cursor.fail(named.position, "the attribute {} is given twice", named.name);
    if (cursor.accept("=")) named.value = read(cursor);
    into.push_back(std::move(named));
  }
}

std::string tidy_text(const Cursor& cursor, size_t begin, size_t end) {
  const std::string_view text = cursor.text().substr(begin, end - begin);
  std::string result;
  bool blank = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool comment = text.substr(i).starts_with("//");
    if (comment) i = std::min(text.find('\n', i), text.size());
    if (comment || is_blank(c)) {
      blank = true;
      continue;
    }
    const char last = result.empty() ? '\0' : result.back();
    const bool opens = last == '\0' || last == '(' || last == '[' || last == '<' ||
                       (last == '{' && result.size() >= 1);
    const bool closes = c == ')' || c == ']' || c == '>' || c == '}' || c == ',';
    if (last == ',' || (blank && !opens && !closes)) result.push_back(' ');
    blank = false;
    result.push_back(c);
    if (c != '"') continue;
    for (++i; i < text.size(); ++i) {
      result.push_back(text[i]);
      if (text[i] == '\\' && i + 1 < text.size())
        result.push_back(text[++i]);
      else if (text[i] == '"')
        break;
    }
  }
  return result;
}

std::string key_text(std::string_view name) {
  const bool is_bare =
      !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
        return is_letter(c) || is_digit(c) || c == '$' || c == '.';
      });
  return is_bare ? std::string(name) : quote(name);
}

std::string attribute_text(AttributeReader& attributes, const Cursor& cursor,
                           const Attribute& attribute) {
  const auto typed = [&](std::string text) {
    return attribute.type == nullptr ? text : fmt::format("{} : {}", text, attribute.type->text);
  };
  switch (attribute.kind) {
    case AttributeKind::unit:
      return "unit";
    case AttributeKind::string:
      return typed(quote(attribute.text));
    case AttributeKind::list: {
      std::string text = "[";
      for (const Attribute& element : attribute.list)
        text += (text.size() > 1 ? ", " : "") + attribute_text(attributes, cursor, element);
      return text + "]";
    }
    case AttributeKind::dictionary: {
      std::string text = "{";
      for (const NamedAttribute& entry : attribute.entries) {
        text += text.size() > 1 ? ", " : "";
        text += key_text(entry.name);
        if (entry.value.kind != AttributeKind::unit)
          text += " = " + attribute_text(attributes, cursor, entry.value);
      }
      return text + "}";
    }
    case AttributeKind::dialect:
      if (attribute.body_end > 0)
        return fmt::format("{}{}<{}>", attribute.text.empty() ? "" : "#", attribute.text,
                           tidy_text(cursor, attribute.body, attribute.body_end));
      return "#" + attribute.text;
    default: {
      const size_t begin = attribute.position;
      if (cursor.text()[begin] != '#') return tidy_text(cursor, begin, attribute.end);
      Cursor at = cursor.from(begin + 1);
      const size_t place = attributes.alias_position(at.suffix_id("an alias"));
      if (place == std::string_view::npos) return tidy_text(cursor, begin, attribute.end);
      Cursor alias = cursor.from(place);
      const Attribute value = attributes.read(alias);
      return attribute_text(attributes, cursor, value);
    }
  }
}

std::optional<std::string> whole_attribute_text(std::string_view text) {
  Cursor cursor(text, "", 0, text.size());
  Types types;
  AttributeReader attributes(types);
  try {
    const Attribute attribute = attributes.read(cursor);
    if (!cursor.at_end()) return std::nullopt;
    return attribute_text(attributes, cursor, attribute);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::optional<std::string> bracketed_text(std::string_view text, char open) {
  if (!text.starts_with(open)) return std::nullopt;
  Cursor cursor(text, "", 1, text.size());
  try {
    cursor.balanced("an attribute");
    if (!cursor.accept(open == '<' ? ">" : open == '[' ? "]" : "}") || !cursor.at_end())
      return std::nullopt;
    return tidy_text(cursor, 0, text.size());
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace gspmd::stablehlo
