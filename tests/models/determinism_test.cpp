// The same bits between runs, thread counts and loads; the same text from two processes.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <iostream>
#include <thread>

#include "models/small_models.h"

namespace gspmd::models::determinism_test {
namespace {

const Mesh kMesh{{"X", 2}, {"Y", 4}};

TransformerConfig config() {
  TransformerConfig config = small_config(DType::f32);
  config.model = 64;
  config.hidden = 128;
  config.layers = 2;
  return config;
}

std::vector<double> losses_with_threads(int threads) {
  TransformerRun options = trainer_on(config(), kMesh, "2d");
  options.threads = threads;
  return losses(options, 6);
}

// Keeps every core busy while it lives.
class Load {
 public:
  Load() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) ++work_;
      });
    }
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> work_{0};
  std::vector<std::thread> threads_;
};

std::string text_of_another_process() {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(length > 0);
  const std::string command =
      fmt::format("'{}' '[print-program]' 2>&1", std::string(self, size_t(length)));
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  REQUIRE(pclose(pipe) == 0);
  return text;
}

}  // namespace

TEST_CASE("losses are the same bits with 1, 2 and 4 threads, between runs and under load",
          "[models]") {
  const std::vector<double> expected = losses_with_threads(1);
  CHECK(losses_with_threads(1) == expected);
  CHECK(losses_with_threads(2) == expected);
  CHECK(losses_with_threads(4) == expected);
  const Load load;
  CHECK(losses_with_threads(2) == expected);
}

TEST_CASE("two processes make the same program text", "[models]") {
  const std::string first = text_of_another_process();
  CHECK(first.find("HloModule") != std::string::npos);
  CHECK(text_of_another_process() == first);
}

// Hidden: what the test above runs in other processes.
TEST_CASE("prints the program of the 2d recipe", "[.][print-program]") {
  TransformerRun options = trainer_on(config(), kMesh, "2d");
  options.prepare = false;
  std::cout << make_trainer(options)->executable().text();
}

}  // namespace gspmd::models::determinism_test
