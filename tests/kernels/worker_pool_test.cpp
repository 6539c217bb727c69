#include "gspmd/kernels/worker_pool.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

std::vector<PoolKind> kinds() {
#ifdef GSPMD_TEST_THREADS_ONLY
  return {PoolKind::threads};
#else
  return {PoolKind::automatic, PoolKind::threads};
#endif
}

}  // namespace

TEST_CASE("worker pool: each worker runs the function once per run", "[pool]") {
  for (const PoolKind kind : kinds()) {
    for (const int size : {1, 2, 3, 5}) {
      const auto pool = make_worker_pool(size, kind);
      REQUIRE(pool->size() == size);
      std::vector<int> calls(size_t(size), 0);
      for (int i = 0; i < 50; ++i) pool->run([&](int worker) { ++calls[size_t(worker)]; });
      CHECK(calls == std::vector<int>(size_t(size), 50));
    }
  }
}

TEST_CASE(
    "worker pool: a barrier orders what is before it and after it, more workers than cores too",
    "[pool]") {
  for (const PoolKind kind : kinds()) {
    for (const int size : {2, 6}) {
      const auto pool = make_worker_pool(size, kind);
      std::vector<int> cells(size_t(size), 0);
      std::atomic<int> wrong{0};
      pool->run([&](int worker) {
        for (int i = 1; i <= 200; ++i) {
          cells[size_t(worker)] = i;
          pool->barrier(worker);
          for (const int cell : cells) wrong += cell != i;
          pool->barrier(worker);
        }
      });
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("worker pool: the lowest worker's exception comes out, and the pool works on", "[pool]") {
  for (const PoolKind kind : kinds()) {
    const auto pool = make_worker_pool(3, kind);
    CHECK_THROWS_WITH(pool->run([](int worker) {
      if (worker > 0) throw std::runtime_error("worker " + std::to_string(worker));
    }),
                      "worker 1");
    std::atomic<int> calls{0};
    pool->run([&](int) { ++calls; });
    CHECK(calls == 3);
  }
}

TEST_CASE("worker pool: nobody waits at a barrier for a worker that has thrown", "[pool]") {
  for (const PoolKind kind : kinds()) {
    const auto pool = make_worker_pool(2, kind);
    CHECK_THROWS_WITH(pool->run([&](int worker) {
      if (worker == 1) throw std::runtime_error("gone");
      pool->barrier(worker);
    }),
                      "gone");
    CHECK_THROWS_AS(pool->run([&](int worker) {
      if (worker == 0) pool->barrier(worker);
    }),
                    InternalError);
    std::atomic<int> calls{0};
    pool->run([&](int worker) {
      pool->barrier(worker);
      ++calls;
    });
    CHECK(calls == 2);
  }
}

TEST_CASE("worker pool: several pools and several callers work side by side", "[pool]") {
  const auto shared = make_worker_pool(2);
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      const auto own = make_worker_pool(2);
      for (int j = 0; j < 20; ++j) {
        shared->run([&](int worker) { shared->barrier(worker), ++calls; });
        own->run([&](int worker) { own->barrier(worker), ++calls; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(calls == 3 * 20 * 4);
}

// A caller that loses its core when it has begun a run finds that a worker has come, gone through
// it and left.
TEST_CASE("worker pool: each worker runs once per run on a machine with too few cores", "[pool]") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&] {
      const auto pool = make_worker_pool(2);
      for (int run = 0; run < 2000; ++run) {
        std::atomic<int> calls{0};
        pool->run([&](int) { ++calls; });
        if (calls != 2) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("worker pool: a number of workers that cannot be is refused", "[pool]") {
  CHECK_THROWS_WITH(make_worker_pool(-1),
                    "make_worker_pool: -1 workers; give 0 (the machine's cores) or 1 to 1024");
  CHECK_THROWS_AS(make_worker_pool(1025), UserError);
  CHECK(make_worker_pool()->size() >= 1);
}

}  // namespace gspmd
