#include "tools/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "gspmd/base/error.h"
#include "gspmd/io/npy.h"
#include "io/atomic_file.h"
#include "tools/elements.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

// splitmix64's finaliser: a counter-based generator, element i of leaf l without the ones before
// it.
uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Random bits as -4..4, 0..4 or 0/1 by type; floats too unless they are uniform.
double small_integer(uint64_t bits, DType dtype) {
  if (dtype == DType::pred) return static_cast<double>(bits >> 63);
  if (is_unsigned_integer(dtype)) return static_cast<double>(bits % 5);
  return static_cast<double>(bits % 9) - 4;
}

double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-52 - 1; }

Array random_array(const Shape& shape, uint64_t key, Values values) {
  Array array(Shape(shape.dtype, shape.dims));
  const bool spread =
      values == Values::uniform && (is_floating(shape.dtype) || is_complex(shape.dtype));
  const auto number = [&](uint64_t bits) {
    return spread ? uniform(bits) : small_integer(bits, shape.dtype);
  };
  const bool complex = is_complex(shape.dtype);
  if (!has_elements(shape.dtype)) return array;
  for (int64_t i = 0; i < array.size(); ++i) {
    const uint64_t bits = scramble(key + static_cast<uint64_t>(i));
    set_element(array, i, number(bits), complex ? number(scramble(~bits)) : 0);
  }
  return array;
}

struct Leaf {
  const Node* parameter;
  std::string name;
  Shape shape;
};

void add_leaves(const Node& parameter, const Shape& shape, const std::string& name,
                std::vector<Leaf>& leaves) {
  if (!shape.is_tuple) {
    leaves.push_back({&parameter, name, Shape(shape.dtype, shape.dims)});
    return;
  }
  for (size_t i = 0; i < shape.elements.size(); ++i)
    add_leaves(parameter, shape.elements[i], fmt::format("{}.{}", name, i), leaves);
}

std::vector<Leaf> input_leaves(const Module& module) {
  std::vector<Leaf> leaves;
  for (const Node* parameter : module.entry()->parameters())
    add_leaves(*parameter, parameter->shape, std::to_string(parameter->attrs.index), leaves);
  return leaves;
}

// Files hold narrow types as bytes or integers of 8 bits.
bool could_be(DType stored, DType wanted) {
  if (stored == wanted) return true;
  const bool byte = stored == DType::u8 || stored == DType::s8;
  return byte && is_narrow(wanted);
}

// Sizes of `leaf`, or `devices` of them (0: that form is not taken).
Array read_leaf(const NpzFile& file, const std::string& path, const Leaf& leaf, int64_t devices) {
  if (!has_elements(leaf.shape.dtype)) return Array(leaf.shape);
  const Shape stored = file.shape(leaf.name);
  Dims stacked = leaf.shape.dims;
  stacked.insert(stacked.begin(), devices);
  const bool fits = stored.dims == leaf.shape.dims || (devices > 0 && stored.dims == stacked);
  if (!fits || !could_be(stored.dtype, leaf.shape.dtype))
    user_error("--inputs {}: array \"{}\" is {}, parameter {} \"{}\" takes {}", path, leaf.name,
               to_string(stored), leaf.name, leaf.parameter->name(), to_string(leaf.shape));
  return file.read(leaf.name, leaf.shape.dtype);
}

std::vector<Array> read_inputs(const Module& module, const std::string& path, int64_t devices) {
  const std::vector<Leaf> leaves = input_leaves(module);
  const NpzFile file(path);
  std::vector<std::string> missing;
  for (const Leaf& leaf : leaves)
    if (has_elements(leaf.shape.dtype) && !file.contains(leaf.name)) missing.push_back(leaf.name);
  if (!missing.empty())
    user_error("--inputs {}: has no array {}; the module takes {}, the file has {}", path,
               fmt::join(missing, ", "), fmt::join(input_names(module), ", "),
               fmt::join(file.names(), ", "));
  for (const std::string& name : file.names())
    if (std::none_of(leaves.begin(), leaves.end(),
                     [&](const Leaf& leaf) { return leaf.name == name; }))
      write_message(
          fmt::format("gspmd: --inputs {}: array \"{}\" belongs to no parameter\n", path, name));
  std::vector<Array> inputs;
  for (const Leaf& leaf : leaves) inputs.push_back(read_leaf(file, path, leaf, devices));
  return inputs;
}

