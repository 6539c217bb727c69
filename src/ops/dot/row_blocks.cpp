#include "ops/dot/row_blocks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "ops/common/loop_lowering.h"
#include "ops/dot/hidden_columns.h"

namespace gspmd {
namespace {

bool is_product_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

const Node* storage_of(const Node* node) {
  while (is_view_op(*node)) node = node->operand(0);
  return node;
}

bool reads_parameters(const Node& dot) {
  return storage_of(dot.operand(0))->is(Opcode::parameter) &&
         storage_of(dot.operand(1))->is(Opcode::parameter);
}

int64_t stride(const ViewDims& view, int64_t d) { return view.strides.at(static_cast<size_t>(d)); }

class SpecBuilder {
 public:
  explicit SpecBuilder(const Computation& fused) : fused_(fused) {}

  std::optional<RowBlockSpec> build() {
    if (!find_nodes() || !add_scores() || !add_loop() || !add_sums()) return std::nullopt;
    add_live_columns();
    return std::move(spec_);
  }

 private:
  // A result of the kernel: a sum under views, or a value of each row.
  struct Output {
    const Node* root = nullptr;
    const Node* value = nullptr;
  };

  bool find_nodes() {
    const Node& root = *fused_.root();
    std::vector<const Node*> roots{&root};
    if (root.is(Opcode::tuple)) roots.assign(root.operands().begin(), root.operands().end());
    for (const Node* node : roots) {
      const Node* const below = storage_of(node);
      outputs_.push_back({node, below->is(Opcode::dot) ? below : node});
    }
    for (const auto& node : fused_.nodes())
      if (node->is(Opcode::dot) && reads_parameters(*node)) scores_.push_back(node.get());
    if (scores_.empty()) return false;
    const Node& first = *scores_[0];
    space_ = first.dims();
    rows_.assign(space_.begin(), space_.end() - 1);
    spec_.batch = std::ssize(first.attrs.dot->lhs_batch);
    spec_.outer.assign(space_.begin(), space_.end() - 2);
    spec_.rows = space_[space_.size() - 2];
    spec_.columns = space_.back();
    return true;
  }

  size_t rank() const { return space_.size(); }
  bool is_row_dim(int64_t d) const {
    return d >= spec_.batch && d + 1 < static_cast<int64_t>(rank());
  }

  // An operand of a dot, as a view of a parameter.
  std::optional<ViewDims> view_of(const Node& operand, BlockArray& array) const {
    const Node& parameter = *storage_of(&operand);
    if (!parameter.is(Opcode::parameter)) return std::nullopt;
    array.kind = BlockArray::operand;
    array.index = parameter.attrs.index;
    array.dtype = parameter.shape.dtype;
    array.outer.assign(spec_.outer.size(), 0);
    return view_from(operand, parameter);
  }

  // Sets the step of a dim of the space.
  void set_step(BlockArray& array, int64_t space_dim, int64_t step) const {
    const auto d = static_cast<size_t>(space_dim);
    (d + 1 == rank() ? array.column : d + 2 == rank() ? array.row : array.outer[d]) = step;
  }

  // What the kernel reads and writes: 16-bit floats in lines along one of the two dims.
  static bool has_lines(const BlockArray& array, int64_t other_step) {
    return array.dtype == DType::f32 || array.inner == 1 || other_step == 1;
  }

  bool add_scores() {
    for (const Node* dot : scores_) {
      if (!makes_space(*dot) || dot->dims() != space_ ||
          std::ssize(dot->attrs.dot->lhs_batch) != spec_.batch)
        return false;
      BlockProduct product;
      const std::optional<ViewDims> lhs = view_of(*dot->operand(0), product.x);
      const std::optional<ViewDims> rhs = view_of(*dot->operand(1), product.y);
      if (!lhs || !rhs) return false;
      for (const DotLoop& loop : dot_loops(*dot)) {
        if (loop.out < 0) {
          product.inner = size_of(*dot, loop);
          product.x.inner = stride(*lhs, loop.lhs);
          product.y.inner = stride(*rhs, loop.rhs);
          continue;
        }
        if (loop.lhs >= 0) set_step(product.x, loop.out, stride(*lhs, loop.lhs));
        if (loop.rhs >= 0) set_step(product.y, loop.out, stride(*rhs, loop.rhs));
      }
      if (!has_lines(product.x, product.x.row) || !has_lines(product.y, product.y.column))
        return false;
      product.tile = tile_of_[dot] = new_tile(dot->shape.dtype);
      spec_.scores.push_back(std::move(product));
    }
    return true;
  }

