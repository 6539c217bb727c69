#pragma once

// GSPMD_FIELDS: structs of arrays as trees.

#include <tuple>

// Makes a struct template a tree of values: every field named here is a leaf (Tensor, Array,
// Shape), another such struct, or a vector, array, optional, pair or tuple of those.
//   template <class T> struct Layer { T weight; std::optional<T> bias; GSPMD_FIELDS(weight, bias)
//   };
// The struct must be a template of one type parameter, so that Layer<Tensor> can become
// Layer<Array>. Members of other types (numbers, text, options) are not listed; they keep their
// default values when the tree is copied leaf by leaf. A member that holds arrays or tensors and is
// not listed does not compile: it would be left behind by every step, gradient and checkpoint.
#define GSPMD_FIELDS(...)                                     \
  auto gspmd_fields() { return std::tie(__VA_ARGS__); }       \
  auto gspmd_fields() const { return std::tie(__VA_ARGS__); } \
  static constexpr const char* gspmd_field_names() { return #__VA_ARGS__; }

// As GSPMD_FIELDS, of a struct that leaves out members with arrays or tensors on purpose.
#define GSPMD_SOME_FIELDS(...) \
  GSPMD_FIELDS(__VA_ARGS__)    \
  static constexpr bool gspmd_lists_some() { return true; }
