#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "gspmd/ir/attributes.h"
#include "gspmd/ir/opcode.h"
#include "ir/lexer.h"

namespace gspmd {

// A member of Attributes, or of one of its boxes: to write, which makes the box, and to look at.
template <class T>
struct AttributeMember {
  T& (*edit)(Attributes&);
  const T& (*view)(const Attributes&);
};

// How one HLO attribute is spelt and which member holds it.
struct AttributeRow {
  struct Integer : AttributeMember<int64_t> {
    int64_t standard = 0;  // what its absence means
  };
  struct Quoted : AttributeMember<std::string> {};  // "x"
  struct Word : AttributeMember<std::string> {};    // x
  struct Custom {
    void (*read)(Lexer& lexer, Attributes& attrs);
    std::string (*print)(const Attributes& attrs);  // empty: nothing to print
  };
  using Field =
      std::variant<AttributeMember<Dims>, Integer, AttributeMember<double>, AttributeMember<bool>,
                   AttributeMember<std::optional<bool>>, Quoted, Word, Custom>;
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

void read_attribute(const AttributeRow& row, Lexer& lexer, Attributes& attrs);
// "dimensions": the name in HLO text (rows that share one differ by a prefix).
std::string_view spelling(const AttributeRow& row);
// Whether HLO has an attribute of this name that no field holds and that changes no value: what is
// kept as text may be anything else too.
bool is_kept_attribute(std::string_view name);
// The text behind "name="; empty for an optional attribute at its default.
std::string print_attribute(const OpcodeAttribute& attribute, const Attributes& attrs);

}  // namespace gspmd
