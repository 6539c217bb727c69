//! # 13. Checkpoints
//!
//! A long run is stopped: by a crash, by a queue, or because tomorrow's machine has other devices.
//! This lesson saves the state of a run, damages the file, resumes, and resumes on another mesh.
//! Losses of the resumed run are those of a run that was never stopped, bit for bit.

#include <filesystem>

#include "gspmd/gspmd.h"
#include "lesson.h"

using namespace gspmd;

//! ## A small run
//!
//! Logistic regression with momentum. A function of the mesh makes the step, so that we can have it
//! on several. State is one struct, parameters and the optimizer's state; the number of the step
//! will be in the name of the file.

template <class T>
struct State {
  T weight;
  Sgd<T> sgd;
  GSPMD_FIELDS(weight, sgd)
};

auto step_on(const Mesh& mesh) {
  return [mesh](State<Tensor> state, Tensor x, Tensor y) {
    const auto loss = [&](Tensor weight) {
      const Tensor logits = einsum("bm,m->b", mesh_split(x, mesh, {"data", _}), weight);
      return mean(log1p(exp(-logits * y)));  // y is 1 or -1
    };
    auto [value, gradient] = value_and_grad(loss)(state.weight);
    auto [weight, sgd] = state.sgd.update(state.weight, gradient, {.lr = 0.1});
    return std::pair{State<Tensor>{weight, sgd}, value};
  };
}

const Shape kWeight(DType::f32, {12}), kX(DType::f32, {40, 12}), kY(DType::f32, {40});

State<Array> initial() {
  const Array weight = random_normal_array(kWeight, 1);
  return {weight, Sgd<Array>::zeros_like(weight)};
}

Array inputs(int64_t step) { return random_normal_array(kX, uint32_t(step)); }
Array labels() {
  Array y(kY);
  for (int64_t i = 0; i < y.size(); ++i) y.set(i, i % 2 == 0 ? 1 : -1);
  return y;
}

//! `run` continues from a state for a number of steps, and returns the losses. Where there is a
//! folder, it saves every fifth step.

std::vector<float> run(const Mesh& mesh, State<Array>& state, int64_t first, int64_t last,
                       Checkpoints* checkpoints = nullptr) {
  const auto step = compile(step_on(mesh), {.mesh = mesh}, state, kX, kY);
  std::vector<float> losses;
  for (int64_t i = first; i < last; ++i) {
    Array value;
    std::tie(state, value) = step(state, inputs(i), labels());
    losses.push_back(value.data<float>()[0]);
    if (checkpoints && (i + 1) % 5 == 0) checkpoints->save(i + 1, state);
  }
  return losses;
}

//! ## Save and restore
//!
//! `Checkpoints` is a folder with one file per saved step. A file appears whole or not at all: it
//! is written aside, synced and renamed, so a run that is killed while it saves leaves the last
//! good file alone. `restore` reads the newest one into a tree like the one that was saved.

const Mesh kFour{{"data", 4}};
const std::string kFolder = "lesson_13";

void save_and_restore() {
  State<Array> uninterrupted = initial();
  const std::vector<float> expected = run(kFour, uninterrupted, 0, 30);

  Checkpoints checkpoints(kFolder, {.keep = 2});
  State<Array> stopped = initial();
  run(kFour, stopped, 0, 23, &checkpoints);  // and now the power fails
  CHECK(checkpoints.steps() == std::vector<int64_t>{15, 20});

  State<Array> resumed = initial();
  const int64_t step = checkpoints.restore(resumed).value();
  CHECK(step == 20);
  const std::vector<float> losses = run(kFour, resumed, step, 30);
  CHECK(std::equal(losses.begin(), losses.end(), expected.begin() + 20));  // bit for bit
}

//! ## What is in the file
//!
//! The files are safetensors, which many tools read. Names are the paths of the leaves.

void what_is_in_the_file() {
  const SafetensorsFile file(Checkpoints(kFolder).path(20));
  std::string text;
  for (const SafetensorsEntry& tensor : file.tensors())
    text += fmt::format("{} {}\n", tensor.name, to_string(tensor.shape));
  show(text);
  CHECK(file.contains("sgd.velocity"));
}

//! ## A damaged file
//!
//! Every tensor has a checksum. One wrong bit is noticed, and the checkpoint before it is used.

void a_damaged_file() {
  std::string message;
  Checkpoints checkpoints(kFolder, {.log = [&](const std::string& text) { message = text; }});
  const std::string path = checkpoints.path(20);
  std::FILE* const file = std::fopen(path.c_str(), "r+b");
  std::fseek(file, -3, SEEK_END);
  const int byte = std::fgetc(file);
  std::fseek(file, -3, SEEK_END);
  std::fputc(byte ^ 1, file);
  std::fclose(file);

  State<Array> state = initial();
  CHECK(checkpoints.restore(state).value() == 15);
  show(message.substr(0, message.find(": the checksum")));  // the numbers of your machine follow
}

//! ## Another mesh
//!
//! A file holds whole tensors, not shards, so it does not matter where it was written. Where the
//! leaves go is up to you: here to the layout that the step on the new mesh wants. 40 rows
//! over 7 devices do not divide, and need not. Rounding apart, losses go on as before.

void another_mesh() {
  const Mesh seven{{"data", 7}};
  const auto step = compile(step_on(seven), {.mesh = seven, .argument_names = {"state", "x", "y"}},
                            initial(), kX, kY);
  LoadOptions options;
  options.num_devices = seven.num_devices();
  options.sharding = [&](const std::string& path, const Shape&) {
    return step.parameter_sharding("state." + path);
  };
  State<Array> state = load(Checkpoints(kFolder).path(15), initial(), options);
  CHECK(on_devices(state.weight));

  State<Array> uninterrupted = initial();
  const std::vector<float> expected = run(kFour, uninterrupted, 0, 30);
  const std::vector<float> losses = run(seven, state, 15, 30);
  for (size_t i = 0; i < losses.size(); ++i) CHECK(std::abs(losses[i] - expected[15 + i]) < 1e-5f);
}

int main() {
  std::filesystem::remove_all(kFolder);
  save_and_restore();
  what_is_in_the_file();
  a_damaged_file();
  another_mesh();
  std::filesystem::remove_all(kFolder);
}
