#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "gspmd/ir/op.h"

namespace gspmd::library {

class MatrixItem;

// A routine on a matrix. Operands and results are written "T:mn R:k": an element type (T that of
// the first operand, R its real one, C its complex one, I s32) and a letter per dim behind the
// batch; equal letters are equal sizes, k is min(m, n), h is n - 1.
struct Routine {
  std::string_view name;  // of LAPACK without the letter of the type; else the whole target
  bool is_lapack = true;
  std::string_view kinds = "sdcz";  // the letters of the element types that it is there for
  std::string_view operands, results;
  // Work space that may stand in front of the results; any may stand behind them.
  int64_t work_in_front = 0;
  // Completed as custom-calls are that nobody knows: the field has a rule for them.
  bool as_custom_call = false;
  // On one matrix; returns `info`. By element type, in the order s, d, c, z.
  std::array<int (*)(const MatrixItem& item), 4> run = {};
};

// How a node calls one.
struct MatrixCall {
  const Routine* routine = nullptr;  // nullptr: no routine of that name
  bool typed = false;                // the typed interface; else numbers are operands, or text
  int64_t batch = 0;                 // dims in front of the matrices
  std::vector<int64_t> operands;     // which are the routine's, in its order
  std::vector<int64_t> results;      // which leaves are, in its order
  std::map<char, int64_t> sizes;     // of the letters
  size_t kind = 0;                   // index into `run`
  std::string error;                 // why it cannot run, empty: it can
};

const Routine* find_routine(std::string_view target);
MatrixCall matrix_call(const Node& node);

// One matrix of the batch while the routine runs: operands may be overwritten.
class MatrixItem {
 public:
  MatrixItem(const Node& node, const MatrixCall& call, std::span<const Value> values)
      : node_(node), call_(call), values_(values) {}

  std::vector<std::byte*> in, out;  // by position in the routine
  std::vector<int64_t> in_bytes;    // of each operand
  template <class T>
  T* operand(size_t i) const {
    return reinterpret_cast<T*>(in[i]);
  }
  template <class T>
  T* result(size_t i) const {
    return reinterpret_cast<T*>(out[i]);
  }
  void copy(size_t operand, size_t result) const;
  int size(char letter) const { return static_cast<int>(call_.sizes.at(letter)); }

  bool typed() const { return call_.typed; }
  // A letter that the typed interface gives as a number; UserError unless it is one of `allowed`.
  char letter(std::string_view name, std::string_view allowed) const;
  int64_t number(std::string_view name, int64_t otherwise) const;
  // A number that the older interface gives as operand `i`.
  int64_t argument(size_t i) const;
  // Operand `i` of the node itself, if it has so many.
  const Array* value(size_t i) const;
  size_t operand_count() const { return values_.size(); }
  const Node& node() const { return node_; }

 private:
  const Node& node_;
  const MatrixCall& call_;
  std::span<const Value> values_;
};

std::span<const Routine> factor_routines();    // factorizations.cpp
std::span<const Routine> spectral_routines();  // spectra.cpp

}  // namespace gspmd::library
