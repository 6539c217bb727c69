// A transform of one split dim in four steps: the dim is seen as a matrix, whose columns and then
// rows are transformed, each where it is whole.

#include <numbers>
#include <numeric>

#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "ops/emission/index.h"
#include "ops/linalg/fft.h"

namespace gspmd {
namespace {

// Rows of the matrix: both sides divide by the tiles, and are as alike as they can be; 0: none do.
int64_t rows_of(int64_t size, int64_t tiles) {
  int64_t best = 0;
  for (int64_t rows = tiles; rows <= size / tiles; rows += tiles)
    if (size % rows == 0 && size / rows % tiles == 0 &&
        (best == 0 || std::abs(size / rows - rows) < std::abs(size / best - best)))
      best = rows;
  return best;
}

class SplitTransform {
 public:
  SplitTransform(PartitionContext& spmd, Node& node, const Sharding& layout, int64_t rows)
      : spmd_(spmd),
        node_(node),
        layout_(layout),
        last_(node.rank() - 1),
        size_(node.dim(last_)),
        rows_(rows),
        columns_(size_ / rows) {}

  // x[n1 * columns + n2] gives X[k1 + rows * k2]: over n1, then by the roots of unity, then over
  // n2.
  Partitioned run() {
    Node* x = spmd_.reshard(node_.operand(0), layout_);
    x = hlo::reshape(x, with_end(x, {x->dim(last_) * rows_ / size_, columns_}));
    x = transformed(turned(moved(x, rows_, columns_, true)), rows_);  // [n2, k1]
    x = hlo::multiply(x, roots(x->shape));
    x = transformed(turned(moved(x, columns_, rows_, true)), columns_);  // [k1, k2]
    x = moved(turned(x), columns_, rows_, false);                        // [k2, k1]
    return {hlo::reshape(x, local_shape(node_.shape, layout_).dims), layout_};
  }

 private:
  Dims with_end(const Node* x, std::initializer_list<int64_t> end) const {
    Dims dims(x->dims().begin(), x->dims().begin() + last_);
    dims.insert(dims.end(), end);
    return dims;
  }

  // [a, b] from where one of both is split to where the other is: from a to b with `from_first`.
  Node* moved(Node* x, int64_t a, int64_t b, bool from_first) {
    const Shape whole(x->shape.dtype, global_with_end({a, b}));
    const Sharding first = split(true), second = split(false);
    return spmd_.reshard({x, from_first ? first : second}, whole, from_first ? second : first);
  }
  Dims global_with_end(std::initializer_list<int64_t> end) const {
    Dims dims(node_.dims().begin(), node_.dims().end() - 1);
    dims.insert(dims.end(), end);
    return dims;
  }
  Sharding split(bool first) const {
    std::vector<Digits> dims;
    for (int64_t d = 0; d < last_; ++d) dims.push_back(layout_.dim(d));
    dims.push_back(first ? layout_.dim(last_) : Digits{});
    dims.push_back(first ? Digits{} : layout_.dim(last_));
    return Sharding::tiled(layout_.order(), std::move(dims), layout_.manual_digits());
  }

  Node* turned(Node* x) const {
    Dims permutation(x->dims().size());
    std::iota(permutation.begin(), permutation.end(), 0);
    std::swap(permutation.back(), permutation[permutation.size() - 2]);
    return hlo::transpose(x, permutation);
  }

  Node* transformed(Node* x, int64_t length) {
    Attributes attrs = node_.attrs;
    attrs.dimensions = {length};
    return spmd_.emit(Opcode::fft, x->shape, {x}, attrs);
  }

  // exp(-+ 2 pi i n2 k1 / size) for the part's [n2, k1].
  Node* roots(const Shape& shape) {
    Computation& c = spmd_.local();
    const Shape wide(DType::f64, shape.dims), counts(DType::s64, shape.dims);
    const auto at = [&](int64_t d) { return hlo::iota(c, counts, d); };
    const IndexNode tile(spmd_.digits_index(layout_.order(), layout_.dim(last_)));
    const IndexNode begin(hlo::convert(tile * shape.dims[static_cast<size_t>(last_)], DType::s64));
    const IndexNode n2 = positions(shape.dims, last_, begin);
    Node* turn = hlo::convert(hlo::binary(Opcode::multiply, n2, at(last_ + 1)), DType::f64);
    const double sign = node_.attrs.scalar->fft_type == "FFT" ? -1 : 1;
    const double unit = sign * 2 * std::numbers::pi / static_cast<double>(size_);
    Node* angle = hlo::multiply(turn, hlo::splat(c, wide, unit));
    const DType part = shape.dtype == DType::c64 ? DType::f32 : DType::f64;
    Node* re = hlo::convert(hlo::unary(Opcode::cosine, angle), part);
    Node* im = hlo::convert(hlo::unary(Opcode::sine, angle), part);
    return spmd_.emit(Opcode::complex, shape, {re, im});
  }

  PartitionContext& spmd_;
  Node& node_;
  const Sharding layout_;
  const int64_t last_, size_, rows_, columns_;
};

}  // namespace

std::optional<Partitioned> partition_fft(PartitionContext& spmd, Node& node) {
  const Sharding have = spmd.sharding(*node.operand(0)), want = spmd.sharding(node);
  const std::string& type = node.attrs.scalar->fft_type;
  const int64_t last = node.rank() - 1;
  if ((type != "FFT" && type != "IFFT") || node.attrs.dimensions.size() != 1 || !have.is_tiled() ||
      !want.is_tiled() || !equivalent(have, want) || have.dim(last).empty() ||
      spmd.keeps_unreduced(node, 0))
    return std::nullopt;
  const int64_t tiles = have.tiles(last);
  // Three exchanges of a part send less than a gather from four devices on; where another dim can
  // take the tiles, two exchanges do.
  if (tiles < 4) return std::nullopt;
  for (int64_t d = 0; d < last; ++d)
    if (2 * ceil_div(node.dim(d), have.tiles(d)) > tiles) return std::nullopt;
  const int64_t rows = rows_of(node.dim(last), tiles);
  if (rows == 0 || node.dim(last) >= int64_t(1) << 31) return std::nullopt;
  return SplitTransform(spmd, node, have, rows).run();
}

}  // namespace gspmd
