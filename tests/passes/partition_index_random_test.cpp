// Random gathers and scatters, split in random ways over random meshes: the bits of one device.
// Dimension numbers, slice sizes, index types, combiners and indices far outside are all drawn.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_index_random_test {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool often(int64_t percent) { return below(100) < percent; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(std::ssize(list)))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  std::mt19937_64 random_;
};

std::string list(const Dims& dims) { return fmt::format("{{{}}}", fmt::join(dims, ",")); }
std::string shape(const std::string& type, const Dims& dims) {
  return fmt::format("{}[{}]", type, fmt::join(dims, ","));
}

const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> list{Mesh{{"x", 8}},
                                      Mesh{{"x", 2}, {"y", 4}},
                                      Mesh{{"x", 2}, {"y", 2}, {"z", 2}},
                                      Mesh{{"x", 3}},
                                      Mesh{{"x", 5}},
                                      Mesh{{"x", 2}, {"y", 3}},
                                      Mesh({{"x", 2}, {"y", 2}}, {3, 1, 0, 2}),
                                      Mesh({{"x", 2}, {"y", 4}}, {5, 0, 3, 6, 1, 7, 2, 4})};
  return list;
}

// Each axis on one of the dims or on none.
std::string sharding(Draw& draw, const Mesh& mesh, int64_t rank) {
  std::vector<std::vector<int64_t>> dims(static_cast<size_t>(rank));
  for (int64_t axis = 0; axis < mesh.rank(); ++axis)
    if (rank > 0 && draw.often(75)) {
      auto& dim = dims[static_cast<size_t>(draw.below(rank))];
      dim.insert(draw.often(70) ? dim.end() : dim.begin(), axis);
    }
  return ", sharding=" + to_string_v2(mesh_sharding(mesh, dims));
}

// Dimension numbers that gather and scatter share.
struct Numbers {
  Dims operand, indices, slices;  // sizes
  Dims window_dims, dropped, map, operand_batching, indices_batching;
  Dims slice_sizes;
  int64_t vector_dim = 0;
  int64_t counted = -1;  // component that is an iota along dim `counts_along`
  int64_t counts_along = 0;
  int64_t also_counted = -1;  // another component that does: a diagonal
};

Numbers draw_numbers(Draw& draw) {
  Numbers n;
  const int64_t rank = 1 + draw.below(4);
  Dims window_sizes, batch;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t role = draw.below(10);
    int64_t size = draw.of<int64_t>({1, 2, 3, 4, 5, 6, 8, 9});
    int64_t slice = 1;
    if (role < 2) {
      n.operand_batching.push_back(d);
    } else if (role < 6) {
      n.map.push_back(d);
      n.dropped.push_back(d);
    } else {
      slice = draw.often(40) ? size : 1 + draw.below(size);
      if (draw.often(3)) slice = 0;
      if (role < 8) n.map.push_back(d);
      window_sizes.push_back(slice);
    }
    n.operand.push_back(size);
    n.slice_sizes.push_back(slice);
  }
  draw.shuffle(n.map);
  std::vector<int64_t> shared(n.operand_batching.size());
  std::iota(shared.begin(), shared.end(), 0);
  shared.resize(shared.size() + static_cast<size_t>(draw.below(3)), -1);
  draw.shuffle(shared);
  n.indices_batching.resize(n.operand_batching.size());
  const auto components = static_cast<int64_t>(n.map.size());
  const bool is_implicit = components == 1 && draw.often(40);
  n.vector_dim = is_implicit ? std::ssize(shared) : draw.below(std::ssize(shared) + 1);
  const int64_t to_count = components > 0 && draw.often(50) ? draw.below(components) : -1;
  for (const int64_t s : shared) {
    if (!is_implicit && std::ssize(n.indices) == n.vector_dim) n.indices.push_back(components);
    int64_t size = draw.of<int64_t>({1, 2, 3, 4, 5, 6, 7, 8});
    if (s >= 0) {
      n.indices_batching[static_cast<size_t>(s)] = std::ssize(n.indices);
      size = n.operand[static_cast<size_t>(n.operand_batching[static_cast<size_t>(s)])];
    } else if (to_count >= 0 && n.counted < 0) {
      n.counted = to_count;
      n.counts_along = std::ssize(n.indices);
      size = n.operand[static_cast<size_t>(n.map[static_cast<size_t>(to_count)])];
    } else if (draw.often(2)) {
      size = 0;
    }
    n.indices.push_back(size);
    batch.push_back(size);
  }
  if (!is_implicit && std::ssize(n.indices) == n.vector_dim) n.indices.push_back(components);
  if (n.counted >= 0 && components > 1 && draw.often(30))
    n.also_counted = (n.counted + 1 + draw.below(components - 1)) % components;
  std::vector<int64_t> kinds(window_sizes.size(), 1);
  kinds.resize(window_sizes.size() + batch.size(), 0);
  draw.shuffle(kinds);
  size_t w = 0, b = 0;
  for (const int64_t is_window : kinds) {
    if (is_window) n.window_dims.push_back(std::ssize(n.slices));
    n.slices.push_back(is_window ? window_sizes[w++] : batch[b++]);
  }
  return n;
}

