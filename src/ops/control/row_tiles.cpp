// Ops whose rows go their way alone run tile of rows by tile of rows: what is between them stays in
// a cache.
#include "ops/control/row_tiles.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "gspmd/ir/known_literal.h"
#include "gspmd/ir/op.h"
#include "kernels/lines.h"
#include "ops/common/factors.h"
#include "ops/control/row_flow.h"

namespace gspmd {
namespace {

constexpr int64_t kTileBytes = 256 << 10;      // of a tile's values, where a row is smaller
constexpr int64_t kMostRowBytes = 1536 << 10;  // of one row's
constexpr int64_t kManyTiles = 64;             // where rows are enough
constexpr int64_t kFewTiles = 16;              // below this smaller rows are looked for
constexpr int64_t kSmallTileBytes = 32 << 10;  // but not for tiles below this
constexpr int64_t kLine = 64;                  // bytes: where buffers begin

// The leading dims of a tile: one index of all but the last of them, `rows` of this.
struct TileDims {
  int64_t depth = 0;
  int64_t rows = 0;
  Shape cut(Shape shape) const {
    for (int64_t d = 0; d < depth; ++d)
      shape.dims[static_cast<size_t>(d)] = d + 1 < depth ? 1 : rows;
    return shape;
  }
};

// A computation on a tile, in another module. Called computations of fusions are made as well, all
// others are of scalars.
Computation* body_of_tile(const Computation& body, const TileDims& tile, Module& module) {
  const RowFlow flow(body);
  Computation* made = module.add_computation(body.name());
  std::map<const Node*, Node*> copies;
  for (const auto& node : body.nodes()) {
    if (!flow.is_read(*node) && !node->is(Opcode::parameter)) continue;
    const bool has_rows = flow.has_rows(*node);
    std::vector<Shape> leaves = leaf_shapes(node->shape);
    if (has_rows)
      for (Shape& leaf : leaves) leaf = tile.cut(leaf);
    std::vector<Node*> operands;
    for (const Node* operand : node->operands()) operands.push_back(copies.at(operand));
    Attributes attrs = has_rows ? attributes_on_part(*node, operands, leaves) : node->attrs;
    Shape shape = node->shape.is_tuple ? Shape::tuple(leaves) : leaves.at(0);
    Node* copy = made->append(node->opcode(), std::move(shape), std::move(operands),
                              std::move(attrs), node->name());
    copy->called = node->called;
    if (has_rows && node->is(Opcode::fusion))
      copy->called = {body_of_tile(*node->called.at(0), tile, module)};
    copies[node.get()] = copy;
  }
  made->set_root(copies.at(body.root()));
  return made;
}

// Where a leaf of a value lies.
struct TileBuffer {
  enum Kind : uint8_t { operand, result, scratch, constant } kind = scratch;
  int64_t index = 0;      // operand, result, constant: which leaf
  int64_t row_bytes = 0;  // operand, result: from row to row; 0: the same for all rows
  int64_t offset = 0;     // scratch
  int64_t bytes = 0;      // of a tile
  int64_t last = -1;      // scratch: the step that reads it last
};

struct TileStep {
  PreparedKernel kernel;
  std::vector<int64_t> buffers;  // of operands, then of results
  int64_t operands = 0;
};

// What runs for one tile.
struct TileProgram {
  std::vector<TileStep> steps;
  std::vector<TileBuffer> buffers;
  std::vector<Array> constants;
  int64_t pointers_bytes = 0, values_bytes = 0, scratch_bytes = 0;  // all of it, in scratch
  double cost = 0;

  int64_t bytes() const {  // what a tile touches
    int64_t all = values_bytes;
    for (const TileBuffer& b : buffers)
      if (b.row_bytes > 0) all += b.bytes;
    return all;
  }
};

// Puts a computation of a tile together; nullopt where something has no kernel.
class TilePlanner {
 public:
  TilePlanner(const Computation& body, const RowFlow& whole, const Computation& of_whole,
              const TileDims& tile)
      : body_(body), whole_(whole), of_whole_(of_whole), tile_(tile) {}

  std::optional<TileProgram> plan() {
    for (size_t i = 0; i < body_.parameters().size(); ++i) add_operand(i);
    for (const auto& node : body_.nodes())
      if (!add(*node)) return std::nullopt;
    if (!place_results()) return std::nullopt;
    place_scratch();
    return std::move(program_);
  }

 private:
  using Leaf = std::pair<const Node*, int64_t>;

  int64_t add_buffer(const Leaf& leaf, TileBuffer buffer) {
    program_.buffers.push_back(buffer);
    return buffer_of_[leaf] = std::ssize(program_.buffers) - 1;
  }