  // --- The loop

  bool add_loop() {
    std::vector<const Node*> nodes, results;
    std::map<const Node*, int64_t> inputs;
    for (const auto& owned : fused_.nodes()) {
      const Node* node = owned.get();
      nodes.push_back(node);
      const bool reads_scores =
          std::any_of(node->operands().begin(), node->operands().end(),
                      [&](const Node* operand) { return from_scores_.contains(operand); });
      if (tile_of_.contains(node) || reads_scores) from_scores_.insert(node);
      if (node->is(Opcode::parameter)) inputs[node] = node->attrs.index;
      if (tile_of_.contains(node))
        inputs[node] = std::ssize(fused_.parameters()) + tile_of_.at(node);
      if (!node->is(Opcode::dot) || tile_of_.contains(node)) continue;
      const Node* const summed = summed_value(*node);
      if (summed == nullptr) return false;
      summed_.push_back(summed);
      const bool is_new = std::find(results.begin(), results.end(), summed) == results.end();
      if (!tile_of_.contains(summed) && is_new) results.push_back(summed);
    }
    const size_t tiles = results.size();
    for (const Output& output : outputs_) {
      if (output.value->is(Opcode::dot)) continue;
      if (output.root != output.value || output.value->dims() != rows_) return false;
      results.push_back(output.value);
    }
    for (const auto& node : fused_.nodes())  // a guard may look at it
      if (is_computed_row(*node) &&
          std::find(results.begin(), results.end(), node.get()) == results.end())
        results.push_back(node.get());
    if (results.empty()) return true;
    std::vector<bool> reduced(rank(), false);
    reduced.back() = true;
    const std::optional<LoopProgram> program =
        LoopLowering(space_, reduced, std::move(inputs)).lower(nodes, results);
    if (!program) return false;
    for (const LoopValue& value : program->values)
      if (!add_value(value)) return false;
    for (size_t i = 0; i < results.size(); ++i)
      add_result(*results[i], program->outputs[i], i < tiles);
    return true;
  }

  bool is_computed_row(const Node& node) const {
    return node.dims() == rows_ && (node.is(Opcode::reduce) || node.op().has(kElementwise)) &&
           from_scores_.contains(&node);
  }

  // The operand of a sum that is a value of the space.
  const Node* summed_value(const Node& dot) const {
    for (const int64_t side : {0, 1}) {
      const Node& operand = *dot.operand(side);
      if (operand.dims() == space_ && storage_of(&operand) == &operand &&
          !operand.is(Opcode::parameter) && space_sum(dot, side, spec_.batch))
        return &operand;
    }
    return nullptr;
  }

  int append(LoopValue value) {
    spec_.loop.values.push_back(std::move(value));
    return static_cast<int>(spec_.loop.values.size()) - 1;
  }
  int append_operand(BlockArray array) {
    LoopValue value;
    value.op = LoopOp::operand;
    value.dtype = array.dtype;
    value.operand = std::ssize(spec_.loop_operands);
    spec_.loop_operands.push_back(std::move(array));
    return append(std::move(value));
  }
  int64_t new_tile(DType dtype) {
    spec_.tiles.push_back(dtype);
    return std::ssize(spec_.tiles) - 1;
  }

  // A value of the loop over the whole space, as one of the loop over a block.
  bool add_value(const LoopValue& value) {
    int made = 0;
    if (value.op == LoopOp::operand) {
      made = add_operand(value);
    } else if (value.op == LoopOp::iota) {
      made = add_position(value);
    } else {
      LoopValue copy = value;
      for (int* input : {&copy.a, &copy.b, &copy.c})
        if (*input >= 0) *input = numbers_.at(static_cast<size_t>(*input));
      made = append(std::move(copy));
    }
    numbers_.push_back(made);
    return made >= 0;
  }

