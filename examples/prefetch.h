#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <utility>

namespace gspmd::examples {

// Makes the value of step i + 1 in another thread while step i is worked on.
template <class T>
class Prefetch {
 public:
  // `make` is called for steps `first` to `end` - 1, in turn, one at a time.
  Prefetch(std::function<T(int64_t)> make, int64_t first, int64_t end)
      : make_(std::move(make)), step_(first), end_(end) {
    start();
  }
  // Of the next step; not after the last. Throws what making it threw.
  T next() {
    T value = coming_.get();
    ++step_;
    start();
    return value;
  }

 private:
  void start() {
    if (step_ < end_) coming_ = std::async(std::launch::async, make_, step_);
  }

  std::function<T(int64_t)> make_;
  int64_t step_, end_;
  std::future<T> coming_;
};

}  // namespace gspmd::examples