  void add_operand(size_t i) {
    const Node& parameter = *body_.parameters()[i];
    const bool has_rows = whole_.has_rows(*of_whole_.parameters()[i]);
    const int64_t bytes = parameter.shape.bytes();
    add_buffer({&parameter, 0}, {.kind = TileBuffer::operand,
                                 .index = static_cast<int64_t>(i),
                                 .row_bytes = has_rows ? bytes / tile_.rows : 0,
                                 .bytes = bytes});
    fits_ &= !parameter.shape.is_tuple && (!has_rows || bytes % tile_.rows == 0);
  }

  bool add(const Node& node) {
    if (node.is(Opcode::parameter)) return fits_;
    if (node.is(Opcode::tuple)) return node.is_root();
    if (node.is(Opcode::constant)) return add_constant(node);
    if (node.is(Opcode::get_tuple_element)) {
      const Node& tuple = *node.operand(0);
      const auto found = buffer_of_.find({&tuple, first_leaf(tuple.shape, node.attrs.index)});
      if (found == buffer_of_.end() || node.shape.is_tuple) return false;
      return buffer_of_[{&node, 0}] = found->second, true;
    }
    if (node.op().has(kAlias) && node.shape.bytes() == node.operand(0)->shape.bytes())
      return buffer_of_[{&node, 0}] = buffer_of_.at({node.operand(0), 0}), true;
    return add_step(node);
  }

  bool add_constant(const Node& node) {
    const Array& value = known_literal(node);
    add_buffer({&node, 0}, {.kind = TileBuffer::constant, .index = std::ssize(program_.constants)});
    program_.constants.push_back(value);
    return true;
  }

  bool add_step(const Node& node) {
    if (node.op().lower == nullptr) return false;
    TileStep step{node.op().lower(node), {}, std::ssize(node.operands())};
    if (!step.kernel.run || step.kernel.prepare) return false;
    const int64_t at = std::ssize(program_.steps);
    for (const Node* operand : node.operands()) {
      step.buffers.push_back(buffer_of_.at({operand, 0}));
      program_.buffers[static_cast<size_t>(step.buffers.back())].last = at;
    }
    const std::vector<Shape> leaves = leaf_shapes(node.shape);
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf)
      step.buffers.push_back(add_buffer({&node, static_cast<int64_t>(leaf)},
                                        {.bytes = leaves[leaf].bytes(), .last = at}));
    program_.cost += step.kernel.cost;
    program_.scratch_bytes = std::max(program_.scratch_bytes, step.kernel.scratch_bytes);
    program_.pointers_bytes = std::max(program_.pointers_bytes,
                                       in_lines(std::ssize(step.buffers) * int64_t{sizeof(void*)}));
    program_.steps.push_back(std::move(step));
    return true;
  }

  bool place_results() {
    const Node& root = *body_.root();
    std::vector<const Node*> given{&root};
    if (root.is(Opcode::tuple)) given.assign(root.operands().begin(), root.operands().end());
    int64_t index = 0;
    for (const Node* node : given)
      for (int64_t leaf = 0; leaf < leaf_count(node->shape); ++leaf, ++index) {
        TileBuffer& b = program_.buffers[static_cast<size_t>(buffer_of_.at({node, leaf}))];
        if (b.kind != TileBuffer::scratch || b.bytes % tile_.rows != 0) return false;
        b.kind = TileBuffer::result;
        b.index = index;
        b.row_bytes = b.bytes / tile_.rows;
      }
    return true;
  }

  // Each value at the first place where nothing lives that does when its step runs.
  void place_scratch() {
    std::vector<const TileBuffer*> live;  // by offset
    for (int64_t at = 0; at < std::ssize(program_.steps); ++at) {
      const TileStep& step = program_.steps[static_cast<size_t>(at)];
      std::erase_if(live, [&](const TileBuffer* b) { return b->last < at; });
      for (size_t i = static_cast<size_t>(step.operands); i < step.buffers.size(); ++i) {
        TileBuffer& b = program_.buffers[static_cast<size_t>(step.buffers[i])];
        if (b.kind != TileBuffer::scratch) continue;
        int64_t offset = 0;
        auto next = live.begin();
        for (; next != live.end() && (*next)->offset < offset + in_lines(b.bytes); ++next)
          offset = (*next)->offset + in_lines((*next)->bytes);
        b.offset = offset;
        live.insert(next, &b);
        program_.values_bytes = std::max(program_.values_bytes, offset + in_lines(b.bytes));
      }
    }
    program_.scratch_bytes += program_.pointers_bytes + program_.values_bytes;
  }

