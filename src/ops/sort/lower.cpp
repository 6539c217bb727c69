// Sorts of lines: by keys as integers, else by the comparator on records that are merged.
#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>

#include "gspmd/base/error.h"
#include "kernels/sort_keys.h"
#include "ops/common/scalar_program.h"
#include "ops/evaluate/interpreter.h"
#include "ops/sort/lane_merger.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

constexpr size_t kChunk = 1024;    // elements whose keys are computed at once
constexpr int64_t kBlocks = 8;     // of a line that several workers sort
constexpr int64_t kFewPicked = 8;  // up to a kFewPicked-th of a line is picked out, not sorted

// Lines of n arrays along one dim, of which the first `take` elements in order are wanted. Element
// i of line l of an operand is at (l / inner) * size * inner + l % inner + i * inner; results have
// lines of `result_size`.
struct LineSort {
  const Computation* comparator = nullptr;  // nullptr: the order of operand 0, as `key` says
  std::vector<SortKey> keys;                // empty: no order of keys
  std::vector<DType> dtypes;                // of the operands
  int64_t lines = 1, size = 0, inner = 1;
  int64_t take = 0, result_size = 0;
  bool indices = false;  // s32 indices are one more result
  int64_t blocks = 0;    // of a line, which parts put in order before they are merged

  int64_t first(int64_t line, int64_t length) const {
    return line / inner * length * inner + line % inner;
  }
};

// Moves elements of one size to where an order says.
template <class T>
void permute(const std::byte* from, std::byte* to, int64_t step, int64_t count,
             const uint32_t* order) {
  const auto* const in = reinterpret_cast<const T*>(from);
  auto* const out = reinterpret_cast<T*>(to);
  if (step == 1)
    for (int64_t i = 0; i < count; ++i) out[i] = in[order[i]];
  else
    for (int64_t i = 0; i < count; ++i) out[i * step] = in[static_cast<int64_t>(order[i]) * step];
}

using Permute = void (*)(const std::byte*, std::byte*, int64_t, int64_t, const uint32_t*);
Permute permute_function(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return permute<uint8_t>;
    case 2:
      return permute<uint16_t>;
    case 4:
      return permute<uint32_t>;
    case 8:
      return permute<uint64_t>;
    case 16:
      return permute<std::complex<double>>;
    default:
      return nullptr;
  }
}

// The element of which a key of key_function is, ordered totally.
uint32_t element_bits(uint32_t key, DType dtype, bool descending) {
  if (descending) key = ~key;
  const int bits = static_cast<int>(8 * dtype_size(dtype));
  const uint32_t sign = uint32_t{1} << (bits - 1);
  if (is_floating(dtype)) return (key & sign) != 0 ? key ^ sign : ~key;
  return is_signed_integer(dtype) ? key ^ sign : key;
}

class LineSorter {
 public:
  LineSorter(const LineSort& sort, const KernelArgs& args) : s_(sort), args_(args) {
    const size_t lanes = std::min(kChunk, static_cast<size_t>(s_.size));
    for (const SortKey& key : s_.keys) {
      programs_.emplace_back();
      if (is_computed(key))
        programs_.back().emplace(*s_.comparator, *key.left, interpreter_.call(), lanes);
    }
  }

  void run(int64_t line) {
    if (s_.take == 0) return;
    order_.resize(static_cast<size_t>(s_.size));
    if (is_of_elements() && sort_elements(line)) return;
    if (s_.blocks > 0)
      merge_blocks(line);
    else if (!order_by_keys(line))
      merger().order(columns_of(line), order_);
    for (size_t i = 0; i < s_.dtypes.size(); ++i)
      permute_function(s_.dtypes[i])(operand(i, line), result(i, line), s_.inner, s_.take,
                                     order_.data());
    if (s_.indices) std::memcpy(result(s_.dtypes.size(), line), order_.data(), bytes_of_take(4));
  }

  // One block of a line of those that parts put in order, for others to merge.
  void order_block(int64_t line, int64_t index) {
    const int64_t first = index * block();
    std::vector<uint32_t> order(static_cast<size_t>(std::min(block(), s_.size - first)));
    merger().order(columns_of(line), order, static_cast<uint32_t>(first));
    std::copy(order.begin(), order.end(), shared_order(line) + first);
  }

