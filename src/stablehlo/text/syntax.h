#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stablehlo/text/attribute.h"

namespace gspmd::stablehlo {

// "%0#1": a use of a value.
struct Use {
  std::string_view name;
  int64_t index = 0;
  size_t position = 0;
};

// "%0:2 =": names that an op gives to its results.
struct ResultName {
  std::string_view name;
  int64_t count = 1;
  size_t position = 0;
};

struct Op;

// An argument of a block or function.
struct Argument {
  std::string_view name;
  const Type* type = nullptr;
  Dictionary attributes;
  std::string_view location;  // what stands in loc(...)
  size_t position = 0;
};

// One block.
struct Region {
  std::vector<Argument> arguments;
  std::vector<Op> ops;
  size_t position = 0;
  bool is_applied = false;  // of one op, as "applies stablehlo.add" says it
};

struct OpRow;

// An op in its generic form; pretty forms are read into the same.
struct Op {
  std::string_view name;  // "stablehlo.add"
  size_t position = 0;
  const OpRow* row = nullptr;
  std::vector<ResultName> results;
  std::vector<Use> operands;
  Dictionary attributes;
  std::vector<Region> regions;
  std::vector<const Type*> operand_types, result_types;
  std::string_view location;

  const Attribute* find(std::string_view attribute) const;  // marks it as used
  const NamedAttribute* peek(std::string_view attribute) const;
  void set(std::string_view attribute, Attribute value);
};

struct Function {
  std::string name;
  std::string_view visibility;  // "private", "public", "nested" or empty
  Region body;
  bool has_body = false;
  std::vector<const Type*> result_types;
  std::vector<Dictionary> result_attributes;  // one per result
  Dictionary attributes;
  std::string_view location;
  size_t position = 0;
};

struct Mesh {
  std::string name;
  std::string text;  // "#sdy.mesh<["x"=2]>"
  size_t position = 0;
};

// A module as it is written.
struct Syntax {
  Syntax(std::string_view text, std::string_view file, size_t begin, size_t end)
      : cursor(text, file, begin, end), attributes_table(types) {}
  Syntax(const Syntax&) = delete;
  Syntax& operator=(const Syntax&) = delete;

  Cursor cursor;
  Types types;
  AttributeReader attributes_table;
  std::string name;
  Dictionary attributes;
  std::vector<Mesh> meshes;
  std::vector<std::unique_ptr<Function>> functions;
  std::unordered_map<std::string, Function*> by_name;
};

// Reads text[begin, end), one module.
std::unique_ptr<Syntax> read_syntax(std::string_view text, std::string_view file, size_t begin,
                                    size_t end);

}  // namespace gspmd::stablehlo
