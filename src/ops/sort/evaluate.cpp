#include <cstring>
#include <numeric>

#include "gspmd/base/error.h"
#include "ops/common/check.h"
#include "ops/common/scalar_program.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// Lines of an array along one dim: element i of line n is at (n / inner) * size * inner + n % inner
// + i * inner.
struct Lines {
  int64_t count = 1, size = 1, inner = 1;
  Lines(const Dims& dims, size_t along) {
    size = dims[along];
    for (size_t d = 0; d < dims.size(); ++d) {
      if (d != along) count *= dims[d];
      if (d > along) inner *= dims[d];
    }
  }
  int64_t first(int64_t line) const { return line / inner * size * inner + line % inner; }
};

// Bottom-up merge sort: stable, and inside its bounds for any `less`, whether it is an order or
// not.
template <class Less>
void merge_sort(std::vector<int64_t>& order, Less&& less) {
  constexpr size_t kRun = 8;
  const size_t n = order.size();
  for (size_t begin = 0; begin < n; begin += kRun)
    for (size_t i = begin + 1; i < std::min(n, begin + kRun); ++i) {
      const int64_t item = order[i];
      size_t at = i;
      for (; at > begin && less(item, order[at - 1]); --at) order[at] = order[at - 1];
      order[at] = item;
    }
  std::vector<int64_t> other(n);
  for (size_t width = kRun; width < n; width *= 2) {
    for (size_t begin = 0; begin < n; begin += 2 * width) {
      const size_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      size_t a = begin, b = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool right = a == middle || (b < end && less(order[b], order[a]));
        other[out] = order[right ? b++ : a++];
      }
    }
    order.swap(other);
  }
}

class Sorter {
 public:
  explicit Sorter(const EvalContext& context)
      : context_(context),
        lines_(context.operands[0].array.dims(),
               static_cast<size_t>(context.node.attrs.dimensions[0])),
        compare_(*context.node.called[0], context.call) {
    for (const Value& operand : context.operands) {
      inputs_.push_back(operand.array.bytes().data());
      sizes_.push_back(dtype_size(operand.array.dtype()));
      results_.emplace_back(operand.array.shape());
    }
    if (const auto keys = sort_keys(*context.node.called[0])) {
      for (const SortKey& key : *keys) {
        ScalarProgram program(*context.node.called[0], *key.left, context.call);
        if (program.compiled()) keys_.push_back({key, std::move(program)});
      }
      if (keys_.size() != keys->size()) keys_.clear();
    }
  }

  Value run() {
    for (int64_t line = 0; line < lines_.count; ++line) {
      const int64_t first = lines_.first(line);
      const std::vector<int64_t> order = order_of(first);
      for (size_t i = 0; i < inputs_.size(); ++i) permute(i, first, order);
    }
    return pack(context_.node.shape, results_);
  }

 private:
  struct Key {
    SortKey key;
    ScalarProgram program;
  };

  const std::byte* element(size_t operand, int64_t first, int64_t i) const {
    return inputs_[operand] + (first + i * lines_.inner) * sizes_[operand];
  }

  std::vector<int64_t> order_of(int64_t first) {
    if (!keys_.empty() && fill_columns(first)) return stable_order(columns_, lines_.size);
    std::vector<int64_t> order(static_cast<size_t>(lines_.size));
    std::iota(order.begin(), order.end(), int64_t(0));
    merge_sort(order, [&](int64_t a, int64_t b) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        compare_.set(2 * i, element(i, first, a));
        compare_.set(2 * i + 1, element(i, first, b));
      }
      compare_.run();
      return compare_.result(0)[0] != std::byte{0};
    });
    return order;
  }

  // The keys of a line; false where they have no order (NaN).
  bool fill_columns(int64_t first) {
    columns_.resize(keys_.size());
    for (size_t c = 0; c < keys_.size(); ++c) {
      auto& [key, program] = keys_[c];
      columns_[c].clear();
      columns_[c].reserve(static_cast<size_t>(lines_.size));
      const DType dtype = key.left->shape.dtype;
      const size_t operand = key.operands[0];
      OrderedElements elements{element(operand, first, 0), lines_.inner * sizes_[operand],
                               lines_.size, key.descending, key.total_order};
      if (!key.left->is(Opcode::parameter)) {
        elements.step = dtype_size(dtype);
        computed_.resize(static_cast<size_t>(lines_.size * elements.step));
        elements.first = computed_.data();
        for (int64_t i = 0; i < lines_.size; ++i) {
          for (const size_t read : key.operands) program.set(2 * read, element(read, first, i));
          program.run();
          program.take(0, computed_.data() + i * elements.step);
        }
      }
      if (!append_ordered(dtype, elements, columns_[c])) return false;
    }
    return true;
  }

  void permute(size_t operand, int64_t first, const std::vector<int64_t>& order) {
    const auto size = static_cast<size_t>(sizes_[operand]);
    std::byte* const out = results_[operand].bytes().data();
    for (size_t i = 0; i < order.size(); ++i)
      std::memcpy(out + static_cast<size_t>(first + static_cast<int64_t>(i) * lines_.inner) * size,
                  element(operand, first, order[i]), size);
  }

  const EvalContext& context_;
  Lines lines_;
  ScalarProgram compare_;
  std::vector<Key> keys_;
  std::vector<const std::byte*> inputs_;
  std::vector<int64_t> sizes_;
  std::vector<Array> results_;
  std::vector<std::vector<uint64_t>> columns_;
  std::vector<std::byte> computed_;  // keys of a line
};

}  // namespace

Value evaluate_sort(const EvalContext& context) { return Sorter(context).run(); }

// Total order, of equal elements the first ones.
Value evaluate_topk(const EvalContext& context) {
  const Array& x = context.operands[0].array;
  const std::vector<Shape> shapes = leaf_shapes(context.node.shape);
  const std::vector<Array> results{Array(shapes[0]), Array(shapes[1])};
  const int64_t size = x.dims().back(), k = shapes[0].dims.back();
  if (results[0].size() == 0) return pack(context.node.shape, results);
  const auto bytes = static_cast<size_t>(dtype_size(x.dtype()));
  const std::span<int32_t> indices = results[1].data<int32_t>();
  const bool descending = context.node.attrs.scalar->largest;
  std::vector<uint64_t> keys;
  for (int64_t line = 0; line < x.size() / size; ++line) {
    const std::byte* const in = x.bytes().data() + static_cast<size_t>(line * size) * bytes;
    keys.clear();
    const OrderedElements elements{in, static_cast<int64_t>(bytes), size, descending, true};
    if (!append_ordered(x.dtype(), elements, keys)) {  // narrow types
      std::vector<double> wide;
      for (int64_t i = 0; i < size; ++i) wide.push_back(x.at(line * size + i));
      append_ordered(DType::f64,
                     {reinterpret_cast<const std::byte*>(wide.data()), 8, size, descending, true},
                     keys);
    }
    const std::vector<int64_t> order = first_of_order(keys, k);
    for (int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(line * k + i);
      const int64_t from = order[static_cast<size_t>(i)];
      std::memcpy(results[0].bytes().data() + at * bytes, in + static_cast<size_t>(from) * bytes,
                  bytes);
      indices[at] = static_cast<int32_t>(from);
    }
  }
  return pack(context.node.shape, results);
}

}  // namespace gspmd
