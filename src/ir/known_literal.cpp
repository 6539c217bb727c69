#include "gspmd/ir/known_literal.h"

#include "gspmd/base/error.h"

namespace gspmd {

const Array& known_literal(const Node& constant) {
  if (constant.attrs.literal.empty())
    user_error(
        "constant: the elements of \"{}\", {}, were left out ({{...}}); print the module with "
        "large "
        "constants to run it",
        constant.name(), to_string(constant.shape));
  return constant.attrs.literal;
}

}  // namespace gspmd
