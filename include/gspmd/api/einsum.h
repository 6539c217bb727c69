#pragma once

// Products of tensors, written as in numpy.einsum.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {
constexpr bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a part of a spec is letters and at most one "...".
constexpr bool is_einsum_part(std::string_view part) {
  const size_t dots = part.find("...");
  for (size_t i = 0; i < part.size(); ++i)
    if (!is_label(part[i]) && (dots == std::string_view::npos || i < dots || i > dots + 2))
      return false;
  return true;
}

// What may be wrong with a spec.
enum class SpecProblem : uint8_t {
  none,
  arrow,         // "->" is missing
  operand,       // something else than labels in an operand
  count,         // of operands
  result,        // something else than labels in the result
  dots,          // "..." of the result only
  unknown,       // a label of the result only
  result_twice,  // a label of the result twice
};

constexpr SpecProblem einsum_spec_problem(std::string_view spec, int operands) {
  const size_t arrow = spec.find("->");
  if (arrow == std::string_view::npos) return SpecProblem::arrow;
  const std::string_view inputs = spec.substr(0, arrow);
  const std::string_view output = spec.substr(arrow + 2);
  int count = 0;
  bool dots = false;
  for (size_t begin = 0; begin <= inputs.size(); ++count) {
    const size_t comma = inputs.find(',', begin);
    const std::string_view part = inputs.substr(begin, comma - begin);
    if (!is_einsum_part(part)) return SpecProblem::operand;
    dots = dots || part.find("...") != std::string_view::npos;
    begin = comma == std::string_view::npos ? inputs.size() + 1 : comma + 1;
  }
  if (operands >= 0 && count != operands) return SpecProblem::count;
  if (!is_einsum_part(output)) return SpecProblem::result;
  if (!dots && output.find("...") != std::string_view::npos) return SpecProblem::dots;
  for (size_t i = 0; i < output.size(); ++i) {
    if (!is_label(output[i])) continue;
    if (inputs.find(output[i]) == std::string_view::npos) return SpecProblem::unknown;
    if (output.find(output[i], i + 1) != std::string_view::npos) return SpecProblem::result_twice;
  }
  return SpecProblem::none;
}

// Not constexpr: a literal spec that reaches one of them does not compile, and the compiler gives
// its name, which is the reason.
namespace einsum_spec {
inline void has_no_arrow_before_the_labels_of_the_result() {}
inline void has_something_else_than_letters_or_dots_in_an_operand() {}
inline void has_another_number_of_operands_than_are_given() {}
inline void has_something_else_than_letters_or_dots_in_the_result() {}
inline void has_dots_in_the_result_and_in_no_operand() {}
inline void has_a_label_in_the_result_that_is_in_no_operand() {}
inline void has_a_label_twice_in_the_result() {}
}  // namespace einsum_spec

constexpr void check_einsum_literal(std::string_view spec, int operands) {
  switch (einsum_spec_problem(spec, operands)) {
    case SpecProblem::none:
      return;
    case SpecProblem::arrow:
      return einsum_spec::has_no_arrow_before_the_labels_of_the_result();
    case SpecProblem::operand:
      return einsum_spec::has_something_else_than_letters_or_dots_in_an_operand();
    case SpecProblem::count:
      return einsum_spec::has_another_number_of_operands_than_are_given();
    case SpecProblem::result:
      return einsum_spec::has_something_else_than_letters_or_dots_in_the_result();
    case SpecProblem::dots:
      return einsum_spec::has_dots_in_the_result_and_in_no_operand();
    case SpecProblem::unknown:
      return einsum_spec::has_a_label_in_the_result_that_is_in_no_operand();
    case SpecProblem::result_twice:
      return einsum_spec::has_a_label_twice_in_the_result();
  }
}
}  // namespace detail

// A spec that is only known at run time; checked when used.
struct RuntimeSpec {
  std::string text;  // the spec, as for einsum
};
inline RuntimeSpec runtime_spec(std::string text) { return {std::move(text)}; }  // makes one

// "bsm,mnd->bsnd": a letter per dim of each operand and of the result. Literals are checked when
// the program is compiled. Letters missing from the result are summed; repeated within one operand:
// its diagonal. "..." stands for dims without a letter, which broadcast and stay in the result.
// `Operands`: how many; -1: as many as are given.
template <int Operands>
class EinsumSpec {
 public:
  // From a literal; a wrong one does not compile, and the compiler names the reason.
  template <size_t N>
  consteval EinsumSpec(const char (&text)[N]) : text_(text, N - 1) {
    detail::check_einsum_literal(text_, Operands);
  }
  EinsumSpec(const RuntimeSpec& spec) : text_(spec.text) {}  // used while `spec` lives
  std::string_view text() const { return text_; }            // the spec as given

 private:
  std::string_view text_;
};

// Sum over all labels that the result does not have of the product of the operands.
// einsum("bsm,mnd->bsnd", x, w): lowered to one dot, with diagonals, sums and transposes where
// needed. Of more than two the order of the products is the one with the fewest multiplications, by
// all orders up to 9 operands, beyond by the cheapest product at each step.
GSPMD_API Tensor einsum(const EinsumSpec<1>& spec, Operand x);
GSPMD_API Tensor einsum(const EinsumSpec<2>& spec, Operand a, Operand b);
GSPMD_API Tensor einsum(const EinsumSpec<3>& spec, Operand a, Operand b, Operand c);
GSPMD_API Tensor einsum(const EinsumSpec<4>& spec, Operand a, Operand b, Operand c, Operand d);
// Of any number of operands.
GSPMD_API Tensor einsum(const EinsumSpec<-1>& spec, std::vector<Tensor> operands,
                        Site site = Site::here());

}  // namespace gspmd