  int add_operand(const LoopValue& value) {
    BlockArray array;
    array.dtype = value.dtype;
    const int64_t tile = value.operand - std::ssize(fused_.parameters());
    if (tile >= 0) {
      array.kind = BlockArray::tile;
      array.index = tile;
      return append_operand(std::move(array));
    }
    array.index = value.operand;
    array.outer.assign(value.strides.begin(), value.strides.end() - 2);
    array.row = value.strides[rank() - 2];
    array.column = value.strides.back();
    return append_operand(std::move(array));
  }

  // Positions in the space: along outer dims a number, else that of the block's first and on.
  int add_position(const LoopValue& value) {
    const DType dtype = value.dtype;
    if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::s32 && dtype != DType::u32 &&
        dtype != DType::s64 && dtype != DType::u64)
      return -1;
    const auto d = static_cast<size_t>(value.operand);
    const bool is_row = d + 2 == rank(), is_column = d + 1 == rank();
    BlockArray array;
    array.kind = BlockArray::position;
    array.index = is_row ? kFirstRow : is_column ? kFirstColumn : value.operand;
    array.dtype = dtype;
    const int first = append_operand(std::move(array));
    if (!is_row && !is_column) return first;
    LoopValue iota;
    iota.op = LoopOp::iota;
    iota.dtype = dtype;
    iota.operand = is_row ? 0 : 1;
    LoopValue sum;
    sum.op = LoopOp::add;
    sum.dtype = dtype;
    sum.a = append(std::move(iota));
    sum.b = first;
    return append(std::move(sum));
  }

  void add_result(const Node& node, const LoopOutput& output, bool is_tile) {
    const int value = numbers_.at(static_cast<size_t>(output.value));
    BlockArray array;
    array.dtype = node.shape.dtype;
    if (is_tile) {
      const std::optional<int64_t> place = place_of_score(value, array.dtype);
      array.kind = BlockArray::tile;
      array.index = tile_of_[&node] = place ? *place : new_tile(array.dtype);
    } else if (const auto found = std::find_if(outputs_.begin(), outputs_.end(),
                                               [&](const Output& o) { return o.value == &node; });
               found != outputs_.end() && !row_arrays_.contains(&node)) {
      array = result_rows(found - outputs_.begin(), array.dtype);
    } else {
      array.kind = BlockArray::row_values;
      array.index = std::ssize(spec_.row_values);
      spec_.row_values.push_back(array.dtype);
    }
    spec_.loop.outputs.push_back({value, output.reduced});
    if (!is_tile) row_arrays_.emplace(&node, array);
    spec_.loop_results.push_back(std::move(array));
  }

  // The tile of a score of that type that neither a sum reads nor the loop behind `value`, once:
  // the loop writes over it, so that blocks have more rows.
  std::optional<int64_t> place_of_score(int value, DType dtype) {
    for (int64_t tile = 0; tile < std::ssize(scores_); ++tile) {
      const Node* const score = scores_[static_cast<size_t>(tile)];
      if (score->shape.dtype != dtype ||
          std::find(summed_.begin(), summed_.end(), score) != summed_.end() ||
          reads_behind(tile, value) || !overwritten_.insert(tile).second)
        continue;
      return tile;
    }
    return std::nullopt;
  }

  bool reads_behind(int64_t tile, int value) const {
    const std::vector<LoopValue>& values = spec_.loop.values;
    const auto is_tile = [&](int input) {
      if (input < 0 || values[static_cast<size_t>(input)].op != LoopOp::operand) return false;
      const int64_t operand = values[static_cast<size_t>(input)].operand;
      const BlockArray& array = spec_.loop_operands[static_cast<size_t>(operand)];
      return array.kind == BlockArray::tile && array.index == tile;
    };
    return std::any_of(values.begin() + value + 1, values.end(), [&](const LoopValue& reader) {
      return is_tile(reader.a) || is_tile(reader.b) || is_tile(reader.c);
    });
  }

  // A result with a value for each row.
  BlockArray result_rows(int64_t index, DType dtype) const {
    BlockArray array;
    array.kind = BlockArray::result;
    array.index = index;
    array.dtype = dtype;
    const Dims strides = row_major_strides(rows_);
    array.outer.assign(strides.begin(), strides.end() - 1);
    array.row = strides.back();
    return array;
  }

