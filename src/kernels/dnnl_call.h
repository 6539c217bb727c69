#pragma once

#include <dnnl.h>

#include <dnnl.hpp>

#include "gspmd/base/error.h"

// The library runs on OpenMP. Declared here because clang finds no <omp.h> without its own runtime.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace gspmd::dnnl_call {

// One OpenMP thread while the library is called; also while a primitive is created, else its
// scratch is made for all cores.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }

 private:
  int before_;
};

inline const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

inline dnnl_stream_t stream_of_this_thread() {
  static thread_local const dnnl::stream stream(cpu());
  return stream.get();
}

// A memory object over somebody's bytes, for one call.
class View {
 public:
  View(const dnnl::memory::desc& desc, const std::byte* data) {
    const dnnl_status_t status =
        dnnl_memory_create(&memory_, &desc.data, cpu().get(), const_cast<std::byte*>(data));
    if (status != dnnl_success)
      internal_error("oneDNN: memory object, status {}", static_cast<int>(status));
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() { dnnl_memory_destroy(memory_); }
  dnnl_memory_t get() const { return memory_; }

 private:
  dnnl_memory_t memory_ = nullptr;
};

}  // namespace gspmd::dnnl_call
