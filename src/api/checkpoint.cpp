#include "gspmd/api/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "api/checkpoint_set.h"
#include "api/device_storage.h"
#include "gspmd/io/safetensors.h"
#include "io/atomic_file.h"
#include "io/safetensors_set.h"

namespace gspmd {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBegin = "step-";
constexpr std::string_view kEnd = ".safetensors";

// What files say is wrong, at the user's line.
template <class F>
auto at_site(Site site, F f) {
  try {
    return f();
  } catch (const UserError& error) {
    if (error.site().known() || !site.known()) throw;
    throw UserError(error.what(), site);
  }
}

void check_saved(const std::string& path, const std::string& name, const Array& array, Site site) {
  if (array.empty())
    user_error(site, "save: {}: \"{}\" has no value; give every leaf of the tree one", path, name);
  const detail::DeviceStorage* const storage = detail::device_storage(array);
  if (storage == nullptr) return;
  if (!storage->taker().empty())
    user_error(site, "save: {}: \"{}\" was donated to {}; save the array that the call returned",
               path, name, storage->taker());
}

// A tensor of the file in the shards of the devices; equal shards are read once.
Array read_sharded(const SafetensorsFile& file, const std::string& name, const Sharding& sharding,
                   int64_t num_devices) {
  const Shape& shape = file.shape(name);
  auto buffer = std::make_shared<DeviceBuffer>(local_shape(shape, sharding), num_devices);
  const auto bytes = static_cast<size_t>(buffer->shape().bytes());
  std::map<Dims, int64_t> read;  // by the shard's start: the device that has it
  for (int64_t device = buffer->local().first; device < buffer->local().last; ++device) {
    const Box box = shard_box(shape, sharding, device);
    if (box.is_empty()) continue;
    const auto [at, is_new] = read.try_emplace(box.start, device);
    if (is_new) {
      const Array shard = file.read_shard(name, sharding, device);
      std::memcpy(buffer->shard(device), shard.bytes().data(), bytes);
    } else {
      std::memcpy(buffer->shard(device), buffer->shard(at->second), bytes);
    }
  }
  return {shape, std::make_shared<detail::DeviceStorage>(std::move(buffer), shape, sharding)};
}

struct Place {
  std::optional<Sharding> sharding;  // nullopt: the host
  int64_t num_devices = 1;
};

Place place_of(const detail::WantedLeaf& leaf, const LoadOptions& options) {
  if (options.sharding) return {options.sharding(leaf.name, leaf.shape), options.num_devices};
  const detail::DeviceStorage* const storage =
      leaf.like.empty() ? nullptr : detail::device_storage(leaf.like);
  if (storage == nullptr || !storage->buffer()) return {};
  if (!(storage->global_shape() == leaf.shape)) return {};  // it lies flat: no shard is a box of it
  return {storage->sharding(), storage->buffer()->num_devices()};
}

void check_place(const std::string& file, const std::string& name, const Shape& shape,
                 const Place& place) {
  const Sharding& sharding = *place.sharding;
  const bool whole = (sharding.is_tiled() && sharding.unreduced().empty() &&
                      sharding.manual_digits().empty() && sharding.rank() <= shape.rank()) ||
                     sharding.kind() == ShardingKind::maximal;
  if (!whole)
    user_error("load: {}: tensor \"{}\", {}, cannot be laid out as {}; give a sharding of its dims",
               file, name, to_string(shape), to_string(sharding));
  const int64_t devices = detail::devices_needed(sharding);
  if (place.num_devices < devices)
    user_error(
        "load: {}: tensor \"{}\": {} needs {} devices, num_devices is {}; give at least as many",
        file, name, to_string(sharding), devices, place.num_devices);
}

std::string named(const LoadOptions& options, const std::string& name) {
  return options.prefix.empty() ? name : options.prefix + "." + name;
}

// A few names of the file, for messages.
std::string names_of(const SafetensorsFile& file) {
  std::string text;
  const size_t shown = std::min<size_t>(file.tensors().size(), 8);
  for (size_t i = 0; i < shown; ++i)
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", file.tensors()[i].name);
  return file.tensors().size() > shown ? text + ", ..." : text;
}

void check_names(const SafetensorsFile& file, const std::string& path,
                 const std::vector<detail::WantedLeaf>& wanted, const LoadOptions& options) {
  std::set<std::string> names;
  for (const detail::WantedLeaf& leaf : wanted) {
    const std::string name = named(options, leaf.name);
    names.insert(name);
    if (!file.contains(name))
      user_error("load: {}: has no tensor \"{}\" among its {} ({}); load the tree that was saved",
                 path, name, file.tensors().size(), names_of(file));
    if (!(file.shape(name) == leaf.shape))
      user_error(
          "load: {}: tensor \"{}\" is {} in the file, {} in the tree; load into the model that "
          "was saved",
          path, name, to_string(file.shape(name)), to_string(leaf.shape));
  }
  if (options.ignore_others) return;
  const std::string below = options.prefix.empty() ? "" : options.prefix + ".";
  for (const SafetensorsEntry& tensor : file.tensors())
    if (tensor.name.starts_with(below) && !names.contains(tensor.name))
      user_error(
          "load: {}: tensor \"{}\", {}, is in the file but not in the tree of {} leaves; load "
          "the tree that was saved, or set ignore_others",
          path, tensor.name, to_string(tensor.shape), wanted.size());
}

// The file with all that is wanted, and what goes to devices verified. Several processes share that
// work where they share the devices: all of them then load, and all fail where one does.
std::optional<SafetensorsFile> open_checked(const std::string& path,
                                            const std::vector<detail::WantedLeaf>& wanted,
                                            const std::vector<Place>& places,
                                            const LoadOptions& options) {
  std::optional<SafetensorsFile> file;
  Transport* transport = detail::job_transport();
  if (std::all_of(places.begin(), places.end(),
                  [](const Place& place) { return !place.sharding || place.num_devices == 1; }))
    transport = nullptr;
  const auto share = static_cast<size_t>(transport == nullptr ? 1 : transport->count());
  const auto own = static_cast<size_t>(transport == nullptr ? 0 : transport->process());
  const auto open = [&] {
    file.emplace(path);
    check_names(*file, path, wanted, options);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!places[i].sharding) continue;
      const std::string name = named(options, wanted[i].name);
      check_place(path, name, wanted[i].shape, places[i]);
      if (i % share == own) file->verify(name);
    }
  };
  if (transport == nullptr) {
    open();
    return file;
  }
  agree(*transport, std::hash<std::string>()(path), fmt::format("loads {}", path));
  detail::together(*transport, "loading", open);
  return file;
}

}  // namespace

