#pragma once

// The referee of products: random ones, and the least that any way of laying their loops over the
// devices sends, by trying all of them. It shares the price of reshards with the partitioner and
// nothing of how that chooses.

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gspmd/base/shape.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// Kinds of ops with a sum.
enum class ProductKind : uint8_t { dot, batch_dot, convolution, reduce };

// One loop, and which dim of the operands and of the result it is (-1: of none).
struct ProductLoop {
  int64_t size = 1;
  std::vector<int64_t> dims = {};  // operands in order, then the result
  int64_t halo = 0;  // elements on either side that parts of the first operand read of others
  bool summed() const { return dims.back() < 0; }
};

// One op on parameters of the program.
struct Product {
  ProductKind kind = ProductKind::dot;
  std::vector<int64_t> mesh;          // sizes of axes
  std::vector<ProductLoop> loops;     // of the nest; dims that are none of them are whole
  std::vector<Shape> shapes;          // operands, result
  std::vector<Sharding> shardings;    // of the operands
  std::optional<Sharding> annotated;  // of the result
  std::string text;                   // the module
  int64_t num_devices() const;
};

Product random_product(ProductKind kind, const std::vector<int64_t>& mesh, bool result_annotated,
                       std::mt19937& random);

// What one device sends and computes.
struct ProductCost {
  int64_t bytes = 0;
  int64_t work = 0;    // iterations of the nest on one device
  std::string layout;  // of the nest, in words; empty of programs
};

// Of the program that the partitioner makes, read off its text, and the layout of its result.
struct ProductProgram {
  ProductCost cost;
  Sharding result;
  std::string text;
};
ProductProgram program_of(const Product& product);

// The least that any way sends which gives no device more than `most_work` iterations: each prime
// part of the mesh on one loop or on none, in every order; operands moved there, halos fetched,
// sums made and the result moved to `result`.
ProductCost least_way(const Product& product, const Sharding& result, int64_t most_work);

// Two products in a row with a function of each element between them, which nobody annotates.
struct ProductChain {
  Product first, second;
  std::string text;
};
ProductChain random_chain(const std::vector<int64_t>& mesh, bool result_annotated,
                          std::mt19937& random);

// Of the whole chain; `works`: iterations of each product on one device.
struct ChainProgram {
  int64_t bytes = 0;
  int64_t works[2] = {0, 0};
  Sharding result;
  std::string text;
};
ChainProgram program_of(const ProductChain& chain);

// The least over all layouts of the value between them, and all ways of both.
ProductCost least_way(const ProductChain& chain, const ChainProgram& program);

}  // namespace gspmd
