#include "stablehlo/text/type.h"

#include <charconv>

namespace gspmd::stablehlo {
namespace {

struct ElementRow {
  std::string_view text;
  DType dtype;
};
// clang-format off
constexpr ElementRow kElements[] = {
    {"f32", DType::f32}, {"i32", DType::s32}, {"i1", DType::pred}, {"i64", DType::s64},
    {"bf16", DType::bf16}, {"f16", DType::f16}, {"f64", DType::f64}, {"ui32", DType::u32},
    {"i8", DType::s8}, {"ui8", DType::u8}, {"i16", DType::s16}, {"ui16", DType::u16},
    {"ui64", DType::u64}, {"i2", DType::s2}, {"i4", DType::s4}, {"ui2", DType::u2},
    {"ui4", DType::u4}, {"ui1", DType::u1},
    {"f4E2M1FN", DType::f4e2m1fn}, {"f6E2M3FN", DType::f6e2m3fn}, {"f6E3M2FN", DType::f6e3m2fn},
    {"f8E3M4", DType::f8e3m4}, {"f8E4M3", DType::f8e4m3},
    {"f8E4M3B11FNUZ", DType::f8e4m3b11fnuz}, {"f8E4M3FN", DType::f8e4m3fn},
    {"f8E4M3FNUZ", DType::f8e4m3fnuz}, {"f8E5M2", DType::f8e5m2},
    {"f8E5M2FNUZ", DType::f8e5m2fnuz}, {"f8E8M0FNU", DType::f8e8m0fnu},
    {"si8", DType::s8}, {"si16", DType::s16}, {"si32", DType::s32}, {"si64", DType::s64},
    {"si2", DType::s2}, {"si4", DType::s4}, {"index", DType::s64},
};
// clang-format on

constexpr size_t kMostParts = size_t{1} << 20;  // of a tuple

size_t parts_of(const Shape& shape) {
  size_t count = 1;
  for (const Shape& element : shape.elements) count += parts_of(element);
  return count;
}

std::string_view slice(Cursor& cursor, size_t begin) {
  return cursor.text().substr(begin, cursor.position() - begin);
}

}  // namespace

bool fits(const Shape& shape, const Type& type) {
  const auto fit = [](const auto& self, const Shape& a, const Shape& b) -> bool {
    if (a.is_tuple != b.is_tuple) return false;
    if (a.is_tuple) {
      if (a.elements.size() != b.elements.size()) return false;
      for (size_t i = 0; i < a.elements.size(); ++i)
        if (!self(self, a.elements[i], b.elements[i])) return false;
      return true;
    }
    if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) return false;
    for (size_t i = 0; i < a.dims.size(); ++i)
      if (b.dims[i] != kUnknown && a.dims[i] != b.dims[i]) return false;
    return true;
  };
  if (!type.is_future) return fit(fit, shape, type.shape);
  // What asynchronous work has begun: (operands, result, ...).
  if (!shape.is_tuple || shape.elements.size() < 2) return false;
  const std::vector<Shape>& results = type.shape.elements;
  return fit(fit, shape.elements[1], results.size() == 1 ? results[0] : type.shape);
}

const Type* Types::of(Shape shape) {
  auto type = std::make_unique<Type>();
  for (const int64_t size : shape.dims) type->known = type->known && size != kUnknown;
  type->shape = std::move(shape);
  return owned_.emplace_back(std::move(type)).get();
}

const Type* Types::function(const List<const Type*>& inputs, const List<const Type*>& results) {
  const ArenaScope lasting(arena_);
  auto type = std::make_unique<Type>();
  type->is_function = true;
  type->refusal = "a function is no value";
  type->known = false;
  type->inputs.assign(inputs.begin(), inputs.end());
  type->results.assign(results.begin(), results.end());
  return owned_.emplace_back(std::move(type)).get();
}

void Types::add_alias(std::string_view name, size_t position) {
  aliases_[name].position = position;
}

void Types::know_aliases_of(const Types& other) {
  for (const auto& [name, alias] : other.aliases_) add_alias(name, alias.position);
}

const Type* Types::read_alias(Cursor& cursor, std::string_view name, size_t position) {
  const auto found = aliases_.find(name);
  if (found == aliases_.end()) cursor.fail(position, "there is no type alias \"!{}\"", name);
  Alias& alias = found->second;
  if (alias.type != nullptr) return alias.type;
  if (alias.open) cursor.fail(position, "the type alias \"!{}\" stands for itself", name);
  alias.open = true;
  Cursor at = cursor.from(alias.position);
  const Type* const type = read(at);
  aliases_[name].type = type;
  return type;
}

