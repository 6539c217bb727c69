#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gspmd/base/array.h"
#include "stablehlo/text/arena.h"
#include "stablehlo/text/type.h"

namespace gspmd::stablehlo {

// What an attribute is.
enum class AttributeKind : uint8_t {
  unit,        // a key alone
  integer,     // 1 : i32, true, false
  real,        // 1.5 : f32
  string,      // "text"
  symbol,      // @f
  type,        // tensor<2xf32>
  list,        // [a, b]
  dictionary,  // {a = 1}
  integers,    // array<i64: 1, 2>
  dense,       // dense<1> : tensor<2xi64>
  word,        // LT, #stablehlo<comparison_direction LT>
  dialect,     // #stablehlo.gather<...>
  other,       // read over
};

struct Attribute;
struct NamedAttribute;
using Dictionary = List<NamedAttribute>;

// The value of an attribute. Fields that its kind does not name are at their defaults.
struct Attribute {
  AttributeKind kind = AttributeKind::unit;
  size_t position = 0;            // in the text
  size_t end = 0;                 // behind it
  int64_t integer = 0;            // of integer
  double real = 0;                // of real
  std::string text;               // of string, symbol, word; of dialect: "stablehlo.gather"
  size_t body = 0, body_end = 0;  // of dialect: what stands between < and >
  const Type* type = nullptr;     // of type, dense; of numbers: what stands behind the colon
  Array array;                    // of dense; of a splat: its one element
  bool is_splat = false;          // of dense
  std::vector<int64_t> integers;  // of integers
  std::vector<Attribute> list;    // of list
  Dictionary entries;             // of dictionary
};

struct NamedAttribute {
  std::string_view name;  // of the text, or of one that lasts as long
  Attribute value;
  size_t position = 0;
  bool is_property = false;   // stands in <{...}>
  mutable bool used = false;  // a reader has asked for it
};

// The attributes of one module: aliases and resources are looked up where they are used.
class AttributeReader {
 public:
  explicit AttributeReader(Types& types) : types_(types) {}
  Types& types() { return types_; }

  // "#x = attribute": read when it is first used.
  void add_alias(std::string_view name, size_t position);
  void know_aliases_of(const AttributeReader& other);
  // Where the attribute that "#x" stands for is written; npos: there is no such alias.
  size_t alias_position(std::string_view name) const;

  Attribute read(Cursor& cursor);
  // "{a = 1, b}": appended to `into`, each name once.
  void read_dictionary(Cursor& cursor, Dictionary& into, bool is_property = false);
  // A dense literal: the cursor stands at "dense" or "dense_resource".
  Attribute read_dense(Cursor& cursor);
  // A dialect attribute's body written without its name: the cursor stands at "<".
  Attribute read_body(Cursor& cursor, std::string name);

 private:
  Attribute read_new(Cursor& cursor);
  Attribute read_alias(Cursor& cursor);
  Attribute read_hash(Cursor& cursor);
  Attribute read_number(Cursor& cursor);
  Attribute read_word(Cursor& cursor);
  Attribute read_array(Cursor& cursor);
  Attribute read_list(Cursor& cursor);
  std::string_view resource(Cursor& cursor, std::string_view name, size_t position);

  struct Alias {
    size_t position = 0;
    bool open = false;
  };
  Types& types_;
  std::unordered_map<std::string_view, Alias> aliases_;
  std::deque<std::string> names_;  // those written with escapes
  int depth_ = 0;
  int of_alias_ = -1;  // what the outermost alias that is open has stood for so far; -1: none is
};

// The key of a dictionary, quoted where it is no bare id.
std::string key_text(std::string_view name);
// The attribute as text with one blank behind commas and none inside brackets, aliases resolved.
std::string attribute_text(AttributeReader& attributes, const Cursor& cursor,
                           const Attribute& attribute);
// The same of a piece of text.
std::string tidy_text(const Cursor& cursor, size_t begin, size_t end);
// The same of a text that is an attribute, or brackets from `open` to the one that closes it, and
// nothing else; nullopt: it is not, and would not be read back as one.
std::optional<std::string> whole_attribute_text(std::string_view text);
std::optional<std::string> bracketed_text(std::string_view text, char open);

}  // namespace gspmd::stablehlo