  // --- Sums

  bool add_sums() {
    std::set<const Node*> given;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Node& dot = *outputs_[i].value;
      if (!dot.is(Opcode::dot)) continue;
      if (!given.insert(&dot).second || !add_sum(dot, *outputs_[i].root, static_cast<int64_t>(i)))
        return false;
    }
    return given.size() == summed_.size();
  }

  bool add_sum(const Node& dot, const Node& root, int64_t result_index) {
    const Node* const summed = summed_value(dot);
    if (summed == nullptr) return false;
    const int64_t side = dot.operand(0) == summed && space_sum(dot, 0, spec_.batch) ? 0 : 1;
    const SpaceSum sum = *space_sum(dot, side, spec_.batch);
    const Node& other_operand = *dot.operand(1 - side);
    if (other_operand.shape.dtype != summed->shape.dtype) return false;
    BlockArray other, result;
    const std::optional<ViewDims> from = view_of(other_operand, other);
    const std::optional<ViewDims> into = view_into(dot, root);
    if (!from || !into) return false;
    result.kind = BlockArray::result;
    result.index = result_index;
    result.dtype = dot.shape.dtype;
    result.outer.assign(spec_.outer.size(), 0);
    BlockProduct product;
    product.tile = tile_of_.at(summed);
    for (const DotLoop& loop : dot_loops(dot)) {
      const int64_t tile_dim = side == 0 ? loop.lhs : loop.rhs;
      const int64_t other_dim = side == 0 ? loop.rhs : loop.lhs;
      if (tile_dim < 0) {
        product.inner = size_of(dot, loop);
        other.inner = stride(*from, other_dim);
        result.inner = stride(*into, loop.out);
        continue;
      }
      if (other_dim >= 0) set_step(other, tile_dim, stride(*from, other_dim));
      if (loop.out >= 0) set_step(result, tile_dim, stride(*into, loop.out));
    }
    if (result.inner != 1 && product.inner != 1) return false;
    if (!has_lines(other, sum.over_columns ? other.column : other.row)) return false;
    product.x = sum.over_columns ? result : other;
    product.y = sum.over_columns ? other : result;
    (sum.over_columns ? spec_.row_sums : spec_.column_sums).push_back(std::move(product));
    return true;
  }

  // --- What a mask hides

  void add_live_columns() {
    auto hidden = std::make_shared<HiddenColumns>(fused_, space_, summed_);
    std::map<std::pair<int64_t, int64_t>, BlockColumns> found;
    const int64_t rows = row_block_rows(spec_);
    bool is_any = false;
    for (int64_t first = 0; first < spec_.rows; first += rows) {
      const int64_t last = std::min(spec_.rows, first + rows);
      const BlockColumns columns = hidden->live(first, last);
      is_any |= columns.first > 0 || columns.last < spec_.columns;
      found[{first, last}] = columns;
    }
    if (!is_any) return;
    for (const HiddenColumns::Guard& guard : hidden->guards()) {
      std::optional<BlockArray> array = guarded(*guard.value);
      if (!array) return;
      spec_.guards.push_back({std::move(*array), guard.least, guard.is_divisor});
    }
    spec_.live = [found](int64_t first, int64_t last) { return found.at({first, last}); };
  }

  std::optional<BlockArray> guarded(const Node& node) const {
    if (node.shape.dtype != DType::f32 && node.shape.dtype != DType::bf16) return std::nullopt;
    if (const auto found = row_arrays_.find(&node); found != row_arrays_.end())
      return found->second;
    if (!node.is(Opcode::parameter)) return std::nullopt;
    BlockArray array = result_rows(node.attrs.index, node.shape.dtype);
    array.kind = BlockArray::operand;
    return array;
  }

  const Computation& fused_;
  RowBlockSpec spec_;
  Dims space_, rows_;
  std::vector<Output> outputs_;
  std::vector<const Node*> scores_, summed_;  // the latter by sum
  std::map<const Node*, int64_t> tile_of_;
  std::set<int64_t> overwritten_;      // tiles of scores that have become others'
  std::set<const Node*> from_scores_;  // what follows from scores
  std::map<const Node*, BlockArray> row_arrays_;
  std::vector<int> numbers_;  // of values of the whole loop in that of a block
};

}  // namespace

