#pragma once

// Products of tensors, written as in numpy.einsum.

#include <cstddef>
#include <string>
#include <string_view>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {
// What is wrong with an einsum spec of `operands` operands; nullptr when it is right.
constexpr bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr const char* einsum_spec_problem(std::string_view spec, int operands) {
  const size_t arrow = spec.find("->");
  if (arrow == std::string_view::npos) return "no '->' before the result's labels";
  const std::string_view inputs = spec.substr(0, arrow);
  const std::string_view output = spec.substr(arrow + 2);
  int commas = 0;
  for (const char c : inputs) {
    if (c == ',')
      ++commas;
    else if (!is_label(c))
      return "labels of operands must be letters, operands separated by ','";
  }
  if (commas + 1 != operands) return "the number of operands differs from the number given";
  for (size_t i = 0; i < output.size(); ++i) {
    if (!is_label(output[i])) return "labels of the result must be letters";
    if (inputs.find(output[i]) == std::string_view::npos)
      return "a label of the result is in no operand";
    if (output.find(output[i], i + 1) != std::string_view::npos)
      return "a label is repeated in the result";
  }
  return nullptr;
}

// Not constexpr: a literal spec that reaches it does not compile, and the compiler names the
// reason.
inline void einsum_spec_is_wrong(const char* /*reason*/) {}
}  // namespace detail

// A spec that is only known at run time; checked when used.
struct RuntimeSpec {
  std::string text;  // the spec, as for einsum
};
inline RuntimeSpec runtime_spec(std::string text) { return {std::move(text)}; }  // makes one

// "bsm,mnd->bsnd": a letter per dim of each operand and of the result. Literals are checked when
// the program is compiled. Letters missing from the result are summed; repeated within one operand:
// its diagonal.
template <int Operands>
class EinsumSpec {
 public:
  // From a literal; a wrong one does not compile, and the compiler names the reason.
  template <size_t N>
  consteval EinsumSpec(const char (&text)[N]) : text_(text, N - 1) {
    if (const char* problem = detail::einsum_spec_problem(text_, Operands))
      detail::einsum_spec_is_wrong(problem);
  }
  EinsumSpec(const RuntimeSpec& spec) : text_(spec.text) {}  // used while `spec` lives
  std::string_view text() const { return text_; }            // the spec as given

 private:
  std::string_view text_;
};

// Sum over all labels that the result does not have of the product of the operands.
// einsum("bsm,mnd->bsnd", x, w): lowered to one dot, with diagonals, sums and transposes where
// needed.
GSPMD_API Tensor einsum(const EinsumSpec<1>& spec, Operand x);
GSPMD_API Tensor einsum(const EinsumSpec<2>& spec, Operand a, Operand b);

}  // namespace gspmd