namespace detail {

void save_leaves(const std::string& path, const Leaves& leaves,
                 const std::map<std::string, std::string>& metadata, Site site) {
  std::vector<SafetensorsSource> sources;
  for (const auto& [name, array] : leaves) {
    check_saved(path, name, array, site);
    sources.push_back({name, array.shape(), [&held = array] { return host_copy(held); }});
  }
  at_site(site, [&] {
    if (Transport* const transport = job_transport())
      return save_by_all(path, leaves, metadata, *transport);
    write_safetensors_streamed(path, sources, metadata);
    io::remove_parts(io::index_path(path), {});
  });
}

std::vector<Array> load_leaves(const std::string& path, const std::vector<WantedLeaf>& wanted,
                               const LoadOptions& options, Site site) {
  return at_site(site, [&] {
    std::vector<Place> places;
    for (const WantedLeaf& leaf : wanted) places.push_back(place_of(leaf, options));
    const std::optional<SafetensorsFile> file = open_checked(path, wanted, places, options);
    std::vector<Array> arrays;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::string name = named(options, wanted[i].name);
      arrays.push_back(places[i].sharding
                           ? read_sharded(*file, name, *places[i].sharding, places[i].num_devices)
                           : file->read(name));
    }
    return arrays;
  });
}

}  // namespace detail

std::map<std::string, std::string> saved_metadata(const std::string& path, Site site) {
  return at_site(site, [&] { return SafetensorsFile(path).metadata(); });
}

