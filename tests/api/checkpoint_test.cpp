#include "gspmd/api/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace checkpoint_test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

template <class T>
struct Layer {
  T w_in;
  std::optional<T> bias;
  GSPMD_FIELDS(w_in, bias)
};

template <class T>
struct Model {
  T embedding;
  std::vector<Layer<T>> layers;
  GSPMD_FIELDS(embedding, layers)
};

struct Run {  // not a template: leaves of several types
  Model<Array> params;
  Adam<Model<Array>> adam;
  int64_t step = 0;
  uint32_t seed = 0;
  double best = 0;
  bool done = false;
  Array key = {};
  GSPMD_FIELDS(params, adam, step, seed, best, done, key)
};

// An empty folder of this process's own.
struct Folder {
  std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/checkpoints-{}", getpid());
  Folder() { fs::remove_all(path), fs::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

Model<Array> sample_model(unsigned seed = 1) {
  return {
      random_array({DType::f32, {5, 6}}, seed),
      {{random_array({DType::f32, {6, 7}}, seed + 1), random_array({DType::f32, {7}}, seed + 2)},
       {random_array({DType::bf16, {6, 7}}, seed + 3), std::nullopt}}};
}

Run sample_run() {
  const Model<Array> params = sample_model();
  return {params, Adam<Model<Array>>::zeros_like(params),     41, 7, 0.25,
          true,   Array::of<uint32_t>({2}, {17, 4294967295u})};
}

bool equal_trees(const Model<Array>& a, const Model<Array>& b) {
  const auto left = flatten(a), right = flatten(b);
  bool equal = left.size() == right.size();
  for (size_t i = 0; equal && i < left.size(); ++i)
    equal = left[i].first == right[i].first && bitwise_equal(left[i].second, right[i].second);
  return equal;
}

// The model on the devices of a mesh: what a step that changes nothing returns.
Model<Array> on_mesh(const Mesh& mesh, const Model<Array>& model) {
  const std::string first = mesh.axes().front().name, last = mesh.axes().back().name;
  const auto same = [&](Model<Tensor> m) {
    m.embedding = mesh_split(m.embedding, mesh, {first, _});
    m.layers[0].w_in = mesh_split(m.layers[0].w_in, mesh, {_, last});
    return m;
  };
  return compile(same, {.mesh = mesh, .threads = 2}, model)(model);
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
std::string read_bytes(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("save: names are paths, and every kind of leaf comes back", "[api][checkpoint]") {
  const Folder folder;
  const std::string path = folder.file("run.safetensors");
  const Run run = sample_run();
  save(path, run, {{"made", "here"}});
  const SafetensorsFile file(path);
  for (const char* name :
       {"params.embedding", "params.layers.0.w_in", "params.layers.1.w_in", "params.layers.0.bias",
        "adam.m.layers.0.w_in", "adam.step", "step", "seed", "best", "done", "key"})
    CHECK(file.contains(name));
  CHECK(file.tensors().size() == 18);
  CHECK(saved_metadata(path) == std::map<std::string, std::string>{{"made", "here"}});

  Run other{sample_model(9), Adam<Model<Array>>::zeros_like(run.params)};
  other.key = Array(DType::u32, {2});
  load_into(path, other);
  CHECK(equal_trees(other.params, run.params));
  CHECK(other.step == 41);
  CHECK(other.seed == 7);
  CHECK(other.best == 0.25);
  CHECK(other.done);
  CHECK(bitwise_equal(other.key, run.key));
  CHECK(bitwise_equal(other.adam.step, run.adam.step));

  const auto shapes =
      map_tree(run.params, [](const std::string&, const Array& leaf) { return leaf.shape(); });
  CHECK(equal_trees(load(path, shapes, {.prefix = "params"}), run.params));
  save(path, run.key);
  CHECK(bitwise_equal(load(path, Shape(DType::u32, {2})), run.key));
  CHECK(SafetensorsFile(path).contains("value"));
  const std::tuple<Array, std::vector<Array>> mixed{run.key, {run.key, run.key}};
  save(path, mixed);
  CHECK(SafetensorsFile(path).contains("1.0"));
}

TEST_CASE("load: what one mesh saved lies on any other as its shards", "[api][checkpoint]") {
  const Folder folder;
  const std::string path = folder.file("model.safetensors");
  const Model<Array> model = sample_model();
  const Mesh meshes[] = {Mesh{{"a", 1}}, Mesh{{"a", 4}, {"b", 2}}, Mesh{{"a", 3}},
                         Mesh({{"a", 2}, {"b", 2}}, {3, 1, 0, 2})};
  for (const Mesh& from : meshes) {
    save(path, on_mesh(from, model));
    CHECK(equal_trees(load(path, model), model));
    CHECK_FALSE(on_devices(load(path, model).embedding));
    for (const Mesh& to : meshes) {
      CAPTURE(to_string(from), to_string(to));
      // Beside arrays on devices: as they lie.
      const Model<Array> like = on_mesh(to, sample_model(5));
      const Model<Array> loaded = load(path, like);
      CHECK(sharding_of(loaded.embedding) == sharding_of(like.embedding));
      CHECK(on_devices(loaded.embedding));
      CHECK(equal_trees(loaded, model));
      // By path: as a compiled step takes it, without moving.
      const auto step = compile(
          [&](Model<Tensor> m) {
            return sum(mesh_split(m.embedding, to, {_, to.axes()[0].name}));
          },
          {.mesh = to, .argument_names = {"model"}, .threads = 2}, model);
      const Model<Array> placed =
          load(path, model,
               {.sharding = [&](const std::string& at,
                                const Shape&) { return step.parameter_sharding("model." + at); },
                .num_devices = to.num_devices()});
      CHECK(sharding_of(placed.embedding) == step.parameter_sharding("model.embedding"));
      CHECK(equal_trees(placed, model));
      CHECK(step(placed).item() == step(model).item());
    }
  }
}

TEST_CASE("save and load: every mistake is told with file, tensor and sizes", "[api][checkpoint]") {
  const Folder folder;
  const std::string path = folder.file("model.safetensors");
  const Model<Array> model = sample_model();
  save(path, model);
  Model<Array> other = model;
  other.embedding = Array(DType::f32, {5, 8});
  GSPMD_REQUIRE_ERROR("tensor \"embedding\" is f32[5,6] in the file, f32[5,8] in the tree",
                      load_into(path, other));
  other.embedding = Array(DType::f64, {5, 6});
  GSPMD_REQUIRE_ERROR("is f32[5,6] in the file, f64[5,6] in the tree", load(path, other));
  CHECK(other.embedding.dtype() == DType::f64);
  other = model;
  other.layers.resize(1);
  GSPMD_REQUIRE_ERROR(
      "tensor \"layers.1.w_in\", bf16[6,7], is in the file but not in the tree of 3",
      load(path, other));
  CHECK(load(path, other, {.ignore_others = true}).layers.size() == 1);
  other = model;
  other.layers[1].bias = Array(DType::f32, {7});
  GSPMD_REQUIRE_ERROR("has no tensor \"layers.1.bias\" among its 4 (\"embedding\", ",
                      load(path, other));
  GSPMD_REQUIRE_ERROR("has no tensor \"params.embedding\"",
                      load(path, model, {.prefix = "params"}));
  GSPMD_REQUIRE_ERROR("No such file", load(folder.file("none"), model));
  GSPMD_REQUIRE_ERROR("No such file", saved_metadata(folder.file("none")));
  GSPMD_REQUIRE_ERROR("the folder", save(folder.file("no/such"), model));
  GSPMD_REQUIRE_ERROR("\"embedding\" has no value", save(path, Model<Array>{}));
  const auto laid_out = [&](const std::string& sharding, int64_t devices,
                            Site site = Site::here()) {
    LoadOptions options{.num_devices = devices};
    options.sharding = [=](const std::string& at, const Shape&) {
      return at == "embedding" ? parse_sharding(sharding) : Sharding::replicated();
    };
    return load(path, model, options, site);
  };
  GSPMD_REQUIRE_ERROR("needs 6 devices, num_devices is 4", laid_out("{devices=[2,1]4,5}", 4));
  GSPMD_REQUIRE_ERROR("needs 4 devices, num_devices is 2", laid_out("{devices=[4,1]<=[4]}", 2));
  GSPMD_REQUIRE_ERROR("needs 3 devices, num_devices is 2", laid_out("{maximal device=2}", 2));
  GSPMD_REQUIRE_ERROR("needs 1 devices, num_devices is 0", laid_out("{replicated}", 0));
  GSPMD_REQUIRE_ERROR("cannot be laid out as {manual}", laid_out("{manual}", 2));
  GSPMD_REQUIRE_ERROR("cannot be laid out as", laid_out("{devices=[2,1,2]<=[4]}", 4));
  CHECK(equal_trees(laid_out("{maximal device=0}", 2), model));
}

TEST_CASE("save: a donated array is refused", "[api][checkpoint]") {
  const Folder folder;
  const Mesh mesh{{"a", 2}};
  const auto twice = [](Tensor x) { return x + x; };
  Array x = Array(DType::f32, {4});
  const auto step = compile(twice, {.mesh = mesh, .donate = {0}, .threads = 2}, x);
  x = step(x);
  const Array kept = step(x);
  GSPMD_REQUIRE_ERROR("\"value\" was donated to argument arg0 of call 2",
                      save(folder.file("x"), x));
  save(folder.file("x"), kept);
}

TEST_CASE("checkpoints: the newest stay, and the newest whole one is restored",
          "[api][checkpoint]") {
  const Folder folder;
  std::vector<std::string> log;
  Checkpoints checkpoints(folder.file("new/run"), {.keep = 2, .log = [&](const std::string& line) {
                                                     log.push_back(line);
                                                   }});
  Run run = sample_run();
  CHECK(checkpoints.restore(run) == std::nullopt);
  for (run.step = 10; run.step <= 40; run.step += 10) checkpoints.save(run.step, run);
  CHECK(checkpoints.steps() == std::vector<int64_t>{30, 40});
  CHECK(checkpoints.path(40) == folder.file("new/run/step-000040.safetensors"));
  CHECK(checkpoints.restore(run) == 40);
  CHECK(run.step == 40);

  const std::string whole = read_bytes(checkpoints.path(40));
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string(),
                                     whole.substr(0, whole.size() - 1) + "\x7f"}) {
    log.clear();
    write_bytes(checkpoints.path(40), damaged);
    CHECK(checkpoints.restore(run) == 30);
    CHECK(run.step == 30);
    REQUIRE(log.size() == 1);
    CHECK_THAT(log[0], Contains("checkpoint of step 40 is passed over: ") &&
                           Contains(checkpoints.path(40)));
  }
  // The one that is whole stays while a damaged one is there, until a newer is.
  checkpoints.save(35, run);
  CHECK(checkpoints.steps() == std::vector<int64_t>{30, 35, 40});
  CHECK(checkpoints.restore(run) == 35);
  checkpoints.save(50, run);
  CHECK(checkpoints.steps() == std::vector<int64_t>{35, 40, 50});
  checkpoints.save(60, run);
  CHECK(checkpoints.steps() == std::vector<int64_t>{50, 60});

  // A tree that does not fit is no damage.
  run.params.embedding = Array(DType::f32, {1});
  GSPMD_REQUIRE_ERROR("step-000060.safetensors: tensor \"params.embedding\"",
                      checkpoints.restore(run));
  // A file of others has no checksums to trust.
  for (const int64_t step : {50, 60})
    fs::copy(GSPMD_SOURCE_DIR "/tests/data/io/two.safetensors", checkpoints.path(step),
             fs::copy_options::overwrite_existing);
  GSPMD_REQUIRE_ERROR("none of the 2 files is whole", checkpoints.restore(run));
  CHECK_THAT(log.back(), Contains("has no checksums"));
}

TEST_CASE("checkpoints: names of others and leftovers are no checkpoints", "[api][checkpoint]") {
  const Folder folder;
  for (const char* name :
       {"step-1.safetensors", "step-000002.safetensors.old", "step-x.safetensors",
        "step--00001.safetensors", ".step-000003.safetensors.tmp-1-0", "notes", ".other.tmp-1-0"})
    write_bytes(folder.file(name), "x");
  Checkpoints checkpoints(folder.path);
  CHECK(checkpoints.steps().empty());
  CHECK_FALSE(fs::exists(folder.file(".step-000003.safetensors.tmp-1-0")));
  CHECK(fs::exists(folder.file(".other.tmp-1-0")));
  CHECK(fs::exists(folder.file("notes")));
  checkpoints.save(12345678, std::pair{Array::scalar(1.f), Array::scalar(2.f)});
  CHECK(checkpoints.steps() == std::vector<int64_t>{12345678});
}

TEST_CASE("checkpoints: every mistake is told", "[api][checkpoint]") {
  const Folder folder;
  write_bytes(folder.file("file"), "x");
  GSPMD_REQUIRE_ERROR("keep is 0; keep at least 1", Checkpoints(folder.path, {.keep = 0}));
  GSPMD_REQUIRE_ERROR("the folder cannot be made", Checkpoints(folder.file("file")));
  GSPMD_REQUIRE_ERROR("the folder cannot be made", Checkpoints(folder.file("file/below")));
  std::vector<std::string> log;
  Checkpoints checkpoints(folder.file("run"), {.keep = 1, .log = [&](const std::string& line) {
                                                 log.push_back(line);
                                               }});
  GSPMD_REQUIRE_ERROR("step -1; steps count from 0", checkpoints.save(-1, Array::scalar(1.f)));
  // A folder of that name cannot be removed as a file.
  fs::create_directories(checkpoints.path(1) + "/below");
  checkpoints.save(2, Array::scalar(1.f));
  REQUIRE(log.size() == 1);
  CHECK_THAT(log[0], Contains("step-000001.safetensors cannot be removed"));
  fs::remove_all(folder.file("run"));
  GSPMD_REQUIRE_ERROR("the folder cannot be read", checkpoints.newest());
}

}  // namespace checkpoint_test