 private:
  int64_t block() const { return LaneMerger::block_of(s_.size, kBlocks); }
  uint32_t* shared_order(int64_t line) const {
    return reinterpret_cast<uint32_t*>(args_.shared) + line * s_.size;
  }
  size_t bytes_of_take(int64_t size) const { return static_cast<size_t>(s_.take * size); }
  int64_t step(size_t i) const { return s_.inner * dtype_size(s_.dtypes[i]); }
  const std::byte* operand(size_t i, int64_t line) const {
    return args_.operands[i] + s_.first(line, s_.size) * dtype_size(s_.dtypes[i]);
  }
  std::byte* result(size_t i, int64_t line) const {
    const int64_t size = i < s_.dtypes.size() ? dtype_size(s_.dtypes[i]) : 4;
    return args_.results[i] + s_.first(line, s_.result_size) * size;
  }
  bool picks() const { return s_.take <= s_.size / kFewPicked; }

  bool is_computed(const SortKey& key) const {
    return s_.comparator != nullptr && !key.left->is(Opcode::parameter);
  }

  // Whether the key says all of an element, so that sorted keys are the sorted elements.
  bool is_of_elements() const {
    return s_.dtypes.size() == 1 && !s_.indices && s_.keys.size() == 1 && !picks() &&
           s_.keys[0].left->is(Opcode::parameter) && key_function(s_.dtypes[0]) != nullptr &&
           (s_.keys[0].total_order || !is_floating(s_.dtypes[0]));
  }

  bool sort_elements(int64_t line) {
    const SortKey& key = s_.keys[0];
    const DType dtype = s_.dtypes[0];
    keys_.resize(static_cast<size_t>(s_.size));
    if (!key_function(dtype)({operand(0, line), step(0), s_.size, key.descending, key.total_order},
                             keys_.data()))
      return false;
    radix_sort(keys_, other_keys_);
    const auto put = [&]<class T>(T* out) {
      for (int64_t i = 0; i < s_.take; ++i)
        out[i * s_.inner] =
            static_cast<T>(element_bits(keys_[static_cast<size_t>(i)], dtype, key.descending));
    };
    std::byte* const out = result(0, line);
    if (dtype_size(dtype) == 4) put(reinterpret_cast<uint32_t*>(out));
    if (dtype_size(dtype) == 2) put(reinterpret_cast<uint16_t*>(out));
    if (dtype_size(dtype) == 1) put(reinterpret_cast<uint8_t*>(out));
    return true;
  }

  // f(elements of key c of a chunk, index of its first); false where f is.
  template <class F>
  bool for_each_chunk(size_t c, int64_t line, F&& f) {
    const SortKey& key = s_.keys[c];
    for (int64_t first = 0; first < s_.size; first += kChunk) {
      const int64_t count = std::min<int64_t>(kChunk, s_.size - first);
      KeyElements elements{nullptr, 0, count, key.descending, key.total_order};
      if (!is_computed(key)) {
        const size_t from = key.operands[0];
        elements.first = operand(from, line) + first * step(from);
        elements.step = step(from);
      } else {
        for (const size_t from : key.operands)
          programs_[c]->set_lanes(2 * from, operand(from, line) + first * step(from), step(from),
                                  static_cast<size_t>(count));
        programs_[c]->run(static_cast<size_t>(count));
        elements.first = programs_[c]->result(0);
        elements.step = dtype_size(key.left->shape.dtype);
      }
      if (!f(elements, first)) return false;
    }
    return true;
  }

  DType key_dtype(size_t c) const {
    return s_.comparator == nullptr ? s_.dtypes[0] : s_.keys[c].left->shape.dtype;
  }

  // False where the keys of a line have no order (NaN).
  bool order_by_keys(int64_t line) {
    if (s_.keys.empty()) return false;
    const KeyFunction function = key_function(key_dtype(0));
    if (s_.keys.size() > 1 || function == nullptr) return order_by_columns(line);
    std::array<uint32_t, kChunk> keys;
    items_.clear();
    LeastKeys least(s_.take);
    const bool ordered = for_each_chunk(0, line, [&](const KeyElements& elements, int64_t first) {
      if (!function(elements, keys.data())) return false;
      if (picks()) {
        least.add(keys.data(), elements.count, first);
        return true;
      }
      for (int64_t i = 0; i < elements.count; ++i)
        items_.push_back(static_cast<uint64_t>(keys[static_cast<size_t>(i)]) << 32 |
                         static_cast<uint64_t>(first + i));
      return true;
    });
    if (!ordered) return false;
    if (picks())
      least.take(items_);
    else
      radix_sort_upper(items_, other_items_);
    for (int64_t i = 0; i < s_.take; ++i)
      order_[static_cast<size_t>(i)] = static_cast<uint32_t>(items_[static_cast<size_t>(i)]);
    return true;
  }

