#pragma once

// Small ordered sets in flat memory.

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

namespace gspmd {

// As std::set, of few elements or of such as mostly come in ascending order: one list, in which an
// insertion moves what is larger. Insertions and erasures end all iterators.
template <class T>
class SortedSet {
 public:
  using const_iterator = typename std::vector<T>::const_iterator;

  SortedSet() = default;
  SortedSet(std::initializer_list<T> elements) { insert(elements.begin(), elements.end()); }
  template <class Iterator>
  SortedSet(Iterator first, Iterator last) {
    insert(first, last);
  }

  // Where the element stands, and whether it was not there.
  std::pair<const_iterator, bool> insert(const T& element) {
    if (elements_.empty() || elements_.back() < element) {
      elements_.push_back(element);
      return {elements_.end() - 1, true};
    }
    const auto at = std::lower_bound(elements_.begin(), elements_.end(), element);
    if (!(element < *at)) return {at, false};
    return {elements_.insert(at, element), true};
  }
  template <class Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }
  // How many there were.
  size_t erase(const T& element) {
    const auto at = std::lower_bound(elements_.begin(), elements_.end(), element);
    if (at == elements_.end() || element < *at) return 0;
    elements_.erase(at);
    return 1;
  }
  void clear() { elements_.clear(); }

  bool contains(const T& element) const {
    return std::binary_search(elements_.begin(), elements_.end(), element);
  }
  size_t count(const T& element) const { return contains(element) ? 1 : 0; }
  size_t size() const { return elements_.size(); }
  bool empty() const { return elements_.empty(); }
  const_iterator begin() const { return elements_.begin(); }
  const_iterator end() const { return elements_.end(); }
  auto rbegin() const { return elements_.rbegin(); }
  auto rend() const { return elements_.rend(); }
  bool operator==(const SortedSet&) const = default;

 private:
  std::vector<T> elements_;
};

}  // namespace gspmd
