// The C++ of README.md, compiled and run: each paragraph of it is here, word for word.
#include "gspmd/gspmd.h"
using namespace gspmd;

#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

// clang-format off

template <class T>              // Tensor while tracing, Array on the host or the devices
struct Ffn { T w_in, w_out; GSPMD_FIELDS(w_in, w_out) };

namespace readme_test {
namespace {

const Mesh mesh{{"data", 2}, {"model", 4}};

Tensor loss(Ffn<Tensor> p, Tensor x, Tensor y) {              // x and y are b,m
  x = mesh_split(x, mesh, {"data", _});
  Tensor hidden = gelu(einsum("bm,mh->bh", x, mesh_split(p.w_in, mesh, {_, "model"})));
  Tensor error = einsum("bh,hm->bm", hidden, p.w_out) - y;    // w_out: completed to {"model", _}
  return mean(error * error);
}

auto train_step(Ffn<Tensor> params, Adam<Ffn<Tensor>> adam, Tensor x, Tensor y) {
  auto [value, grads] = value_and_grad(loss)(params, x, y);
  auto [new_params, new_adam] = adam.update(params, grads, {.lr = 3e-4f});
  return std::tuple{new_params, new_adam, value};
}

Tensor layers(Tensor x, Tensor w) {                           // w is l,m,m: a stack of layers
  auto layer = [](Tensor h, Tensor m) { return std::pair{h + tanh(matmul(h, m)), Nothing{}}; };
  return scan(checkpoint(layer), x, w).first;                 // one loop in the program, whatever l is
}

Tensor energy(Tensor w, Tensor x) { return sum(square(layers(x, w))); }

auto per_example = vmap(grad(energy), {.in_axes = {not_batched, 0}});   // a gradient for each row of x

// Relative paths lie in a folder of this test while it lives.
class InScratchFolder {
 public:
  InScratchFolder() : before_(fs::current_path()) {
    const fs::path folder = fs::path(GSPMD_BINARY_DIR) / "readme_test";
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::current_path(folder);
  }
  ~InScratchFolder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

// Paragraphs of the C++ in a Markdown text, lines without their indentation.
std::vector<std::string> paragraphs(std::istream& text) {
  std::vector<std::string> found;
  std::string paragraph;
  bool is_code = false;
  for (std::string line; std::getline(text, line);) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (line.rfind("```", 0) != 0 && is_code && !line.empty()) {
      paragraph += line + "\n";
      continue;
    }
    if (!paragraph.empty()) found.push_back(std::exchange(paragraph, ""));
    if (line.rfind("```", 0) == 0) is_code = line == "```cpp";
  }
  return found;
}

}  // namespace

TEST_CASE("README: its C++ is this test's", "[readme]") {
  std::ifstream readme(GSPMD_SOURCE_DIR "/README.md");
  std::ifstream here(GSPMD_SOURCE_DIR "/tests/api/readme_test.cpp");
  std::string code;
  for (std::string line; std::getline(here, line);)
    code += line.erase(0, std::min(line.find_first_not_of(' '), line.size())) + "\n";
  const std::vector<std::string> wanted = paragraphs(readme);
  CHECK(wanted.size() > 5);
  for (const std::string& paragraph : wanted) {
    INFO(paragraph);
    CHECK(code.find("\n" + paragraph) != std::string::npos);
  }
}

TEST_CASE("README: the program trains, saves, resumes and shows itself", "[readme]") {
  const InScratchFolder scratch;

  const Array x = random_normal_array({DType::f32, {8, 16}}, 1), y = random_normal_array({DType::f32, {8, 16}}, 2);
  Ffn<Array> params{random_normal_array({DType::f32, {16, 32}}, 3), random_normal_array({DType::f32, {32, 16}}, 4)};
  auto adam = Adam<Ffn<Array>>::zeros_like(params);             // the state before the first step
  Array value;

  auto step = compile(train_step, {.mesh = mesh, .donate = {0, 1}}, params, adam, x, y);
  std::tie(params, adam, value) = step(params, adam, x, y);     // state stays on the devices

  CHECK(step.parameter_sharding("arg0.w_out") == sharding_of(mesh, {"model", _}));
  const double before = value.item();
  const Array w_in = params.w_in.clone();

  save("model.safetensors", params);           // names from GSPMD_FIELDS: "w_in", "w_out"
  params = load("model.safetensors", params);  // onto the mesh of `params`, whatever the file's was

  CHECK(bitwise_equal(params.w_in, w_in));

  auto state = std::tie(params, adam);
  Checkpoints checkpoints("run", {.keep = 3});
  checkpoints.save(123, state);                // run/step-000123.safetensors: whole or not at all
  if (auto last = checkpoints.restore(state))  // the newest that is not damaged
    fmt::print("goes on after step {}\n", *last);

  CHECK(checkpoints.steps() == std::vector<int64_t>{123});

  fmt::print("{}", visualize(params.w_in));       // a table: which device holds which rows
  const std::string page = visualize_html(step);  // a page: all parameters and results, as drawings
  step.trace("step.json");                        // the next call, for ui.perfetto.dev

  CHECK(page.find("arg0.w_in") != std::string::npos);
  std::tie(params, adam, value) = step(params, adam, x, y);
  CHECK(value.item() < before);
  CHECK(fs::exists("step.json"));
}

TEST_CASE("README: gradients of each example add up to that of all", "[readme]") {
  const Array w = random_normal_array({DType::f32, {3, 4, 4}}, 1), x = random_normal_array({DType::f32, {5, 4}}, 2);
  const auto added = [](Tensor a, Tensor b) { return sum(per_example(a, b), {.axes = 0}); };
  const Array each = compile(added, {}, w, x)(w, x), all_of = compile(grad(energy), {}, w, x)(w, x);
  CHECK(each.dims() == w.dims());
  for (int64_t i = 0; i < w.size(); ++i) CHECK(each.at(i) == Approx(all_of.at(i)).margin(1e-4));
}

}  // namespace readme_test