// The indices `i`: a parameter, with one component replaced by positions where there is a counted
// one.
std::string indices_text(Draw& draw, const Numbers& n, const std::string& type, const Mesh& mesh) {
  const auto rank = std::ssize(n.indices);
  const std::string parameter =
      fmt::format("p = {} parameter(0){}\n", shape(type, n.indices), sharding(draw, mesh, rank));
  const std::string kept = fmt::format("i = {} copy(p)", shape(type, n.indices));
  if (n.counted < 0 || type == "u8" || type == "s8") return parameter + kept + "\n";
  const auto counting = [&](const Dims& dims) {
    return fmt::format("{} iota(), iota_dimension={}", shape(type, dims), n.counts_along);
  };
  if (n.vector_dim == rank || n.indices[static_cast<size_t>(n.vector_dim)] == 1)
    return parameter + "i = " + counting(n.indices) + sharding(draw, mesh, rank) + "\n";
  std::string text = parameter, parts;
  Dims dims = n.indices;
  const int64_t components = dims[static_cast<size_t>(n.vector_dim)];
  dims[static_cast<size_t>(n.vector_dim)] = 1;
  for (int64_t k = 0; k < components; ++k) {
    std::string bounds;
    for (int64_t d = 0; d < rank; ++d)
      bounds += fmt::format("{}[{}:{}]", d ? ", " : "", d == n.vector_dim ? k : 0,
                            d == n.vector_dim ? k + 1 : dims[static_cast<size_t>(d)]);
    text += fmt::format("c{} = {}\n", k,
                        k == n.counted || k == n.also_counted
                            ? counting(dims)
                            : fmt::format("{} slice(p), slice={{{}}}", shape(type, dims), bounds));
    parts += fmt::format("{}c{}", k ? ", " : "", k);
  }
  return text + fmt::format("i = {} concatenate({}), dimensions={{{}}}{}\n", shape(type, n.indices),
                            parts, n.vector_dim, sharding(draw, mesh, rank));
}

std::string batching_text(const char* a, const Dims& of_operand, const char* b,
                          const Dims& of_indices) {
  if (of_operand.empty()) return "";
  return fmt::format(", {}={}, {}={}", a, list(of_operand), b, list(of_indices));
}

std::string gather_text(Draw& draw, const Numbers& n, const std::string& index_type,
                        const Mesh& mesh) {
  const std::string type = draw.of<std::string>({"f32", "s32", "pred", "bf16", "c64", "u8", "f64"});
  return "HloModule m\nENTRY e {\n" + indices_text(draw, n, index_type, mesh) +
         fmt::format(
             "t = {} parameter(1){}\nROOT r = {} gather(t, i), offset_dims={}, "
             "collapsed_slice_dims={}, "
             "start_index_map={}{}, index_vector_dim={}, slice_sizes={}{}\n}}\n",
             shape(type, n.operand), sharding(draw, mesh, std::ssize(n.operand)),
             shape(type, n.slices), list(n.window_dims), list(n.dropped), list(n.map),
             batching_text("operand_batching_dims", n.operand_batching,
                           "start_indices_batching_dims", n.indices_batching),
             n.vector_dim, list(n.slice_sizes), sharding(draw, mesh, std::ssize(n.slices)));
}

