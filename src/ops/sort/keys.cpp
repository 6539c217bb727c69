// Sorting by keys: which comparators are orders of integers, and radix sort of those.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/numeric.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// Nodes compared with their mirror images before the comparator is called too large.
constexpr int kMostKeyVisits = 2000;

// Whether `a` over parameters 2k is the same computation as `b` over parameters 2k + 1.
class Mirror {
 public:
  bool match(const Node& a, const Node& b) {
    if (++visits_ > kMostKeyVisits || a.opcode() != b.opcode() || !(a.shape == b.shape))
      return false;
    if (!a.called.empty() || a.shape.is_tuple || a.rank() != 0) return false;
    if (a.is(Opcode::parameter)) {
      const int64_t left = a.attrs.index;
      if (left % 2 != 0 || b.attrs.index != left + 1) return false;
      operands_.insert(static_cast<size_t>(left / 2));
      return true;
    }
    if (a.op().evaluate == nullptr || a.op().has(kSideEffect)) return false;
    if (!equal(a.attrs, b.attrs) || a.operands().size() != b.operands().size()) return false;
    for (size_t i = 0; i < a.operands().size(); ++i)
      if (!match(*a.operands()[i], *b.operands()[i])) return false;
    return true;
  }
  const std::set<size_t>& operands() const { return operands_; }

 private:
  int visits_ = 0;
  std::set<size_t> operands_;
};

// A compare of a key with its mirror image, the left element's side first.
std::optional<SortKey> key_of(const Node& compare, bool equality) {
  if (!compare.is(Opcode::compare)) return std::nullopt;
  const Direction direction = compare.attrs.direction;
  const bool less = direction == Direction::lt, greater = direction == Direction::gt;
  if (equality ? direction != Direction::eq : !less && !greater) return std::nullopt;
  for (const bool swapped : {false, true}) {
    Mirror mirror;
    const Node& left = *compare.operand(swapped ? 1 : 0);
    if (!mirror.match(left, *compare.operand(swapped ? 0 : 1)) || mirror.operands().empty())
      continue;
    return SortKey{&left,
                   {mirror.operands().begin(), mirror.operands().end()},
                   greater != swapped && !equality,
                   compare.attrs.compare_type == "TOTALORDER"};
  }
  return std::nullopt;
}

bool same_key(const Node& a, const Node& b, int& visits) {
  if (&a == &b) return true;
  if (++visits > kMostKeyVisits || a.opcode() != b.opcode() || !(a.shape == b.shape)) return false;
  if (a.is(Opcode::parameter) || !equal(a.attrs, b.attrs)) return false;
  if (!a.called.empty() || a.operands().size() != b.operands().size()) return false;
  for (size_t i = 0; i < a.operands().size(); ++i)
    if (!same_key(*a.operands()[i], *b.operands()[i], visits)) return false;
  return true;
}

template <class T>
std::optional<uint64_t> bits_of_float(const std::byte* element, bool total_order) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  using C = ComputeType<T>;
  if (!total_order && std::isnan(C(value))) return std::nullopt;
  if (!total_order && C(value) == C(0)) value = T(C(0));
  using U = std::conditional_t<sizeof(T) == 2, uint16_t,
                               std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  U bits;
  std::memcpy(&bits, &value, sizeof(T));
  constexpr U kSign = static_cast<U>(U(1) << (sizeof(T) * 8 - 1));
  return static_cast<U>((bits & kSign) != 0 ? ~bits : bits | kSign);
}

struct Item {
  uint64_t key;
  int64_t index;
};

// One stable pass per byte that differs between keys.
void sort_by_radix(std::vector<Item>& items) {
  uint64_t all = ~uint64_t(0), any = 0;
  for (const Item& item : items) {
    all &= item.key;
    any |= item.key;
  }
  std::vector<Item> other(items.size());
  for (int shift = 0; shift < 64; shift += 8) {
    if ((((all ^ any) >> shift) & 0xff) == 0) continue;
    std::array<size_t, 256> starts{};
    for (const Item& item : items) ++starts[(item.key >> shift) & 0xff];
    size_t next = 0;
    for (size_t& start : starts) next += std::exchange(start, next);
    for (const Item& item : items) other[starts[(item.key >> shift) & 0xff]++] = item;
    items.swap(other);
  }
}

}  // namespace

