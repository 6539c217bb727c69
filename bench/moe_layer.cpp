// A layer of experts (top-2 gating with capacity, relu) forward, and forward with the gradients of
// tokens and weights, by einsums and by gathers: on one device and on meshes of 8, in turn.
//   moe_layer [--tokens 2048] [--groups 8] [--d 512] [--ff 2048] [--experts 8]
//             [--capacity-factor 1.25] [--steps 10] [--threads 2] [--single] [--json FILE] [--trace
//             PREFIX]
#include <fmt/format.h>

#include <chrono>
#include <random>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "models/moe.h"

namespace {

using namespace gspmd;

struct BenchOptions {
  int64_t steps = 10, warm_up = 2;
  int64_t tokens = 2048, groups = 8, d = 512, ff = 2048, experts = 8;
  double capacity_factor = 1.25;
  int threads = 2;
  bool single = false;
  std::string trace;
};

models::MoeConfig config_of(const BenchOptions& options, models::Dispatch dispatch) {
  models::MoeConfig config;
  config.model = options.d;
  config.hidden = options.ff;
  config.group = options.tokens / options.groups;
  config.dispatch = dispatch;
  config.gating.experts = options.experts;
  config.gating.second = models::SecondExpert::all;
  // The published capacity is of two choices.
  config.gating.form = models::GatingForm::published;
  config.gating.capacity_factor = 2 * options.capacity_factor;
  return config;
}

Array normal(const Dims& dims, double scale, uint64_t seed) {
  Array array(Shape(DType::f32, dims));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> values(0, static_cast<float>(scale));
  for (float& value : array.data<float>()) value = values(random);
  return array;
}

template <class T>
struct Inputs {
  T tokens;  // g,s,m
  models::MoeParams<T> params;
  GSPMD_FIELDS(tokens, params)
};

Inputs<Array> inputs_of(const BenchOptions& o) {
  return {normal({o.groups, o.tokens / o.groups, o.d}, 1, 1),
          {normal({o.d, o.experts}, 0.05, 2), normal({o.experts, o.d, o.ff}, 0.02, 3),
           normal({o.experts, o.ff, o.d}, 0.02, 4)}};
}

// The mean square of the layer's results.
Tensor loss_of(const models::MoeLayer& layer, const Inputs<Tensor>& inputs) {
  return mean(square(layer(inputs.params, inputs.tokens, {}).y));
}

// The median of all calls but the first ones, in ms. Inputs are donated and come back, so that they
// stay on the devices.
template <class Function>
double measured(const BenchOptions& options, const Function& function, const std::string& trace) {
  Inputs<Array> inputs = inputs_of(options);
  std::vector<double> times;
  for (int64_t i = 0; i < options.warm_up + options.steps; ++i) {
    if (!trace.empty() && i + 1 == options.warm_up + options.steps) function.trace(trace);
    const auto start = std::chrono::steady_clock::now();
    auto [same, result] = function(inputs);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    inputs = std::move(same);
    if (i >= options.warm_up) times.push_back(took.count());
  }
  return median(times);
}

struct Place {
  const char* name;
  Mesh mesh;
  models::MoeLayout layout;
};

void measure(const BenchOptions& options, models::Dispatch dispatch, const Place& place,
             Report& report) {
  const models::MoeLayer layer(config_of(options, dispatch), place.mesh, place.layout);
  CompileOptions compiled;
  compiled.mesh = place.mesh;
  compiled.threads = options.threads;
  compiled.donate = {0};
  const Inputs<Array> inputs = inputs_of(options);
  const auto forward = compile(
      [&](const Inputs<Tensor>& in) { return std::pair(in, layer(in.params, in.tokens, {}).y); },
      compiled, inputs);
  const auto gradients = compile(
      [&](const Inputs<Tensor>& in) {
        const auto loss = [&](const Inputs<Tensor>& x) { return loss_of(layer, x); };
        return std::pair(in, value_and_grad(loss)(in));
      },
      compiled, inputs);
  const char* const name = dispatch == models::Dispatch::einsum ? "einsum" : "gather";
  const auto trace = [&](const char* what) {
    return options.trace.empty() ? std::string()
                                 : fmt::format("{}_{}_{}_{}.json", options.trace,
                                               place.mesh.num_devices(), name, what);
  };
  report.add(fmt::format("{} on {}", name, place.name),
             {{"forward_ms", measured(options, forward, trace("forward"))},
              {"gradients_ms", measured(options, gradients, trace("gradients"))}});
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CommandLine line("A layer of experts on one device and on meshes of 8.");
  line.number("--steps", options.steps);
  line.option("--tokens", options.tokens);
  line.option("--groups", options.groups);
  line.option("--d", options.d);
  line.option("--ff", options.ff);
  line.option("--experts", options.experts);
  line.option("--capacity-factor", options.capacity_factor);
  line.option("--threads", options.threads);
  line.flag("--single", options.single, "one device alone");
  line.option("--trace", options.trace, "traces of last calls: what their names begin with");
  Report report(line, "moe_layer");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    std::vector<Place> places = {{"one device", Mesh(), {}}};
    if (!options.single) {
      places.push_back({"8 experts", Mesh{{"expert", 8}}, {{"expert"}, {"expert"}, {}}});
      places.push_back({"2 data, 4 experts",
                        Mesh{{"data", 2}, {"expert", 4}},
                        {{"data", "expert"}, {"expert"}, {}}});
    }
    for (const Place& place : places)
      for (const models::Dispatch dispatch : {models::Dispatch::einsum, models::Dispatch::gather})
        measure(options, dispatch, place, report);
    report.write();
  } catch (const std::exception& error) {
    return end_job(error.what(), 2);
  }
}
