#pragma once

// What the models of the zoo share: a command line, a training loop, and a run on one device and on
// a mesh whose numbers are compared.

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "gspmd/gspmd.h"

namespace zoo {

using namespace gspmd;

// What a model is told. Its mesh has the axes "data" and "model".
struct Options {
  Mesh mesh{{"data", 2}, {"model", 4}};
  int64_t steps = 0;                              // of training; 0: as many as the model takes
  bool small = false;                             // sizes and steps for a test of a second
  bool bits = false;                              // numbers with all of their bits, hexadecimal
  std::vector<int64_t> devices_per_process = {};  // that each process hosts; empty: equal blocks

  // The steps asked for, else these.
  int64_t steps_or(int64_t usual, int64_t few) const {
    return steps > 0 ? steps : small ? few : usual;
  }
};

// What a model says of its run.
class Report {
 public:
  // A number that has to be the same on one device and on the mesh.
  void number(const std::string& name, double value) { numbers_.emplace_back(name, value); }
  // A sentence with the number that a reader knows, and whether it is reached.
  void claim(bool holds, const std::string& sentence) { claims_.emplace_back(sentence, holds); }

  const std::vector<std::pair<std::string, double>>& numbers() const { return numbers_; }
  const std::vector<std::pair<std::string, bool>>& claims() const { return claims_; }

 private:
  std::vector<std::pair<std::string, double>> numbers_;
  std::vector<std::pair<std::string, bool>> claims_;
};

// Parameters after `steps` steps of Adam on loss(parameters, arrays...); batch(i) is the tuple of
// arrays of step i. The learning rate falls from `rate` to 0 along a cosine.
template <class Params, class Loss, class Batch>
Params train(const Mesh& mesh, Params params, Loss loss, Batch batch, int64_t steps, double rate) {
  using Traced = rebind_t<Params, Tensor>;
  const auto update = [&](Traced p, Adam<Traced> adam, Tensor lr, auto... data) {
    return adam.update(p, grad(loss)(p, data...), {.lr = lr});
  };
  auto adam = Adam<Params>::zeros_like(params);
  const auto step = std::apply(
      [&](const auto&... data) {
        return compile(update, {.mesh = mesh, .donate = {0, 1}}, params, adam,
                       Shape(DType::f32, {}), data...);
      },
      batch(0));
  for (int64_t i = 0; i < steps; ++i) {
    const double lr = rate * 0.5 * (1 + std::cos(M_PI * double(i) / double(steps)));
    std::apply(
        [&](const auto&... data) {
          std::tie(params, adam) = step(params, adam, Array::scalar(float(lr)), data...);
        },
        batch(i));
  }
  return params;
}

// fn(args...) compiled for the mesh and run once.
template <class Fn, class... Args>
auto run_once(const Mesh& mesh, Fn fn, const Args&... args) {
  return compile(fn, {.mesh = mesh}, args...)(args...);
}

namespace detail {

inline bool parse_number(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

// Whether the command line is right; `o` is what it says.
inline bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    int64_t data = 0, model = 0;
    const size_t comma = value.find(',');
    if (name == "--small") {
      o.small = true;
    } else if (name == "--bits") {
      o.bits = true;
    } else if (name == "--steps" && parse_number(value, o.steps)) {
      ++i;
    } else if (name == "--devices-per-process" && parse_number(value, data)) {
      o.devices_per_process = {data};
      ++i;
    } else if (name == "--mesh" && comma != value.npos &&
               parse_number(value.substr(0, comma), data) &&
               parse_number(value.substr(comma + 1), model) && data <= 64 && model <= 64) {
      o.mesh = Mesh{{"data", data}, {"model", model}};
      ++i;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace detail

// Runs the model on one device and on the mesh, prints what it says, and compares the numbers of
// both. Exit code 0: all claims hold and the numbers are equal within `tolerance`, of the larger
// of 1 and the number; 1: not so; 2: a wrong command line.
template <class Model>
int run(int argc, char** argv, Model model, double tolerance) {
  Options o;
  try {
    print_from_first_process();
    if (!detail::parse(argc, argv, o))
      return end_job(fmt::format("usage: {} [--mesh DATA,MODEL] [--steps N] [--small] [--bits] "
                                 "[--devices-per-process N]",
                                 argv[0]),
                     2);
    set_devices_per_process(o.devices_per_process);
    bool good = true;
    const Mesh mesh = std::exchange(o.mesh, Mesh{{"data", 1}, {"model", 1}});
    Report one, many;
    model(o, one);
    o.mesh = mesh;
    model(o, many);
    for (const Report* report : {&one, &many}) {
      fmt::print("on {}\n", report == &one ? "one device" : to_string(mesh));
      for (const auto& [sentence, holds] : report->claims()) {
        fmt::print("  {}: {}\n", holds ? "holds" : "DOES NOT HOLD", sentence);
        good = good && holds;
      }
    }
    for (size_t i = 0; i < one.numbers().size(); ++i) {
      const auto& [name, a] = one.numbers()[i];
      const double b = many.numbers().at(i).second;
      const bool equal = std::abs(a - b) <= tolerance * std::max(1., std::abs(a));
      const auto text = [&](double x) {
        return o.bits ? fmt::format("{:a}", x) : fmt::format("{:.6g}", x);
      };
      fmt::print("{} {} on one device, {} on the mesh{}\n", name, text(a), text(b),
                 equal ? "" : fmt::format(": further apart than {}", tolerance));
      good = good && equal;
    }
    fmt::print("{}\n", good ? "PASS" : "FAIL");
    return good ? 0 : 1;
  } catch (const Error& error) {
    return end_job(error.what(), 1);
  }
}

}  // namespace zoo
