#pragma once

#include <cstdint>
#include <string>

#include "models/transformer_run.h"

namespace gspmd::examples {

// The command line of train_transformer; the defaults are the demo's.
struct TrainOptions {
  std::string text;  // empty: the default text
  std::string mesh = "1";
  std::string recipe = "2d";
  std::string optimizer = "adam";
  std::string norm = "rms";
  std::string positions = "learned";
  std::string dtype = "f32";
  std::string compute;  // empty: dtype
  int64_t layers = 2;
  int64_t d_model = 256;
  int64_t d_ff = 1024;
  int64_t heads = 8;
  int64_t seq = 128;
  int64_t batch = 16;
  int64_t steps = 600;
  double lr = 3e-3;
  uint32_t seed = 0;
  int threads = 0;
  int64_t sample = 0;
  std::string checkpoint;  // folder; empty: none
  int64_t checkpoint_every = 100;
  int64_t checkpoint_keep = 3;
  bool resume = false;
  std::string trace;  // file; empty: none
  bool bias = false;
  bool exact = false;
  bool check = false;
  bool json = false;
};

// Reads the command line. Returns true when training shall start; else `exit_code` is 0 (help was
// printed) or 2 (one message on standard error).
bool parse_options(int argc, const char* const* argv, TrainOptions& options, int& exit_code);

// "data=2,model=4"; a size alone gets the name x0, x1, ... by its place; "1" is one device.
// UserError.
Mesh parse_mesh(const std::string& text);

// What the options say, checked. UserError with the way out.
models::TransformerRun trainer_options(const TrainOptions& options);

// Learning rate of step 0, 1, ...: linear warm-up over a tenth of the steps (at most 60), then a
// cosine down to a tenth.
double learning_rate(const TrainOptions& options, int64_t step);

}  // namespace gspmd::examples