  // Several keys, and those of 8 bytes: the least that decides first, each time stably.
  bool order_by_columns(int64_t line) {
    if (s_.keys.size() == 1 && picks()) return pick_by_column(line);
    halves_count_ = 0;
    for (size_t c = 0; c < s_.keys.size(); ++c)
      if (!append_halves(c, line)) return false;
    items_.resize(static_cast<size_t>(s_.size));
    for (size_t i = 0; i < items_.size(); ++i) items_[i] = i;
    for (size_t h = halves_count_; h-- > 0;) {
      const std::vector<uint32_t>& keys = halves_[h];
      if (std::all_of(keys.begin(), keys.end(), [&](uint32_t key) { return key == keys[0]; }))
        continue;
      for (uint64_t& item : items_) {
        const auto index = static_cast<uint32_t>(item);
        item = static_cast<uint64_t>(keys[index]) << 32 | index;
      }
      radix_sort_upper(items_, other_items_);
    }
    for (size_t i = 0; i < static_cast<size_t>(s_.take); ++i)
      order_[i] = static_cast<uint32_t>(items_[i]);
    return true;
  }

  // Room for the keys of a line, kept from line to line.
  std::vector<uint32_t>& next_half() {
    if (halves_count_ == halves_.size()) halves_.emplace_back(static_cast<size_t>(s_.size));
    return halves_[halves_count_++];
  }

  // Keys of a column as numbers of 32 bits, of 8 bytes the upper halves first.
  bool append_halves(size_t c, int64_t line) {
    const auto size = static_cast<size_t>(s_.size);
    if (const KeyFunction function = key_function(key_dtype(c))) {
      std::vector<uint32_t>& keys = next_half();
      return for_each_chunk(c, line, [&](const KeyElements& e, int64_t first) {
        return function(e, keys.data() + first);
      });
    }
    if (!append_column(c, line)) return false;
    std::vector<uint32_t>& upper = next_half();
    for (size_t i = 0; i < size; ++i) upper[i] = static_cast<uint32_t>(column_[i] >> 32);
    std::vector<uint32_t>& lower = next_half();
    for (size_t i = 0; i < size; ++i) lower[i] = static_cast<uint32_t>(column_[i]);
    return true;
  }

  bool append_column(size_t c, int64_t line) {
    column_.clear();
    column_.reserve(static_cast<size_t>(s_.size));
    return for_each_chunk(c, line, [&](const KeyElements& e, int64_t) {
      return append_ordered(key_dtype(c), {e.first, e.step, e.count, e.descending, e.total_order},
                            column_);
    });
  }

  bool pick_by_column(int64_t line) {
    if (!append_column(0, line)) return false;
    const std::vector<int64_t> order = first_of_order(column_, s_.take);
    std::copy(order.begin(), order.end(), order_.begin());
    return true;
  }

  LaneMerger& merger() {
    if (!merger_) merger_.emplace(*s_.comparator, interpreter_.call());
    return *merger_;
  }
  std::vector<MergeColumn> columns_of(int64_t line) const {
    std::vector<MergeColumn> columns;
    for (size_t i = 0; i < s_.dtypes.size(); ++i)
      columns.push_back({operand(i, line), step(i), dtype_size(s_.dtypes[i])});
    return columns;
  }
  // What order_block has made.
  void merge_blocks(int64_t line) {
    std::copy_n(shared_order(line), s_.size, order_.begin());
    merger().merge(columns_of(line), order_, static_cast<size_t>(block()));
  }

  const LineSort& s_;
  const KernelArgs& args_;
  Interpreter interpreter_;
  std::vector<std::optional<ScalarProgram>> programs_;  // of computed keys
  std::optional<LaneMerger> merger_;
  std::vector<uint32_t> order_, keys_, other_keys_;
  std::vector<uint64_t> items_, other_items_;
  std::vector<uint64_t> column_;
  std::deque<std::vector<uint32_t>> halves_;  // the first halves_count_ are this line's
  size_t halves_count_ = 0;
};

