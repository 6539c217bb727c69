#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "gspmd/ir/attributes.h"
#include "gspmd/ir/opcode.h"
#include "ir/lexer.h"

namespace gspmd {

// How one HLO attribute is spelt and which member holds it.
struct AttributeRow {
  struct Custom {
    void (*read)(Lexer& lexer, Attributes& attrs);
    std::string (*print)(const Attributes& attrs);  // empty: nothing to print
  };
  using Field = std::variant<Dims& (*)(Attributes&), int64_t& (*)(Attributes&),
                             bool& (*)(Attributes&), std::string& (*)(Attributes&), Custom>;
  std::string_view name;
  Field field;
};

enum class Presence : uint8_t {
  optional,  // printed when it differs from the default
  always,    // printed always, may be absent when read
  required,  // printed always, its absence is an error
};

struct OpcodeAttribute {
  const AttributeRow* row;
  Presence presence;
};

// The attributes that an opcode has, in print order. Others are kept raw in Attributes::other.
std::span<const OpcodeAttribute> attributes_of(Opcode opcode);

// The names of an opcode's called computations, in the order of Node::called.
std::span<const std::string_view> called_names(Opcode opcode);

void read_attribute(const AttributeRow& row, Lexer& lexer, Attributes& attrs);
// "dimensions": the name in HLO text (rows that share one differ by a prefix).
std::string_view spelling(const AttributeRow& row);
// The text behind "name="; empty for an optional attribute at its default.
std::string print_attribute(const OpcodeAttribute& attribute, const Attributes& attrs);

}  // namespace gspmd
