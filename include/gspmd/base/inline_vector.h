#pragma once

// A vector that keeps few elements in itself.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace gspmd {

// As std::vector, of which it has what is used here; up to N elements need no allocation. For small
// values that are copied byte by byte. Moving one that is in itself moves its elements: pointers
// and iterators do not follow.
template <class T, size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> && N > 0);

 public:
  using value_type = T;                    // as of std::vector
  using size_type = size_t;                // as of std::vector
  using difference_type = std::ptrdiff_t;  // as of std::vector
  using reference = T&;                    // as of std::vector
  using const_reference = const T&;        // as of std::vector
  using iterator = T*;                     // as of std::vector
  using const_iterator = const T*;         // as of std::vector
  // --- As std::vector's.
  constexpr InlineVector() {}
  explicit InlineVector(size_t count, const T& value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> values) { append(values.begin(), values.size()); }
  template <std::forward_iterator I>
  InlineVector(I first, I last) {
    insert(end(), first, last);
  }
  InlineVector(const InlineVector& other) { append(other.data(), other.size_); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this == &other) return *this;
    size_ = 0;
    append(other.data(), other.size());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~InlineVector() { release(); }
  // --- As std::vector's.
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  T* data() { return in_itself() ? reinterpret_cast<T*>(bytes_) : heap(); }
  const T* data() const { return in_itself() ? reinterpret_cast<const T*>(bytes_) : heap(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return *data(); }
  const T& front() const { return *data(); }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  T* begin() { return data(); }
  const T* begin() const { return data(); }
  T* end() { return data() + size_; }
  const T* end() const { return data() + size_; }
  auto rbegin() { return std::reverse_iterator(end()); }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() { return std::reverse_iterator(begin()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  // --- As std::vector's; a value may be one of these.
  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  void clear() { size_ = 0; }
  void push_back(const T& value) {
    const T copy = value;
    if (size_ == capacity_) grow(size_ + 1);
    std::construct_at(end(), copy);
    ++size_;
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    push_back(T(std::forward<Args>(args)...));
    return back();
  }
  void pop_back() { --size_; }
  void resize(size_t count, const T& value = T()) {
    const T copy = value;
    reserve(count);
    if (count > size_) std::uninitialized_fill(end(), data() + count, copy);
    size_ = static_cast<uint32_t>(count);
  }
  void assign(size_t count, const T& value) {
    const T copy = value;
    size_ = 0;
    resize(count, copy);
  }
  template <std::forward_iterator I>
  void assign(I first, I last) {
    size_ = 0;
    insert(end(), first, last);
  }
  // Of a range that is none of these.
  template <std::forward_iterator I>
  iterator insert(const_iterator at, I first, I last) {
    size_t count = 0;
    for (I i = first; i != last; ++i) ++count;
    const iterator gap = open_gap(at, count);
    std::uninitialized_copy(first, last, gap);
    return gap;
  }
  // --- As std::vector's.
  iterator insert(const_iterator at, const T& value) {
    const T copy = value;
    const iterator gap = open_gap(at, 1);
    std::construct_at(gap, copy);
    return gap;
  }
  iterator erase(const_iterator first, const_iterator last) {
    const iterator to = begin() + (first - begin());
    if (first == last) return to;
    std::memmove(static_cast<void*>(to), last, static_cast<size_t>(end() - last) * sizeof(T));
    size_ -= static_cast<uint32_t>(last - first);
    return to;
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  // Element by element.
  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }
  // Element by element; of two that begin alike, the shorter is less.
  friend auto operator<=>(const InlineVector& a, const InlineVector& b)
      -> decltype(std::declval<T>() <=> std::declval<T>()) {
    for (size_t i = 0; i < a.size_ && i < b.size_; ++i)
      if (const auto order = a[i] <=> b[i]; order != 0) return order;
    return a.size_ <=> b.size_;
  }
  // Takes out those for which it holds; how many there were.
  template <class Predicate>
  friend size_t erase_if(InlineVector& values, Predicate predicate) {
    iterator kept = values.begin();
    for (const T& value : values)
      if (!predicate(value)) *kept++ = value;
    const size_t count = static_cast<size_t>(values.end() - kept);
    values.size_ -= static_cast<uint32_t>(count);
    return count;
  }

 private:
  bool in_itself() const { return capacity_ == N; }
  T* heap() const {
    T* address = nullptr;
    std::memcpy(&address, bytes_, sizeof(address));
    return address;
  }
  void release() {
    if (!in_itself()) std::allocator<T>().deallocate(heap(), capacity_);
    size_ = 0;
    capacity_ = N;
  }
  // Of an empty one that holds no memory.
  void take(InlineVector& other) noexcept {
    std::memcpy(bytes_, other.bytes_, sizeof(bytes_));
    size_ = other.size_;
    capacity_ = other.capacity_;
    other.size_ = 0;
    other.capacity_ = N;
  }
  void grow(size_t least) {
    const size_t twice = size_t{2} * capacity_;
    const size_t capacity = least > twice ? least : twice;
    T* const fresh = std::allocator<T>().allocate(capacity);
    if (size_ > 0) std::memcpy(static_cast<void*>(fresh), data(), size_ * sizeof(T));
    if (!in_itself()) std::allocator<T>().deallocate(heap(), capacity_);
    std::memcpy(bytes_, &fresh, sizeof(fresh));
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void append(const T* values, size_t count) {
    reserve(size_ + count);
    std::uninitialized_copy_n(values, count, end());
    size_ += static_cast<uint32_t>(count);
  }
  // `count` more elements at `at`, not yet constructed.
  iterator open_gap(const_iterator at, size_t count) {
    const size_t offset = static_cast<size_t>(at - begin());
    reserve(size_ + count);
    T* const gap = data() + offset;
    if (offset < size_ && count > 0)
      std::memmove(static_cast<void*>(gap + count), gap, (size_ - offset) * sizeof(T));
    size_ += static_cast<uint32_t>(count);
    return gap;
  }

  static constexpr size_t kBytes = N * sizeof(T) > sizeof(T*) ? N * sizeof(T) : sizeof(T*);
  alignas(T) alignas(T*) std::byte bytes_[kBytes] = {};
  uint32_t size_ = 0;
  uint32_t capacity_ = N;  // N: the elements are in bytes_, whose first are the address else
};

}  // namespace gspmd