PreparedKernel prepare(LineSort sort) {
  if (sort.size > std::numeric_limits<uint32_t>::max()) return {};
  for (const DType dtype : sort.dtypes)
    if (permute_function(dtype) == nullptr) return {};
  const double elements = static_cast<double>(sort.lines) * static_cast<double>(sort.size);
  PreparedKernel kernel;
  const bool merges = sort.comparator != nullptr && sort.keys.empty();  // all of a line
  kernel.cost = 100 + elements * (!merges && sort.take <= sort.size / kFewPicked ? 1 : 20);
  kernel.parts = elements > 4096 ? std::clamp<int64_t>(sort.lines, 1, 8) : 1;
  if (merges && elements > 4096 && sort.lines < kBlocks) {
    sort.blocks = ceil_div(sort.size, LaneMerger::block_of(sort.size, kBlocks));
    kernel.prepare_parts = sort.lines * sort.blocks;
    kernel.shared_bytes = ceil_div(sort.lines * sort.size * int64_t{4}, 64) * 64;
    kernel.prepare = [sort](const KernelArgs& args) {
      LineSorter(sort, args).order_block(args.part / sort.blocks, args.part % sort.blocks);
    };
  }
  kernel.run = [sort = std::move(sort), parts = kernel.parts](const KernelArgs& args) {
    LineSorter sorter(sort, args);
    for (int64_t line = args.part * sort.lines / parts; line < (args.part + 1) * sort.lines / parts;
         ++line)
      sorter.run(line);
  };
  return kernel;
}

LineSort lines_along(const Shape& shape, int64_t dim) {
  LineSort sort;
  sort.size = sort.result_size = sort.take = shape.dims[static_cast<size_t>(dim)];
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (d != dim) sort.lines *= shape.dims[static_cast<size_t>(d)];
    if (d > dim) sort.inner *= shape.dims[static_cast<size_t>(d)];
  }
  return sort;
}

LineSort by_comparator(const Node& node, size_t operands, int64_t dim) {
  LineSort sort = lines_along(node.operand(0)->shape, dim);
  sort.comparator = node.called.at(0);
  for (size_t i = 0; i < operands; ++i) sort.dtypes.push_back(node.operands()[i]->shape.dtype);
  auto keys = sort_keys(*sort.comparator);
  if (!keys) return sort;
  const Interpreter interpreter;
  for (const SortKey& key : *keys) {
    const DType dtype = key.left->shape.dtype;
    if (!is_computable(dtype) || is_complex(dtype)) return sort;
    if (!ScalarProgram(*sort.comparator, *key.left, interpreter.call()).compiled()) return sort;
  }
  sort.keys = std::move(*keys);
  return sort;
}

// How many elements from the first on the slices of a value read, all of them where something else
// reads it.
int64_t read_by_slices(const Node& value, size_t dim, int64_t size) {
  if (value.parent().root() == &value) return size;
  int64_t most = 0;
  for (const Node* user : value.users()) {
    if (!user->is(Opcode::slice)) return size;
    const Dims& steps = user->attrs.strides;
    const int64_t step = steps.empty() ? 1 : steps[dim];
    const int64_t count = user->dims()[dim];
    if (count > 0) most = std::max(most, user->attrs.starts[dim] + (count - 1) * step + 1);
  }
  return most;
}

int64_t elements_read(const Node& sort) {
  const auto dim = static_cast<size_t>(sort.attrs.dimensions[0]);
  const int64_t size = sort.operand(0)->dims()[dim];
  if (!sort.shape.is_tuple) return read_by_slices(sort, dim, size);
  if (sort.parent().root() == &sort) return size;
  int64_t most = 0;
  for (const Node* user : sort.users())
    most = std::max(most,
                    user->is(Opcode::get_tuple_element) ? read_by_slices(*user, dim, size) : size);
  return most;
}

}  // namespace

PreparedKernel lower_sort(const Node& node) {
  LineSort sort = by_comparator(node, node.operands().size(), node.attrs.dimensions[0]);
  sort.take = elements_read(node);
  return prepare(std::move(sort));
}

PreparedKernel lower_first_of_sort(const Node& node, size_t operands, int64_t dim) {
  LineSort sort = by_comparator(node, operands, dim);
  sort.take = sort.result_size = leaf_shapes(node.shape)[0].dims[static_cast<size_t>(dim)];
  return prepare(std::move(sort));
}

PreparedKernel lower_topk(const Node& node) {
  const auto form = top_k_form(node);
  const Shape& x = node.operand(0)->shape;
  if (!form || !is_computable(x.dtype) || x.dims.back() > std::numeric_limits<int32_t>::max())
    return {};
  LineSort sort = lines_along(x, x.rank() - 1);
  sort.dtypes = {x.dtype};
  sort.keys = {{nullptr, {0}, form->largest, true}};
  sort.take = sort.result_size = form->k;
  sort.indices = true;
  return prepare(std::move(sort));
}

}  // namespace gspmd
