#pragma once

#include <string_view>

#include "stablehlo/text/syntax.h"

namespace gspmd::stablehlo {

// Reads ops; what the pretty forms of rows are written with.
class OpReader {
 public:
  explicit OpReader(Syntax& syntax) : syntax_(syntax), cursor_(syntax.cursor) {}

  Cursor& cursor() { return cursor_; }
  Syntax& syntax() { return syntax_; }
  AttributeReader& attributes() { return syntax_.attributes_table; }
  Types& types() { return syntax_.types; }

  // Ops up to the closing brace.
  void read_ops(Ops& ops);
  // An op with its results and location.
  void read_op(Op& op);
  // Name and row of an op by the name in the text.
  void find_op(Op& op, std::string_view name);
  // "{ ops }" with "^bb0(...):" or without.
  void read_region(Region& region);
  // "(%a: T loc(..), ...)" behind a region's label, or of forms that name arguments themselves.
  void read_arguments(List<Argument>& arguments, bool with_attributes = false);
  // "%0#1".
  Use read_use();
  // "%a, %b" up to what is no value; may be empty.
  void read_uses(List<Use>& uses);
  // "{...}" where there is one.
  void read_dictionary(Op& op);
  // ": T" or ": (T, ..) -> R": the types as they are written. One type alone is of all operands
  // and the result.
  void read_types(Op& op);
  // Behind a colon: "(T, T) -> R", into operands and results.
  void read_function_type(Op& op);
  void read_type_list(List<const Type*>& types);
  // "loc(...)", what stands inside; empty where there is none.
  std::string_view read_location();
  // A value of the pretty forms: "[1, 0]", "[0] x [1]", "LT", "<...>", "e5m10", 3, "text".
  Attribute read_value();

 private:
  void read_generic(Op& op);
  void read_custom(Op& op);
  void read_results(Op& op);

  Syntax& syntax_;
  Cursor& cursor_;
  int depth_ = 0;
};

}  // namespace gspmd::stablehlo