// A combiner of scalars: (a, b) -> op(a, b), or b itself.
std::string combiner_text(const std::string& type, const std::string& op) {
  return fmt::format(
      "c {{\na = {0}[] parameter(0)\nb = {0}[] parameter(1)\nROOT r = {0}[] {1}\n}}\n", type,
      op == "overwrite" ? "copy(b)" : op + "(a, b)");
}

std::string scatter_text(Draw& draw, const Numbers& n, const std::string& index_type,
                         const Mesh& mesh) {
  const std::string op = draw.of<std::string>({"add", "add", "multiply", "maximum", "minimum",
                                               "and", "or", "xor", "subtract", "overwrite"});
  const bool on_bits = op == "and" || op == "or" || op == "xor";
  const std::string type = on_bits            ? draw.of<std::string>({"s32", "pred", "u8"})
                           : op == "multiply" ? draw.of<std::string>({"s32", "u8"})
                                              : draw.of<std::string>({"f32", "s32", "f64", "u8"});
  const bool two = draw.often(25);
  const std::string numbers = fmt::format(
      "update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}{}, "
      "index_vector_dim={}, "
      "to_apply=c",
      list(n.window_dims), list(n.dropped), list(n.map),
      batching_text("input_batching_dims", n.operand_batching, "scatter_indices_batching_dims",
                    n.indices_batching),
      n.vector_dim);
  const auto operand = [&](const char* name, int64_t number) {
    const std::string base = shape(type, n.operand);
    if (number == 1 && op == "add" && draw.often(30))
      return fmt::format(
          "q = {} parameter({})\nz = {}[] constant(0)\n{} = {} broadcast(z), dimensions={{}}\n",
          base, number, type, name, base);
    return fmt::format("{} = {} parameter({}){}\n", name, base, number,
                       sharding(draw, mesh, std::ssize(n.operand)));
  };
  const auto updates = [&](const char* name, int64_t number) {
    return fmt::format("{} = {} parameter({}){}\n", name, shape(type, n.slices), number,
                       sharding(draw, mesh, std::ssize(n.slices)));
  };
  const std::string result = shape(type, n.operand);
  if (!two)
    return "HloModule m\n" + combiner_text(type, op) + "ENTRY e {\n" +
           indices_text(draw, n, index_type, mesh) + operand("t", 1) + updates("u", 2) +
           "ROOT r = " + result + " scatter(t, i, u), " + numbers +
           sharding(draw, mesh, std::ssize(n.operand)) + "\n}\n";
  const std::string first = op == "overwrite" ? "copy(b)" : op + "(a, b)";
  const std::string computation = fmt::format(
      "c {{\na = {0}[] parameter(0)\nx = {0}[] parameter(1)\nb = {0}[] parameter(2)\ny = {0}[] "
      "parameter(3)\n"
      "s = {0}[] {1}\nROOT r = ({0}[], {0}[]) tuple(s, y)\n}}\n",
      type, first);
  return "HloModule m\n" + computation + "ENTRY e {\n" + indices_text(draw, n, index_type, mesh) +
         operand("t", 1) + operand("o", 2) + updates("u", 3) + updates("v", 4) +
         fmt::format(
             "w = ({0}, {0}) scatter(t, o, i, u, v), {1}\ng = {0} get-tuple-element(w), "
             "index=0{2}\n"
             "h = {0} get-tuple-element(w), index=1{3}\nROOT r = ({0}, {0}) tuple(g, h)\n}}\n",
             result, numbers, sharding(draw, mesh, std::ssize(n.operand)),
             sharding(draw, mesh, std::ssize(n.operand)));
}