Array slice_of(const Array& stacked, const Shape& shape, int64_t device) {
  Array array(shape);
  const std::span<std::byte> to = array.bytes();
  if (!to.empty())
    std::memcpy(to.data(), stacked.bytes().data() + static_cast<size_t>(device) * to.size(),
                to.size());
  return array;
}

}  // namespace

std::vector<Array> read_expected(const Module& module, const std::string& path) {
  const NpzFile file(path);
  std::vector<Array> arrays;
  for (const Shape& leaf : leaf_shapes(module.entry()->root()->shape)) {
    const std::string name = std::to_string(arrays.size());
    if (!has_elements(leaf.dtype)) {
      arrays.emplace_back(Shape(leaf.dtype, leaf.dims));
      continue;
    }
    if (!file.contains(name))
      user_error("--expected {}: has no array {}; the result has {} leaves, the file has {}", path,
                 name, leaf_count(module.entry()->root()->shape), fmt::join(file.names(), ", "));
    const Shape stored = file.shape(name);
    if (stored.dims != leaf.dims || !could_be(stored.dtype, leaf.dtype))
      user_error("--expected {}: array \"{}\" is {}, result {} is {}", path, name,
                 to_string(stored), name, to_string(leaf));
    arrays.push_back(file.read(name, leaf.dtype));
  }
  return arrays;
}

std::vector<std::string> input_names(const Module& module) {
  std::vector<std::string> names;
  for (const Leaf& leaf : input_leaves(module)) names.push_back(leaf.name);
  return names;
}

std::vector<Array> make_inputs(const Module& module, const Command& command) {
  if (!command.inputs.empty()) return read_inputs(module, command.inputs, 0);
  std::vector<Array> inputs;
  for (const Leaf& leaf : input_leaves(module)) {
    const uint64_t key = scramble(scramble(command.seed) + inputs.size());
    inputs.push_back(random_array(leaf.shape, key, command.values));
  }
  return inputs;
}

std::vector<std::vector<Array>> make_device_inputs(const Module& module, const Command& command,
                                                   int64_t devices) {
  const std::vector<Array> given = command.inputs.empty()
                                       ? make_inputs(module, command)
                                       : read_inputs(module, command.inputs, devices);
  const std::vector<Leaf> leaves = input_leaves(module);
  std::vector<std::vector<Array>> inputs(static_cast<size_t>(devices));
  for (int64_t d = 0; d < devices; ++d)
    for (size_t i = 0; i < leaves.size(); ++i)
      inputs[static_cast<size_t>(d)].push_back(given[i].dims() == leaves[i].shape.dims
                                                   ? given[i]
                                                   : slice_of(given[i], leaves[i].shape, d));
  return inputs;
}

std::vector<Value> pack_arguments(const Module& module, std::span<const Array> leaves) {
  std::vector<Value> arguments;
  size_t at = 0;
  for (const Node* parameter : module.entry()->parameters()) {
    const auto count = static_cast<size_t>(leaf_count(parameter->shape));
    arguments.push_back(pack(parameter->shape, leaves.subspan(at, count)));
    at += count;
  }
  return arguments;
}

void check_outputs_path(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    user_error("--outputs {}: there is no folder {}", path, folder.string());
  if (std::filesystem::is_directory(path, error)) user_error("--outputs {}: is a folder", path);
  io::check_writable(path);
}

void write_outputs(const std::string& path, std::span<const Array> outputs) {
  std::vector<std::pair<std::string, Array>> arrays;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (has_elements(outputs[i].dtype())) arrays.emplace_back(std::to_string(i), outputs[i]);
  write_npz(path, arrays);
}

}  // namespace gspmd::tools
