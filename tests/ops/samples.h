#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gspmd/ops/evaluate.h"

namespace gspmd::testing {

// One use of an op, as HLO text: the entry's root is the op under test, its operands are mostly
// entry parameters. Small sizes, all different where that tells dims apart.
struct Sample {
  Opcode opcode;
  std::string name;
  std::string body;  // lines of the entry; combiners and loop bodies of with_entry() are there
  double low = -4;   // arguments are drawn from low .. high; unsigned ones from max(low, 0)
  double high = 4;
  int64_t devices = 1;  // collectives: how many run together
};
// Every opcode has at least one.
const std::vector<Sample>& samples();

// Families with files of their own: samples_window.cpp.
std::vector<Sample> window_samples();
std::vector<Sample> number_samples();
std::vector<Sample> order_samples();
std::vector<Sample> matrix_samples();
std::string number_computations();
const char* big_op_computations();  // what they call; in every with_entry() module

// A module whose entry has these lines. Computations to call: sum, product, most, least (f32),
// sum_s32, any, all (pred), second (f32, takes the update), largest_at (f32, s32 pairs), below_ten
// and next (state s32[], f32[3,4]), scaled_sum (f32[3,4], f32[3,4] -> f32[3,4]).
std::string with_entry(const std::string& body, int64_t num_partitions = 1);
std::unique_ptr<Module> sample_module(const Sample& sample);

enum class Values : uint8_t { integers, uniform };
Array random_array(const Shape& shape, double low, double high, Values values,
                   std::mt19937_64& random);
Value random_value(const Shape& shape, double low, double high, Values values,
                   std::mt19937_64& random);
// For every entry parameter, by seed.
std::vector<Value> sample_arguments(const Sample& sample, const Module& module, Values values,
                                    uint64_t seed);

}  // namespace gspmd::testing