// The text of a plain tensor ends at its first '>'.
const Type* Types::read(Cursor& cursor) {
  const size_t begin = cursor.position();
  const std::string_view text = cursor.text();
  if (text.substr(begin, 7) == "tensor<") {
    const size_t end = text.find('>', begin);
    if (end != std::string_view::npos && end - begin < 200) {
      const auto known = by_text_.find(text.substr(begin, end + 1 - begin));
      if (known != by_text_.end()) {
        cursor.seek(end + 1);
        return known->second;
      }
    }
  }
  if (++depth_ > kMaxDepth)
    cursor.fail(begin, "types inside one another more than {} deep are not supported", kMaxDepth);
  const Type* const type = read_new(cursor);
  --depth_;
  return type;
}

const Type* Types::read_new(Cursor& cursor) {
  const ArenaScope lasting(arena_);
  const size_t begin = cursor.position();
  auto type = std::make_unique<Type>();
  if (cursor.peek() == '(') {
    read_function(cursor, *type);
  } else if (cursor.accept("!")) {
    const std::string_view name = cursor.suffix_id("a type");
    if (name == "stablehlo.token" || name == "mhlo.token") {
      type->shape = Shape(DType::token, {});
    } else if (name == "stablehlo.future" || name == "stablehlo.async_bundle" ||
               name == "mhlo.async_bundle") {
      type->is_future = true;
      read_tuple(cursor, *type);
    } else if (cursor.adjacent() == '<') {
      cursor.expect("<", "behind a type");
      cursor.balanced("a type");
      cursor.expect(">", "behind a type");
      type->refusal = name.starts_with("quant.") ? "quantized types are not supported; dequantize "
                                                   "the program before it is exported"
                                                 : "the type is not supported";
    } else if (name.find('.') == std::string_view::npos) {
      return read_alias(cursor, name, begin);
    } else {
      type->refusal = "the type is not supported";
    }
  } else {
    const std::string_view word = cursor.word("a type");
    if (word == "tensor") {
      read_tensor(cursor, *type);
    } else if (word == "tuple") {
      read_tuple(cursor, *type);
    } else if (word == "none") {
      type->shape = Shape::tuple({});
    } else if (word == "memref" || word == "vector") {
      cursor.expect("<", "behind a type");
      cursor.balanced("a type");
      cursor.expect(">", "behind a type");
      type->refusal = "only tensors, tuples and tokens are supported";
    } else {  // a type of attributes: i64, complex<f32>
      cursor.seek(begin);
      type->shape = Shape(read_element(cursor, *type), {});
    }
  }
  if (!type->refusal.empty()) type->known = false;
  type->text = cursor.text().substr(begin, cursor.position() - begin);
  while (!type->text.empty() && (type->text.back() == ' ' || type->text.back() == '\n'))
    type->text.remove_suffix(1);
  owned_.push_back(std::move(type));
  const Type* const made = owned_.back().get();
  // What is found by its first '>' is keyed so.
  if (made->text.starts_with("tensor<") && made->text.find('>') == made->text.size() - 1)
    by_text_.emplace(made->text, made);
  return made;
}

DType Types::read_element(Cursor& cursor, Type& type) {
  const size_t begin = cursor.position();
  if (cursor.accept("!")) {
    cursor.suffix_id("an element type");
    if (cursor.adjacent() == '<') {
      cursor.expect("<", "behind a type");
      cursor.balanced("an element type");
      cursor.expect(">", "behind a type");
    }
    type.refusal = fmt::format("{} is not supported; dequantize the program before it is exported",
                               slice(cursor, begin));
    return DType::f32;
  }
  const std::string_view word = cursor.word("an element type");
  for (const ElementRow& row : kElements)
    if (row.text == word) return row.dtype;
  if (word == "complex") {
    cursor.expect("<", "behind complex");
    const DType part = read_element(cursor, type);
    cursor.expect(">", "behind the parts of a complex type");
    if (part == DType::f32) return DType::c64;
    if (part == DType::f64) return DType::c128;
    type.refusal = "complex numbers have parts of f32 or f64";
    return DType::c64;
  }
  if (word == "tf32" || word == "f80" || word == "f128" ||
      ((word.starts_with("i") || word.starts_with("ui")) && is_digit(word.back()))) {
    type.refusal =
        fmt::format("the element type {} is not supported; convert to another one", word);
    return DType::f32;
  }
  cursor.fail(begin, "\"{}\" is no element type", word);
}

