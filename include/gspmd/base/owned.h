#pragma once

// What a class of the public headers keeps behind a pointer.

#include <utility>

namespace gspmd {

// A pointer that deletes what it points to, which only the file that destroys the owner has to
// know. Where every user's file would meet std::unique_ptr, which takes a tuple, comparisons and
// more for each type, this is cheap to compile.
template <class T>
class Owned {
 public:
  Owned() = default;                                 // of nothing
  explicit Owned(T* value) noexcept : at_(value) {}  // which was made by `new`
  // --- The moved one has nothing
  Owned(Owned&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    delete std::exchange(at_, std::exchange(other.at_, nullptr));
    return *this;
  }
  ~Owned() { delete at_; }

  // --- Not of nothing
  T* operator->() const { return at_; }
  T& operator*() const { return *at_; }

 private:
  T* at_ = nullptr;
};

// An object made of these arguments.
template <class T, class... Args>
Owned<T> make_owned(Args&&... args) {
  return Owned<T>(new T(std::forward<Args>(args)...));
}

}  // namespace gspmd