  const Computation& body_;
  const RowFlow& whole_;
  const Computation& of_whole_;
  const TileDims tile_;
  bool fits_ = true;
  TileProgram program_;
  std::map<Leaf, int64_t> buffer_of_;
};

void run_tile(const TileProgram& program, const KernelArgs& args, int64_t first_row) {
  auto** pointers = reinterpret_cast<std::byte**>(args.scratch);
  std::byte* const values = args.scratch + program.pointers_bytes;
  const auto place = [&](const TileBuffer& b) -> std::byte* {
    switch (b.kind) {
      case TileBuffer::operand:
        return const_cast<std::byte*>(args.operands[b.index]) + first_row * b.row_bytes;
      case TileBuffer::result:
        return args.results[b.index] + first_row * b.row_bytes;
      case TileBuffer::constant:
        return const_cast<std::byte*>(
            program.constants[static_cast<size_t>(b.index)].bytes().data());
      default:
        return values + b.offset;
    }
  };
  for (const TileStep& step : program.steps) {
    for (size_t i = 0; i < step.buffers.size(); ++i)
      pointers[i] = place(program.buffers[static_cast<size_t>(step.buffers[i])]);
    KernelArgs inner{.operands = pointers,
                     .results = pointers + step.operands,
                     .scratch = values + program.values_bytes,
                     .device = args.device};
    for (; inner.part < step.kernel.parts; ++inner.part) step.kernel.run(inner);
  }
}

class TileLowering {
 public:
  explicit TileLowering(const Computation& body) : body_(body), flow_(body) {}

  // Of more leading dims where tiles of fewer are large or few.
  PreparedKernel lower() {
    TileDims best;
    for (int64_t depth = 1; depth <= flow_.depth(); ++depth) {
      const std::optional<TileProgram> row = program_of({depth, 1});
      if (!row) return {};
      const int64_t rows = rows_of_tile(depth, *row);
      if (rows > 0) best = {depth, rows};
      if (rows > 0 && row->bytes() <= kTileBytes && tiles_of(best) >= kFewTiles) break;
    }
    return best.rows > 0 ? kernel_of(best) : PreparedKernel{};
  }

 private:
  std::optional<TileProgram> program_of(const TileDims& tile) const {
    Module module;
    return TilePlanner(*body_of_tile(body_, tile, module), flow_, body_, tile).plan();
  }

  int64_t size(int64_t dim) const {
    return leaf_shapes(body_.root()->shape).at(0).dims[static_cast<size_t>(dim)];
  }

  int64_t outer_of(int64_t depth) const {
    int64_t outer = 1;
    for (int64_t d = 0; d + 1 < depth; ++d) outer *= size(d);
    return outer;
  }
  int64_t tiles_of(const TileDims& tile) const {
    return outer_of(tile.depth) * ((size(tile.depth - 1) + tile.rows - 1) / tile.rows);
  }

  // Of leading dims, given what one row takes; 0 where not even that fits, or there are no two
  // tiles.
  int64_t rows_of_tile(int64_t depth, const TileProgram& row) const {
    const int64_t bytes = row.bytes(), all = size(depth - 1), outer = outer_of(depth);
    if (bytes > kMostRowBytes) return 0;
    int64_t unit = 1;  // rows that are whole lines of each operand and result
    for (const TileBuffer& b : row.buffers)
      if (b.row_bytes > 0) unit = std::lcm(unit, kLine / std::gcd(kLine, b.row_bytes));
    const int64_t most = std::max<int64_t>(1, kTileBytes / bytes);
    const int64_t small = std::max<int64_t>(1, kSmallTileBytes / bytes);
    const int64_t few = std::max(small, all * outer / kManyTiles);
    const int64_t rows = std::min(all, (std::min(most, few) + unit - 1) / unit * unit);
    const bool begins_lines = outer == 1 || all % unit == 0;
    const bool is_small = rows == 1 || rows * bytes <= 2 * kTileBytes;
    return begins_lines && is_small && outer * all > rows ? rows : 0;
  }

  PreparedKernel kernel_of(const TileDims& tile) const {
    const int64_t all = size(tile.depth - 1), rest = all % tile.rows;
    std::optional<TileProgram> full = program_of(tile);
    std::optional<TileProgram> last = rest == 0 ? TileProgram{} : program_of({tile.depth, rest});
    if (!full || !last) return {};
    const int64_t tiles = (all + tile.rows - 1) / tile.rows;
    PreparedKernel kernel;
    kernel.parts = tiles_of(tile);
    kernel.scratch_bytes = std::max(full->scratch_bytes, last->scratch_bytes);
    kernel.cost = full->cost * static_cast<double>(kernel.parts);
    kernel.run = [=, full = std::move(*full), last = std::move(*last)](const KernelArgs& args) {
      const int64_t outer = args.part / tiles, at = args.part % tiles;
      const bool is_last = rest != 0 && at + 1 == tiles;
      run_tile(is_last ? last : full, args, outer * all + at * tile.rows);
    };
    return kernel;
  }

  const Computation& body_;
  const RowFlow flow_;
};

}  // namespace

PreparedKernel lower_row_tiles(const Node& fusion) {
  const Computation& body = *fusion.called.at(0);
  for (const Shape& leaf : leaf_shapes(body.root()->shape))
    if (leaf.elements_count() == 0) return {};
  return TileLowering(body).lower();
}

}  // namespace gspmd
