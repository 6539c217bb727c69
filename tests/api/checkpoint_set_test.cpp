// Checkpoints that several processes write, each its shards: threads stand for the processes.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/device_storage.h"
#include "api/support.h"
#include "gspmd/api/checkpoint.h"
#include "gspmd/api/local_shards.h"
#include "gspmd/io/safetensors.h"
#include "runtime/thread_transport.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Tree = std::vector<Array>;

struct Folder {
  std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/sets-{}", getpid());
  Folder() { fs::remove_all(path), fs::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
  // Names that have a part of the word, sorted.
  std::vector<std::string> names(const std::string& word = "") const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().filename().string().find(word) != std::string::npos)
        found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
};

Array box_of(const Array& whole, const Box& box) {
  Array part(Shape(whole.dtype(), box.size));
  const Dims strides = row_major_strides(whole.dims());
  for (int64_t i = 0; i < part.size(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = box.size.size(); d-- > 0; rest /= box.size[d])
      at += (box.start[d] + rest % box.size[d]) * strides[d];
    const auto width = static_cast<size_t>(dtype_size(whole.dtype()));
    std::memcpy(part.bytes().data() + size_t(i) * width, whole.bytes().data() + size_t(at) * width,
                width);
  }
  return part;
}

// A whole array on the devices, of which this process takes its shards.
Array on_devices_as(const Array& whole, const Sharding& sharding, int64_t devices) {
  std::vector<Array> shards;
  const DeviceRange here = local_devices(devices);
  for (int64_t d = here.first; d < here.last; ++d)
    shards.push_back(box_of(whole, shard_box(whole.shape(), sharding, d)));
  return array_from_local_shards(whole.shape(), sharding, devices, shards);
}

// As on_devices_as, but flat: its elements in row-major order in equal pieces.
Array flat_on_devices(const Array& whole, int64_t devices) {
  const Array line(Shape(whole.dtype(), {whole.size()}), whole.storage());
  const Sharding sharding = parse_sharding(fmt::format("{{devices=[{0}]<=[{0}]}}", devices));
  auto buffer = scatter_to_devices(line, sharding, devices);
  return {whole.shape(),
          std::make_shared<detail::DeviceStorage>(std::move(buffer), line.shape(), sharding)};
}

Tree sample(unsigned seed) {
  Array bits(DType::pred, {6, 7}), narrow(DType::s4, {9, 4});
  for (int64_t i = 0; i < bits.size(); ++i) bits.set(i, double((i * 7 + seed) % 3 == 0));
  for (int64_t i = 0; i < narrow.size(); ++i) narrow.set(i, double(int64_t(i + seed) % 16 - 8));
  return {random_array({DType::f32, {6, 10}}, seed),
          random_array({DType::bf16, {7, 3, 4}}, seed + 1),
          bits,
          narrow,
          random_array({DType::f64, {24}}, seed + 2),
          random_array({DType::f32, {5, 8}}, seed + 3),
          Array(DType::f32, {3, 0}),
          Array::scalar(double(seed)),
          random_array({DType::f32, {11, 3}}, seed + 4)};  // on the host
}

// Layouts of the sample on 6 devices, in several ways: uneven, transposed, replicated in part.
std::vector<std::string> layouts(int way) {
  const std::vector<std::string> all = {"{devices=[2,3]<=[6]}",
                                        "{devices=[3,2]<=[2,3]T(1,0)}",
                                        "{devices=[1,2,3]<=[6] last_tile_dim_replicate}",
                                        "{replicated}",
                                        "{devices=[2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}",
                                        "{maximal device=4}",
                                        "{devices=[6,1]<=[6]}"};
  std::vector<std::string> chosen;
  for (size_t i = 0; i < 6; ++i) chosen.push_back(all[(i * 2 + size_t(way)) % all.size()]);
  return chosen;
}

Sharding layout_of(int way, size_t leaf, const Shape& shape) {
  if (shape.rank() == 3)
    return parse_sharding(way % 2 == 0 ? "{devices=[2,3,1]<=[6]}"
                                       : "{devices=[3,1,2]<=[2,3]T(1,0)}");
  if (shape.rank() == 1) return parse_sharding("{devices=[6]<=[6]}");
  return parse_sharding(shape.rank() == 0 ? "{replicated}" : layouts(way)[leaf % 6]);
}

Tree on_devices_as(const Tree& whole, int way) {
  Tree tree;
  for (size_t i = 0; i + 1 < whole.size(); ++i)
    tree.push_back(i == 5 ? flat_on_devices(whole[i], 6)
                          : on_devices_as(whole[i], layout_of(way, i, whole[i].shape()), 6));
  tree.push_back(whole.back());
  return tree;
}