bool moves_ones(const Node& node) {
  if (!node.is(Opcode::reshape) && !node.is(Opcode::broadcast)) return false;
  const auto without_ones = [](Dims dims) {
    std::erase(dims, 1);
    return dims;
  };
  const Dims& order = node.attrs.dimensions;  // of a broadcast
  return without_ones(node.dims()) == without_ones(node.operand(0)->dims()) &&
         (node.is(Opcode::reshape) || std::is_sorted(order.begin(), order.end()));
}

int64_t space_batches(const Node& dot) { return std::ssize(dot.attrs.dot->lhs_batch); }

// Products of one dim, of operands and with a result that kernels of blocks can be made for.
static bool has_product_types(const Node& dot) {
  const DType from = dot.operand(0)->shape.dtype, to = dot.shape.dtype;
  return is_product_type(from) && dot.operand(1)->shape.dtype == from &&
         (to == from || to == DType::f32) && dot.attrs.dot->lhs_contracting.size() == 1 &&
         dot.shape.elements_count() > 0 && dot.operand(0)->shape.elements_count() > 0;
}

bool may_make_space(const Node& dot) {
  if (!dot.is(Opcode::dot) || dot.is_root() || !has_product_types(dot)) return false;
  const int64_t batches = space_batches(dot);
  const auto first = dot.dims().begin();
  return dot.shape.elements_count() >= kLeastSpaceElements &&
         std::any_of(first, first + batches, [](int64_t size) { return size > 1; });
}

bool makes_space(const Node& dot) {
  if (!dot.is(Opcode::dot) || !has_product_types(dot)) return false;
  const DotDims& dims = *dot.attrs.dot;
  const auto free = [&](int64_t side) {
    return free_dims(dot.operand(side)->rank(), side == 0 ? dims.lhs_batch : dims.rhs_batch,
                     side == 0 ? dims.lhs_contracting : dims.rhs_contracting)
        .size();
  };
  return free(0) >= 1 && free(1) == 1;
}

std::optional<SpaceSum> space_sum(const Node& dot, int64_t side, int64_t batch) {
  if (!dot.is(Opcode::dot)) return std::nullopt;
  const DotDims& dims = *dot.attrs.dot;
  const Node& tile = *dot.operand(side);
  const int64_t rank = tile.rank();
  if (dot.operand(0)->shape.dtype != dot.operand(1)->shape.dtype) return std::nullopt;
  if (dot.shape.dtype != tile.shape.dtype && dot.shape.dtype != DType::f32) return std::nullopt;
  if (!is_product_type(tile.shape.dtype)) return std::nullopt;
  Dims shared = side == 0 ? dims.lhs_batch : dims.rhs_batch;
  Dims summed = side == 0 ? dims.lhs_contracting : dims.rhs_contracting;
  std::sort(shared.begin(), shared.end());
  std::sort(summed.begin(), summed.end());
  Dims batches, rows;
  for (int64_t d = 0; d + 1 < rank; ++d) (d < batch ? batches : rows).push_back(d);
  if (shared != batches || (summed != rows && summed != Dims{rank - 1})) return std::nullopt;
  const Node& other = *dot.operand(1 - side);
  const auto taken = static_cast<int64_t>(shared.size() + summed.size());
  if (other.rank() - taken != 1 || other.shape.elements_count() == 0) return std::nullopt;
  return SpaceSum{side, summed != rows};
}

bool gives_lines(const Node& dot, const SpaceSum& sum, const Node& root) {
  const int64_t inner = sum.side == 0 ? dot.rank() - 1 : space_batches(dot);
  const std::optional<ViewDims> into = view_into(dot, root);
  return into && (stride(*into, inner) == 1 || dot.dim(inner) == 1);
}

std::optional<RowBlockSpec> row_block_spec(const Computation& fused) {
  return SpecBuilder(fused).build();
}

PreparedKernel lower_row_blocks(const Node& fusion) {
  std::optional<RowBlockSpec> spec = row_block_spec(*fusion.called.at(0));
  return spec ? prepare_row_blocks(std::move(*spec)) : PreparedKernel{};
}

}  // namespace gspmd