// "2x3xf32", "?x3xf32", "*xf32": dims are lexed by hand, since "2x3xf32" is one run.
void Types::read_tensor(Cursor& cursor, Type& type) {
  cursor.expect("<", "behind tensor");
  const size_t at = cursor.position();
  if (cursor.accept("*")) {
    cursor.expect("x", "behind *");
    type.refusal = "a tensor without a rank is not supported; export with static shapes";
    read_element(cursor, type);
  } else {
    const std::string_view text = cursor.text();
    size_t next = at;
    while (next < text.size() && (is_digit(text[next]) || text[next] == '?')) {
      int64_t size = kUnknown;
      if (text[next] == '?') {
        ++next;
        type.known = false;
      } else {
        const auto [end, error] =
            std::from_chars(text.data() + next, text.data() + text.size(), size);
        if (error != std::errc{}) cursor.fail(next, "a size of a dim is no 64-bit integer");
        next = static_cast<size_t>(end - text.data());
      }
      type.shape.dims.push_back(size);
      cursor.seek(next);
      if (cursor.peek() != 'x')
        cursor.fail(next, "expected \"x\" behind a size, as in tensor<2x3xf32>");
      cursor.seek(cursor.position() + 1);
      next = cursor.position();  // blanks may stand on either side
    }
    cursor.seek(next);
    type.shape.dtype = read_element(cursor, type);
  }
  if (cursor.accept(",")) read_bounds(cursor, type);
  cursor.expect(">", "behind a tensor's element type");
}

// "#stablehlo.bounds<8, ?>": dims that are at most so large.
void Types::read_bounds(Cursor& cursor, Type& type) {
  const size_t at = cursor.position();
  const bool known = cursor.accept("#stablehlo.bounds<") ||
                     cursor.accept("#mhlo.type_extensions<bounds = [") ||
                     cursor.accept("#stablehlo.type_extensions<bounds = [");
  if (!known) {
    cursor.accept("#");
    if (!cursor.peek_word().empty()) cursor.word("an encoding");
    if (cursor.accept("<")) {
      cursor.balanced("an encoding");
      cursor.expect(">", "behind an encoding");
    }
    type.refusal = "encodings of tensors other than #stablehlo.bounds are not supported";
    return;
  }
  std::vector<int64_t>& dims = type.shape.dims;
  std::vector<bool> dynamic(dims.size(), false);
  bool known_sizes = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) cursor.expect(",", "between bounds");
    if (cursor.accept("?")) {
      known_sizes = known_sizes && dims[i] != kUnknown;
      continue;
    }
    const int64_t bound = cursor.integer("a bound");
    if (dims[i] != kUnknown || bound < 0)
      cursor.fail(at, "dim {} has the size {} and the bound {}; a bound is of an open dim", i,
                  dims[i], bound);
    dims[i] = bound;
    dynamic[i] = true;
  }
  cursor.accept("]");
  cursor.expect(">", "behind the bounds, one per dim");
  type.known = known_sizes;
  type.shape.dynamic_dims = std::move(dynamic);
}

void Types::read_tuple(Cursor& cursor, Type& type) {
  const size_t begin = cursor.position();
  size_t parts = 0;
  cursor.expect("<", "behind tuple");
  std::vector<Shape> elements;
  while (!cursor.accept(">")) {
    if (!elements.empty()) cursor.expect(",", "between the elements of a tuple");
    const Type* const element = read(cursor);
    if (!element->refusal.empty()) type.refusal = element->refusal;
    type.known = type.known && element->known;
    parts += parts_of(element->shape);
    if (parts > kMostParts)
      cursor.fail(begin, "a tuple of more than {} types, those inside it counted", kMostParts);
    elements.push_back(element->shape);
  }
  type.shape = Shape::tuple(std::move(elements));
}

void Types::read_function(Cursor& cursor, Type& type) {
  type.is_function = true;
  type.refusal = "a function is no value";
  const auto list = [&](List<const Type*>& types) {
    while (!cursor.accept(")")) {
      if (!types.empty()) cursor.expect(",", "between types");
      types.push_back(read(cursor));
    }
  };
  cursor.expect("(", "before the types of the operands");
  list(type.inputs);
  cursor.expect("->", "between the types of operands and results");
  if (cursor.accept("("))
    list(type.results);
  else
    type.results.push_back(read(cursor));
}

std::string element_text(DType dtype) {
  if (dtype == DType::c64) return "complex<f32>";
  if (dtype == DType::c128) return "complex<f64>";
  for (const ElementRow& row : kElements)
    if (row.dtype == dtype) return std::string(row.text);
  user_error("{}: StableHLO has no such element type; convert to another one", dtype_name(dtype));
}

std::string type_text(const Shape& shape) {
  std::string text;
  if (shape.is_tuple) {
    for (const Shape& element : shape.elements)
      text += (text.empty() ? "" : ", ") + type_text(element);
    return "tuple<" + text + ">";
  }
  if (shape.dtype == DType::token) return "!stablehlo.token";
  std::string bounds;
  bool bounded = false;
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    const bool dynamic = i < shape.dynamic_dims.size() && shape.dynamic_dims[i];
    bounded = bounded || dynamic;
    const std::string size = std::to_string(shape.dims[i]);
    text += (dynamic ? "?" : size) + "x";
    bounds += (i ? ", " : "") + (dynamic ? size : std::string("?"));
  }
  text += element_text(shape.dtype);
  if (bounded) text += ", #stablehlo.bounds<" + bounds + ">";
  return "tensor<" + text + ">";
}

}  // namespace gspmd::stablehlo