// Starts that are constants or not, of slices and updates of any size.
std::string dynamic_text(Draw& draw, const std::string& index_type, const Mesh& mesh) {
  const std::string type = draw.of<std::string>({"f32", "s32", "pred", "bf16", "c64", "f64"});
  const int64_t rank = 1 + draw.below(3);
  Dims operand, window;
  std::string text, starts;
  for (int64_t d = 0; d < rank; ++d) {
    operand.push_back(draw.of<int64_t>({1, 3, 4, 5, 8, 9, 13, 16}));
    window.push_back(draw.often(25)   ? operand.back()
                     : draw.often(30) ? 1
                                      : 1 + draw.below(operand.back()));
    if (draw.often(3)) window.back() = 0;
    if (draw.often(50))
      text += fmt::format("j{} = {}[] constant({})\n", d, index_type,
                          draw.below(14) - (index_type[0] == 's' ? 4 : 0));
    else
      text +=
          fmt::format("k{0} = {1}[1] slice(p), slice={{[{0}:{2}]}}\nj{0} = {1}[] reshape(k{0})\n",
                      d, index_type, d + 1);
    starts += fmt::format(", j{}", d);
  }
  text = "HloModule m\nENTRY e {\np = " + shape(index_type, {rank}) +
         " parameter(0)\nt = " + shape(type, operand) + " parameter(1)" +
         sharding(draw, mesh, rank) + "\n" + text;
  if (draw.often(50))
    return text + "ROOT r = " + shape(type, window) + " dynamic-slice(t" + starts +
           "), dynamic_slice_sizes=" + list(window) + sharding(draw, mesh, rank) + "\n}\n";
  return text + "u = " + shape(type, window) + " parameter(2)" + sharding(draw, mesh, rank) +
         "\nROOT r = " + shape(type, operand) + " dynamic-update-slice(t, u" + starts + ")" +
         sharding(draw, mesh, rank) + "\n}\n";
}

// Indices around the dims' ends, and now and then as far away as their type goes. Zeros of both
// signs where numbers are moved or added; of others the sign depends on the order.
std::vector<Value> arguments(Draw& draw, const Module& module, uint64_t seed) {
  std::vector<Value> values = integer_arguments(module, seed);
  Array& indices = values.at(0).array;
  const bool has_negatives = is_signed_integer(indices.dtype());
  for (int64_t i = 0; i < indices.size(); ++i) {
    const int64_t index = draw.below(13) - (has_negatives ? 3 : 0);
    indices.set(i, static_cast<double>(index));
    if (draw.often(3))
      std::memset(indices.bytes().data() + i * dtype_size(indices.dtype()), 0xff,
                  static_cast<size_t>(dtype_size(indices.dtype())));
    if (draw.often(2)) indices.set(i, has_negatives ? -1e30 : 1e30);
    if (draw.often(2)) indices.set(i, 1e30);
  }
  const Node& root = *module.entry()->root();
  const bool adds =
      root.is(Opcode::scatter) && recognize_combiner(*root.called[0]) == Combiner::sum;
  if (!adds && !root.is(Opcode::gather) && !root.is(Opcode::dynamic_slice) &&
      !root.is(Opcode::dynamic_update_slice))
    return values;
  Array& operand = values.at(1).array;
  if (is_floating(operand.dtype()) || is_complex(operand.dtype()))
    for (int64_t i = 0; i < operand.size(); ++i)
      if (draw.often(20)) operand.set(i, -0.0);
  return values;
}

enum class Kind : uint8_t { index, dynamic };

void check(uint64_t seed, Kind kind) {
  Draw draw(seed);
  const Mesh& mesh = draw.of(meshes());
  const auto index_type =
      draw.of<std::string>({"s32", "s32", "s32", "s64", "u32", "u64", "s8", "u8"});
  std::string text, difference;
  if (kind == Kind::dynamic) {
    text = dynamic_text(draw, index_type, mesh);
  } else {
    const Numbers numbers = draw_numbers(draw);
    text = draw.often(50) ? gather_text(draw, numbers, index_type, mesh)
                          : scatter_text(draw, numbers, index_type, mesh);
  }
  try {
    const auto module = parse_module(text);
    difference =
        difference_when_partitioned(*module, mesh.num_devices(), arguments(draw, *module, seed));
  } catch (const std::exception& error) {
    difference = error.what();
  }
  INFO("seed " << seed << "\n" << text << difference);
  CHECK(difference.empty());
}

void check_many(Kind kind) {
  const char* const first = std::getenv("GSPMD_INDEX_SEED");
  const uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
  const uint64_t count = std::getenv("GSPMD_LONG") ? 6000 : 300;
  for (uint64_t seed = begin; seed < begin + count; ++seed) check(seed, kind);
}

}  // namespace

TEST_CASE("random gathers and scatters under random shardings equal themselves", "[index]") {
  check_many(Kind::index);
}

TEST_CASE("random dynamic slices and updates under random shardings equal themselves", "[index]") {
  check_many(Kind::dynamic);
}

}  // namespace partition_index_random_test