Checkpoints::Checkpoints(std::string folder, CheckpointOptions options, Site site)
    : folder_(std::move(folder)), options_(std::move(options)) {
  if (options_.keep < 1)
    user_error(site, "checkpoints: {}: keep is {}; keep at least 1", folder_, options_.keep);
  std::error_code failed;
  const bool made = fs::create_directories(folder_, failed);
  if (failed)
    user_error(site, "checkpoints: {}: the folder cannot be made: {}", folder_, failed.message());
  at_site(site, [&] {
    if (made) io::sync_folder((fs::absolute(folder_) / "..").lexically_normal().string());
    steps();
  });
  if (!is_first_process()) return;
  io::remove_leftovers(folder_, std::string(kBegin));
  io::remove_lost_parts(folder_, std::string(kBegin));
}

std::string Checkpoints::path(int64_t step) const {
  return fmt::format("{}/{}{:06}{}", folder_, kBegin, step, kEnd);
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> steps;
  std::error_code failed;
  for (fs::directory_iterator at(folder_, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    int64_t step = -1;
    std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
    if (step >= 0 && path(step) == folder_ + "/" + name) steps.push_back(step);
  }
  if (failed)
    user_error("checkpoints: {}: the folder cannot be read: {}", folder_, failed.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

// All checksums of a file; of several processes, each reads a share of the tensors.
void Checkpoints::verify(int64_t step) const {
  Transport* const transport = detail::job_transport();
  const size_t share = transport == nullptr ? 1 : static_cast<size_t>(transport->count());
  const size_t own = transport == nullptr ? 0 : static_cast<size_t>(transport->process());
  const auto read = [&] {
    const SafetensorsFile file(path(step));
    if (!file.has_checksums()) user_error("{}: has no checksums", path(step));
    for (size_t i = own; i < file.tensors().size(); i += share) file.verify(file.tensors()[i].name);
  };
  if (transport == nullptr) return read();
  detail::together(*transport, "reading of a checkpoint", read);
}

// Of the first process, in all: it removes older ones while others look.
std::vector<int64_t> Checkpoints::steps_of_job() const {
  Transport* const transport = detail::job_transport();
  if (transport == nullptr) return steps();
  agree(*transport, std::hash<std::string>()(folder_),
        fmt::format("looks for checkpoints in {}", folder_));
  std::vector<int64_t> all;
  detail::together(*transport, "looking for checkpoints", [&] { all = steps(); });
  const std::string said =
      gather_texts(*transport, fmt::format("{} ", fmt::join(all, " ")), "looking for checkpoints")
          .at(0);
  std::istringstream text(said);
  all.assign(std::istream_iterator<int64_t>(text), {});
  return all;
}

std::optional<int64_t> Checkpoints::newest(Site site) {
  const std::vector<int64_t> all = at_site(site, [&] { return steps_of_job(); });
  std::string last;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    try {
      verify(*at);
      damaged_.erase(path(*at));
      return *at;
    } catch (const UserError& error) {
      last = error.what();
      std::string& told = damaged_[path(*at)];
      if (std::exchange(told, last) != last && options_.log && is_first_process())
        options_.log(fmt::format("checkpoint of step {} is passed over: {}", *at, last));
    }
  }
  if (all.empty()) return std::nullopt;
  user_error(site, "checkpoints: {}: none of the {} files is whole: {}; remove them to begin anew",
             folder_, all.size(), last);
}

void Checkpoints::check_step(int64_t step, Site site) const {
  if (step < 0) user_error(site, "checkpoints: {}: step {}; steps count from 0", folder_, step);
}

// Those of later steps are another run's, or damaged: they stay and do not count.
void Checkpoints::remove_older(int64_t step) {
  damaged_.erase(path(step));
  if (!is_first_process()) return;
  std::vector<int64_t> all = steps();
  int64_t kept = 0;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (*at > step) continue;
    const bool counts = !damaged_.contains(path(*at));
    if (kept < options_.keep) {
      kept += counts ? 1 : 0;
      continue;
    }
    std::error_code failed;
    fs::remove(path(*at), failed);
    if (failed && options_.log)
      options_.log(fmt::format("{} cannot be removed: {}", path(*at), failed.message()));
    if (failed) continue;
    io::remove_parts(path(*at), {});
    damaged_.erase(path(*at));
  }
}

}  // namespace gspmd
