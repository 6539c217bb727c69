#include "stablehlo/text/attribute.h"
#include "stablehlo/text/dense.h"

namespace gspmd::stablehlo {
namespace {

// The bytes of a resource begin with its alignment.
constexpr size_t kAlignmentDigits = 8;

[[noreturn]] void fail_elided(Cursor& cursor, size_t position) {
  cursor.fail(
      position,
      "the constant's elements were left out of the text; print the program without a limit "
      "for large elements");
}

// Where a literal's body ends, "dense<[1, 2]>": strings whole.
size_t body_end(Cursor& cursor, size_t begin) {
  const std::string_view text = cursor.text();
  cursor.seek(begin);
  if (cursor.peek() == '"') {
    cursor.raw_quoted("a literal");
    const size_t end = cursor.position();
    if (cursor.peek() != '>') cursor.fail(end, "expected \">\" behind a literal");
    return end;
  }
  const size_t end = text.find('>', begin);
  if (end == std::string_view::npos) cursor.fail(begin, "the literal has no \">\" behind it");
  return end;
}

const Type* read_literal_type(Cursor& cursor, Types& types, size_t begin) {
  cursor.expect(":", "behind a literal, before its type");
  const Type* const type = types.read(cursor);
  if (!type->refusal.empty()) cursor.fail(begin, "a literal of {}: {}", type->text, type->refusal);
  if (!type->known || type->shape.is_tuple || dtype_size(type->shape.dtype) == 0)
    cursor.fail(begin, "a literal is of a tensor with known sizes, not of {}", type->text);
  if (type->shape.bytes() == INT64_MAX)
    cursor.fail(begin, "{} has more bytes than can be addressed", to_string(type->shape));
  return type;
}

}  // namespace

Attribute AttributeReader::read_dense(Cursor& cursor) {
  Attribute attribute;
  attribute.kind = AttributeKind::dense;
  attribute.position = cursor.position();
  if (cursor.accept_word("dense_resource")) {
    cursor.expect("<", "behind dense_resource");
    const size_t at = cursor.position();
    const std::string name = cursor.peek() == '"'
                                 ? cursor.quoted("a resource's name")
                                 : std::string(cursor.suffix_id("a resource's name"));
    cursor.expect(">", "behind a resource's name");
    if (name == "__elided__") fail_elided(cursor, attribute.position);
    attribute.type = read_literal_type(cursor, types_, attribute.position);
    const std::string_view hex = resource(cursor, name, at);
    const std::string_view bytes = hex.substr(2 + kAlignmentDigits);
    const Shape& shape = attribute.type->shape;
    if (static_cast<int64_t>(bytes.size()) != 2 * shape.bytes())
      cursor.fail(at, "the resource {} has {} bytes, {} has {}", name, bytes.size() / 2,
                  to_string(shape), shape.bytes());
    attribute.array = Array(Shape(shape.dtype, shape.dims));
    if (!decode_hex(bytes, attribute.array.bytes()))
      cursor.fail(at, "a byte of the resource {} is no hex number", name);
    return attribute;
  }
  cursor.expect_word("dense", "before a literal");
  cursor.expect("<", "behind dense");
  const size_t begin = cursor.position();
  if (cursor.sees("__elided__")) fail_elided(cursor, begin);
  if (cursor.sees("tensor<") || cursor.sees("memref<"))
    cursor.fail(
        begin,
        "a literal with its type in front is not supported; print the program with an older "
        "or newer printer that writes dense<...> : tensor<...>");
  const size_t end = body_end(cursor, begin);
  cursor.seek(end + 1);
  attribute.type = read_literal_type(cursor, types_, begin);
  const size_t behind = cursor.position();
  const Shape& shape = attribute.type->shape;
  Cursor body = cursor.sub(begin, end);
  if (body.peek() == '"') {
    const std::string_view hex = body.raw_quoted("a literal");
    if (shape.elements_count() == 0)
      attribute.array = Array(Shape(shape.dtype, shape.dims));
    else
      attribute.array = read_hex_elements(body, hex, shape, begin, attribute.is_splat);
  } else if (body.at_end()) {
    if (shape.elements_count() != 0)
      cursor.fail(begin, "a literal without elements for {}", to_string(shape));
    attribute.array = Array(Shape(shape.dtype, shape.dims));
  } else {
    attribute.array = read_elements(body, shape, attribute.is_splat);
    if (!body.at_end())
      body.fail(body.position(), "expected \">\" behind a literal, found {}", body.found());
  }
  cursor.seek(behind);
  return attribute;
}

// "{-# dialect_resources: { builtin: { blob1: "0x..." } } #-}" at the end of the file.
std::string_view AttributeReader::resource(Cursor& cursor, std::string_view name, size_t position) {
  const std::string_view text = cursor.text();
  size_t at = text.find("{-#", position);
  while (at != std::string_view::npos) {
    const size_t found = text.find(name, at);
    if (found == std::string_view::npos) break;
    Cursor entry = cursor.from(found + name.size());
    const char before = text[found - 1];
    if (before != ' ' && before != '\n' && before != '"' && before != '{' && before != '\t' &&
        before != ',') {
      at = found + 1;
      continue;
    }
    entry.accept("\"");
    if (entry.accept(":") && entry.peek() == '"') {
      const std::string_view hex = entry.raw_quoted("a resource");
      if (!hex.starts_with("0x") || hex.size() < 2 + kAlignmentDigits)
        cursor.fail(found, "the bytes of a resource are 0x, its alignment and its elements");
      return hex;
    }
    at = found + 1;
  }
  cursor.fail(position, "there is no resource {} at the end of the file", name);
}

}  // namespace gspmd::stablehlo