std::optional<std::vector<SortKey>> sort_keys(const Computation& comparator) {
  std::vector<SortKey> keys;
  const Node* node = comparator.root();
  // or(less(a), and(equal(a), or(less(b), ...))), as lexicographic comparators are written.
  while (node->is(Opcode::or_) && keys.size() < 8) {
    const Node* const rest = node->operand(1);
    if (!rest->is(Opcode::and_)) return std::nullopt;
    const std::optional<SortKey> less = key_of(*node->operand(0), false);
    const std::optional<SortKey> equal = key_of(*rest->operand(0), true);
    int visits = 0;
    if (!less || !equal || !same_key(*less->left, *equal->left, visits)) return std::nullopt;
    // Floats ordered totally but equal by value, or the other way round, are no lexicographic
    // order.
    if (is_floating(less->left->shape.dtype) && less->total_order != equal->total_order)
      return std::nullopt;
    keys.push_back(*less);
    node = rest->operand(1);
  }
  const std::optional<SortKey> last = key_of(*node, false);
  if (!last) return std::nullopt;
  keys.push_back(*last);
  return keys;
}

bool append_ordered(DType dtype, const OrderedElements& elements, std::vector<uint64_t>& out) {
  if (!is_computable(dtype) || is_complex(dtype)) return false;
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::byte* at = elements.first;
    for (int64_t i = 0; i < elements.count; ++i, at += elements.step) {
      uint64_t bits = 0;
      if constexpr (is_float_v<T>) {
        const std::optional<uint64_t> ordered = bits_of_float<T>(at, elements.total_order);
        if (!ordered) return false;
        bits = *ordered;
      } else {
        T value;
        std::memcpy(&value, at, sizeof(T));
        if constexpr (std::is_signed_v<T>)
          bits = static_cast<uint64_t>(static_cast<int64_t>(value)) ^ (uint64_t(1) << 63);
        else
          bits = static_cast<uint64_t>(value);
      }
      out.push_back(elements.descending ? ~bits : bits);
    }
    return true;
  });
}

Array last_of_order(DType dtype, bool descending) {
  Array value(dtype, {});
  if (is_floating(dtype) && !is_narrow(dtype)) {  // the NaN of largest payload, of either sign
    const std::span<std::byte> bytes = value.bytes();
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    if (!descending) bytes.back() = std::byte{0x7f};
    return value;
  }
  const Combiner extreme = descending ? Combiner::max : Combiner::min;
  value.set(0, combiner_identity(extreme, dtype));
  if (!is_floating(dtype)) return value;
  // Narrow types are compared as f64; not all of them have NaNs, or of both signs.
  Array nan(dtype, {});
  nan.set(0, std::copysign(std::numeric_limits<double>::quiet_NaN(), descending ? -1.0 : 1.0));
  const double both[] = {value.at(0), nan.at(0)};
  std::vector<uint64_t> keys;
  append_ordered(DType::f64,
                 {reinterpret_cast<const std::byte*>(both), sizeof(double), 2, descending, true},
                 keys);
  return keys[1] > keys[0] ? nan : value;
}

std::vector<int64_t> first_of_order(const std::vector<uint64_t>& keys, int64_t k) {
  const auto count = static_cast<int64_t>(keys.size());
  std::vector<int64_t> order;
  if (k > count / 8) {
    order = stable_order({&keys, 1}, count);
    order.resize(static_cast<size_t>(k));
    return order;
  }
  // The best k so far, the worst of them on top.
  const auto before = [&](int64_t a, int64_t b) {
    const uint64_t x = keys[static_cast<size_t>(a)], y = keys[static_cast<size_t>(b)];
    return x < y || (x == y && a < b);
  };
  if (k == 0) return order;
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<int64_t>(order.size()) == k) {
      if (keys[static_cast<size_t>(i)] >= keys[static_cast<size_t>(order[0])]) continue;
      std::pop_heap(order.begin(), order.end(), before);
      order.pop_back();
    }
    order.push_back(i);
    std::push_heap(order.begin(), order.end(), before);
  }
  std::sort_heap(order.begin(), order.end(), before);
  return order;
}

std::vector<int64_t> stable_order(std::span<const std::vector<uint64_t>> columns, int64_t count) {
  constexpr int64_t kRadix = 1024;  // below, the counters of a radix sort cost more than they save
  std::vector<Item> items(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) items[static_cast<size_t>(i)].index = i;
  for (size_t c = columns.size(); c-- > 0;) {
    for (Item& item : items) item.key = columns[c][static_cast<size_t>(item.index)];
    if (count < kRadix)
      std::stable_sort(items.begin(), items.end(),
                       [](const Item& a, const Item& b) { return a.key < b.key; });
    else
      sort_by_radix(items);
  }
  std::vector<int64_t> order;
  order.reserve(items.size());
  for (const Item& item : items) order.push_back(item.index);
  return order;
}

}  // namespace gspmd
