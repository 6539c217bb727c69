#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gspmd/base/shape.h"
#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Counter-based generators. Each output depends on the key and its counter only.
std::array<uint32_t, 2> threefry_2x32(std::array<uint32_t, 2> key, std::array<uint32_t, 2> counter);
std::array<uint32_t, 4> philox_4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

// What rng-bit-generator gives in each algorithm: the elements of an array of `dims`, row-major, of
// `bits` bits each (8 .. 64, lowest bits of each number), and the state afterwards.
struct RandomBits {
  std::vector<uint64_t> values;
  std::vector<uint64_t> state;
};
// Whether the generators here take a state of this shape: u64[2], of the others than rng_three_fry
// u64[3] too. Machines that keep other states have programs of their own.
bool is_random_state(const Shape& state, std::string_view algorithm);
// The dim that threefry_bits halves.
size_t halved_dim(const Dims& dims);
// How many counters an array of such bits takes.
int64_t threefry_counters(const Dims& dims, int bits);
int64_t philox_counters(const Dims& dims, int bits);
// State: key, counter. Of 32 bits and less the array is halved along its first even dim, else its
// longest; numbers 2i and 2i+1 of that dim come from one counter.
RandomBits threefry_bits(const std::vector<uint64_t>& state, const Dims& dims, int bits);
// State: key and a counter of 128 bits, low half first; or key and counter, where the key is also
// the high half.
RandomBits philox_bits(const std::vector<uint64_t>& state, const Dims& dims, int bits);

// Random numbers of the device's part, from their positions in the whole: the same in any layout.
std::optional<Partitioned> partition_rng_bit_generator(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_rng(PartitionContext& context, Node& node);

// The numbers of the evaluator, on all workers.
PreparedKernel lower_rng_bit_generator(const Node& node);
PreparedKernel lower_rng(const Node& node);

}  // namespace gspmd