// Loads onto 6 devices in this process and compares what is here with the whole.
void check_loaded(const std::string& path, const Tree& whole, int way) {
  LoadOptions options{.num_devices = 6};
  options.sharding = [&](const std::string& name, const Shape& shape) {
    return layout_of(way, size_t(std::stoi(name)), shape);
  };
  const Tree loaded = load(path, whole, options);
  for (size_t i = 0; i < whole.size(); ++i) {
    const Sharding sharding = layout_of(way, i, whole[i].shape());
    const std::vector<Array> shards = local_shards(loaded[i]);
    const DeviceRange here = local_devices(6);
    for (int64_t d = here.first; d < here.last; ++d) {
      const Box box = shard_box(whole[i].shape(), sharding, d);
      if (!box.is_empty() && !bitwise_equal(shards[size_t(d - here.first)], box_of(whole[i], box)))
        throw std::runtime_error(fmt::format("leaf {} on device {} differs", i, d));
    }
  }
}

void expect_none(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

void save_as(int64_t processes, const std::string& path, const Tree& whole, int way) {
  ThreadJob job(processes);
  expect_none(run_as_processes(job, [&](int64_t) {
    save(path, on_devices_as(whole, way), {{"made", "together"}});
  }));
  for (const auto& [between, bytes] : job.bytes) CHECK(bytes < 2000);  // no elements
}

void check_everywhere(const std::string& path, const Tree& whole) {
  const Tree host = load(path, whole);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(bitwise_equal(host[i], whole[i]));
  for (const int64_t processes : {1, 2, 5}) {
    for (int way = 0; way < 7; way += processes == 1 ? 1 : 3) {
      CAPTURE(processes, way);
      ThreadJob job(processes);
      expect_none(run_as_processes(job, [&](int64_t) { check_loaded(path, whole, way); }));
    }
  }
}

std::string read_bytes(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}
void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("set: what any number of processes saved, any other reads on any layout",
          "[api][checkpoint][processes]") {
  const Folder folder;
  const std::string path = folder.file("model.safetensors");
  const Tree whole = sample(3);
  for (const int64_t processes : {2, 3, 6}) {
    for (int way = 0; way < 7; ++way) {
      CAPTURE(processes, way);
      save_as(processes, path, whole, way);
      CHECK(folder.names("part-").size() == size_t(processes));
      CHECK(folder.names().size() == size_t(processes) + 1);
      CHECK(saved_metadata(path) == std::map<std::string, std::string>{{"made", "together"}});
      if (way % 3 == 0) check_everywhere(path, whole);
    }
  }
  // A file of one process is read by several, and its save takes the set's place.
  save(path, whole);
  CHECK(folder.names() == std::vector<std::string>{"model.safetensors"});
  check_everywhere(path, whole);
}

TEST_CASE("set: each shard is written once, and processes share what all of them have",
          "[api][checkpoint][processes]") {
  const Folder folder;
  const std::string path = folder.file("model.safetensors");
  Tree whole;
  int64_t bytes = 0;
  for (unsigned i = 0; i < 12; ++i) {
    whole.push_back(random_array({DType::f32, {8, 6}}, i));
    bytes += whole.back().shape().bytes();
  }
  ThreadJob job(3);
  expect_none(run_as_processes(job, [&](int64_t) {
    Tree tree;
    for (size_t i = 0; i < whole.size(); ++i)
      tree.push_back(on_devices_as(
          whole[i], parse_sharding(i % 2 == 0 ? "{replicated}" : "{devices=[2,3]<=[6]}"), 6));
    save(path, tree);
  }));
  int64_t found = 0;
  for (const std::string& name : folder.names("part-")) {
    int64_t here = 0;
    const SafetensorsFile part(folder.file(name));
    for (const SafetensorsEntry& tensor : part.tensors()) here += tensor.shape.bytes();
    CHECK(here == bytes / 3);
    found += here;
  }
  CHECK(found == bytes);
  const SafetensorsFile set(path);
  CHECK(set.files().size() == 3);
  CHECK(set.shape("1") == whole[1].shape());
  CHECK(bitwise_equal(set.read_box("1", {{3, 1}, {4, 3}}), box_of(whole[1], {{3, 1}, {4, 3}})));
  // Only rows of the box are read.
  CHECK(set.bytes_read() == 4 * 3 * 4);
}

TEST_CASE("set: what lies on the host alone is one file", "[api][checkpoint][processes]") {
  const Folder folder;
  const Tree whole = {random_array({DType::f32, {5}}, 1), Array::scalar(2.)};
  ThreadJob job(2);
  expect_none(
      run_as_processes(job, [&](int64_t) { save(folder.file("host.safetensors"), whole); }));
  CHECK(folder.names() == std::vector<std::string>{"host.safetensors"});
  CHECK(bitwise_equal(load(folder.file("host.safetensors"), whole)[0], whole[0]));
}

TEST_CASE(
    "set: a part that is missing, cut, flipped or of another step is named, and the step before is "
    "used",
    "[api][checkpoint][processes]") {
  const Folder folder;
  const Tree whole[] = {sample(3), sample(4)};
  ThreadJob job(2);
  expect_none(run_as_processes(job, [&](int64_t) {
    Checkpoints checkpoints(folder.path);
    for (int step = 0; step < 2; ++step) checkpoints.save(step, on_devices_as(whole[step], 0));
  }));
  const std::string first = folder.file(folder.names("step-000000.part-2-of-2-").at(0));
  const std::string second = folder.file(folder.names("step-000001.part-2-of-2-").at(0));
  const std::string kept = read_bytes(second);
  std::string flipped = kept;
  flipped[flipped.size() - 20] ^= 1;
  const std::pair<std::string, std::string> cases[] = {
      {"", "cannot be opened: No such file or directory (part 2 of 2 of"},
      {kept.substr(0, kept.size() - 1), ", of whose "},
      {kept.substr(0, 3), "is no safetensors file: 3 bytes"},
      {flipped, "is damaged"},
      {read_bytes(first), "is of another save, step-000000.safetensors: its header's checksum"}};
  for (const auto& [content, said] : cases) {
    if (content.empty())
      fs::remove(second);
    else
      write_bytes(second, content);
    CAPTURE(said);
    for (const int64_t processes : {1, 2, 3}) {
      CAPTURE(processes);
      ThreadJob again(processes);
      std::vector<std::string> logs(static_cast<size_t>(processes));
      expect_none(run_as_processes(again, [&](int64_t p) {
        Checkpoints checkpoints(
            folder.path, {.log = [&](const std::string& message) { logs[size_t(p)] += message; }});
        Tree tree = on_devices_as(sample(9), 1);
        if (checkpoints.restore(tree) != 0) throw std::runtime_error("another step");
        if (!bitwise_equal(tree[8], whole[0][8])) throw std::runtime_error("another tree");
      }));
      CHECK_THAT(logs[0], Contains("checkpoint of step 1 is passed over: ") && Contains(said) &&
                              Contains(second));
      for (size_t p = 1; p < logs.size(); ++p) CHECK(logs[p] == "");
    }
    write_bytes(second, kept);
  }
  CHECK(folder.names("part-").size() == 4);  // nobody took the damaged for lost
  ThreadJob again(3);
  expect_none(run_as_processes(again, [&](int64_t) {
    Tree tree = on_devices_as(sample(9), 2);
    if (Checkpoints(folder.path).restore(tree) != 1) throw std::runtime_error("another step");
  }));
}

TEST_CASE("set: older steps go with their parts, and what killed writers left",
          "[api][checkpoint][processes]") {
  const Folder folder;
  const Tree whole = sample(3);
  const std::string lost = "step-000007.part-1-of-2-0123456789abcdef.safetensors";
  const std::string stale = "step-000003.part-1-of-9-0123456789abcdef.safetensors";
  const std::string other = "step-000007.part-1-of-2-0123456789abcde.safetensors";  // no part
  for (const std::string& name : {lost, other}) write_bytes(folder.file(name), "x");
  ThreadJob job(2);
  expect_none(run_as_processes(job, [&](int64_t) {
    Checkpoints checkpoints(folder.path, {.keep = 2});
    for (int64_t step = 0; step < 4; ++step) checkpoints.save(step, on_devices_as(whole, 0));
    checkpoints.save(3, on_devices_as(whole, 1));  // in the place of the other
  }));
  CHECK(folder.names("step-000002").size() == 3);
  CHECK(folder.names("step-000003").size() == 3);
  CHECK(folder.names().size() == 7);
  CHECK(folder.names(other).size() == 1);
  write_bytes(folder.file(stale), "x");
  Checkpoints alone(folder.path, {.keep = 1});
  CHECK(folder.names(stale).empty());
  alone.save(4, whole);
  CHECK(folder.names("step-").size() == 2);
}

TEST_CASE("set: processes that save or load other things are told so",
          "[api][checkpoint][processes]") {
  const Folder folder;
  const Tree whole = sample(3);
  const std::string path = folder.file("model.safetensors");
  const auto fails = [&](const std::function<void(int64_t)>& body, const std::string& said) {
    ThreadJob job(2);
    for (const std::string& error : run_as_processes(job, body)) CHECK_THAT(error, Contains(said));
  };
  fails([&](int64_t p) { save(path + std::to_string(p), whole); }, "process 1 saves");
  fails([&](int64_t p) { save(path, p == 0 ? whole : Tree{whole[0]}); }, "processes disagree");
  fails([&](int64_t) { save(folder.file("no/such"), on_devices_as(whole, 0)); },
        "cannot be written: the folder " + folder.file("no"));
  CHECK(folder.names().empty());
  fails([&](int64_t) { check_loaded(path, whole, 0); }, "cannot be opened");
  save_as(2, path, whole, 0);
  Tree less = whole;
  less.pop_back();
  fails([&](int64_t) { check_loaded(path, less, 0); }, "is in the file but not in the tree");
  // A folder in the way of the index: nothing stays.
  fs::create_directories(folder.file("taken"));
  fails([&](int64_t) { save(folder.file("taken"), on_devices_as(whole, 0)); },
        "it is no regular file");
  CHECK(folder.names("taken.part").empty());
}
