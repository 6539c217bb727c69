#pragma once

// GSPMD_FIELDS: structs of arrays as trees.

#include <tuple>

// Makes a struct template a tree of values: every field named here is a leaf (Tensor, Array,
// Shape), another such struct, or a vector, array, optional, pair or tuple of those.
//   template <class T> struct Layer { T weight; std::optional<T> bias; GSPMD_FIELDS(weight, bias)
//   };
// The struct must be a template of one type parameter, so that Layer<Tensor> can become
// Layer<Array>. Other members keep their default values when the tree is copied leaf by leaf.
#define GSPMD_FIELDS(...)                                     \
  auto gspmd_fields() { return std::tie(__VA_ARGS__); }       \
  auto gspmd_fields() const { return std::tie(__VA_ARGS__); } \
  static constexpr const char* gspmd_field_names() { return #__VA_ARGS__; }
