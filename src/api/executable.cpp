#include "gspmd/api/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "api/device_storage.h"
#include "api/executable_impl.h"
#include "base/host_storage.h"
#include "gspmd/api/trace_file.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"

namespace gspmd {

using detail::DeviceLayout;
using detail::DeviceStorage;
using Impl = ExecutableBase::Impl;

namespace {

// StableHLO has no copy: one that has a layout is a Sharding call, others are what they copy.
std::unique_ptr<Module> without_copies(const Module& module) {
  std::unique_ptr<Module> result = module.clone();
  for (const auto& computation : result->computations()) {
    std::vector<Node*> copies;
    for (const auto& node : computation->nodes())
      if (node->is(Opcode::copy)) copies.push_back(node.get());
    for (Node* node : copies) {
      Node* instead = node->operand(0);
      if (node->sharding && !node->shape.is_tuple) {
        Attributes attrs;
        attrs.custom_call_target = "Sharding";
        instead = computation->append(Opcode::custom_call, node->shape, {instead}, attrs);
        copy_annotations(*node, *instead);
      }
      computation->replace_uses(node, instead);
    }
    computation->remove_dead();
    computation->sort();
  }
  return result;
}

// The machine runs one program at a time.
std::mutex& run_mutex() {
  static std::mutex mutex;
  return mutex;
}

// One pool for all executables with the same number of threads.
std::shared_ptr<WorkerPool> shared_pool(int threads) {
  if (threads == 0) threads = default_threads();
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<WorkerPool>> pools;
  const std::lock_guard lock(mutex);
  std::shared_ptr<WorkerPool> pool = pools[threads].lock();
  if (!pool) pools[threads] = pool = make_worker_pool(threads);
  return pool;
}

// An argument leaf in the layout of the program: its own buffer where it already lies so. A host
// array goes where the last one went, where nobody keeps that.
std::shared_ptr<DeviceBuffer> place(const Array& array, const DeviceLayout& layout,
                                    std::shared_ptr<DeviceBuffer>* staged) {
  const DeviceStorage* storage = detail::device_storage(array);
  if (storage && storage->buffer() &&
      (storage->layout().get() == &layout || *storage->layout() == layout))
    return storage->buffer();
  std::shared_ptr<DeviceBuffer> unkept;
  std::shared_ptr<DeviceBuffer>& buffer = staged == nullptr ? unkept : *staged;
  const bool is_new = buffer == nullptr || buffer.use_count() > 1;
  if (is_new)
    buffer = std::make_shared<DeviceBuffer>(layout.copies().local(), layout.num_devices());
  if (is_new && is_untouched_zero(array)) return buffer;
  const ShardCopies& copies = layout.copies();
  if (array.shape() == layout.global())
    copies.scatter(array, *buffer);
  else
    copies.scatter(Array(layout.global(), array.storage()), *buffer);
  return buffer;
}

std::string where(const Impl& impl, const std::string& path) {
  return fmt::format("argument {} of call {}", path, impl.calls + 1);
}

void check_structure(const Impl& impl, Site site) {
  const std::vector<TracedLeaf>& wanted = impl.traced.arguments();
  const size_t given = impl.call_leaves.size();
  if (!impl.wrong_leaf && given == wanted.size()) return;
  const size_t at = impl.wrong_leaf ? impl.wrong_leaf->first : given;
  user_error(site,
             "{}: the arguments of call {} have {} where the compiled function has {} ({} leaves, "
             "compiled for {}); pass trees of the same structure or compile again",
             impl.options.name, impl.calls + 1,
             impl.wrong_leaf ? impl.wrong_leaf->second : "nothing",
             at < wanted.size() ? wanted[at].path : "nothing", given, wanted.size());
}

void check_leaf(const Impl& impl, const Array& array, const TracedLeaf& wanted, Site site) {
  if (array.empty())
    user_error(site, "{}: {} has no value; it must be {}", impl.options.name,
               where(impl, wanted.path), to_string(wanted.shape));
  if (!(array.shape() == wanted.shape))
    user_error(site,
               "{}: {} is {}, but the function was compiled for {}; pass that shape and dtype or "
               "compile again",
               impl.options.name, where(impl, wanted.path), to_string(array.shape()),
               to_string(wanted.shape));
  const DeviceStorage* storage = detail::device_storage(array);
  if (storage ? !storage->taker().empty() : detail::is_donated_host_array(array))
    user_error(site, "{}: {} was donated to {}; pass the array that call returned",
               impl.options.name, where(impl, wanted.path),
               storage ? storage->taker() : detail::taker_of_host_array(array));
}

void check_donated_once(const Impl& impl, Site site) {
  if (!impl.donates) return;
  const std::vector<const Array*>& leaves = impl.call_leaves;
  const std::vector<TracedLeaf>& wanted = impl.traced.arguments();
  std::map<const ArrayStorage*, size_t> first;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto [at, is_new] = first.try_emplace(leaves[i]->storage().get(), i);
    if (is_new || (!impl.donated[i] && !impl.donated[at->second])) continue;
    user_error(
        site,
        "{}: the array passed as {} is also argument {} of the same call, and one of them is "
        "donated; clone() one or do not donate",
        impl.options.name, where(impl, wanted[i].path), wanted[at->second].path);
  }
}

void place_arguments(Impl& impl) {
  const std::vector<const Array*>& leaves = impl.call_leaves;
  impl.staged.resize(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    impl.call_buffers.push_back(
        place(*leaves[i], *impl.parameter_layouts[i], impl.donated[i] ? nullptr : &impl.staged[i]));
  // Only when every argument is in place: an error before leaves all arrays usable.
  for (size_t i = 0; i < leaves.size() && impl.donates; ++i) {
    if (!impl.donated[i]) continue;
    const std::string taker =
        fmt::format("argument {} of call {} of {}", impl.traced.arguments()[i].path, impl.calls + 1,
                    impl.options.name);
    if (DeviceStorage* storage = detail::device_storage(*leaves[i]))
      storage->donate(taker);
    else
      detail::donate_host_array(*leaves[i], taker);
  }
  if (impl.captured.empty()) {
    const std::vector<Array>& arrays = impl.traced.captured();
    for (size_t i = 0; i < arrays.size(); ++i)
      impl.captured.push_back(
          place(arrays[i], *impl.parameter_layouts[leaves.size() + i], nullptr));
  }
  impl.call_buffers.insert(impl.call_buffers.end(), impl.captured.begin(), impl.captured.end());
}

constexpr int64_t kKeptBytes = 1 << 16;  // of all results together, so that they are kept

bool are_small(const std::vector<TracedLeaf>& results) {
  int64_t bytes = 0;
  for (const TracedLeaf& leaf : results) bytes = saturating_add(bytes, leaf.shape.bytes());
  return bytes <= kKeptBytes;
}

// The storage of a result of the last call that nobody else has, or nullptr.
DeviceStorage* unused_storage(const Array& result) {
  if (!result.is_only() || result.storage().use_count() != 1) return nullptr;
  std::atomic_thread_fence(std::memory_order_acquire);  // what others did before they let it go
  return detail::device_storage(result);
}

// What nobody has any more goes back to the executor.
void give_back_results(Impl& impl) {
  for (const Array& result : impl.call_results)
    if (DeviceStorage* const storage = unused_storage(result)) storage->renew(nullptr);
}

void wrap_results(Impl& impl) {
  impl.call_results.resize(impl.call_outputs.size());
  for (size_t i = 0; i < impl.call_outputs.size(); ++i) {
    Array& result = impl.call_results[i];
    if (DeviceStorage* const storage = unused_storage(result))
      storage->renew(std::move(impl.call_outputs[i]));
    else
      result = Array(
          impl.traced.results()[i].shape,
          std::make_shared<DeviceStorage>(std::move(impl.call_outputs[i]), impl.result_layouts[i]));
  }
}

void execute(Impl& impl, RunTrace* trace) {
  const std::lock_guard lock(run_mutex());
  impl.executor->run(impl.call_buffers, impl.call_outputs, trace);
}

// As execute, and written down.
void execute_traced(Impl& impl) {
  const std::string path = std::exchange(impl.trace_path, "");
  RunTrace trace{.mesh = impl.options.mesh};
  execute(impl, &trace);
  if (is_first_process()) write_trace(path, trace, impl.options.name);
}

int64_t find_leaf(const Impl& impl, const std::vector<TracedLeaf>& leaves, const std::string& path,
                  const char* what, Site site) {
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].path == path) return static_cast<int64_t>(i);
  std::vector<std::string> known;
  for (size_t i = 0; i < leaves.size() && i < 8; ++i) known.push_back(leaves[i].path);
  user_error(site, "{}: there is no {} \"{}\"; paths are {}{}", impl.options.name, what, path,
             fmt::join(known, ", "), leaves.size() > known.size() ? ", ..." : "");
}

const Sharding& leaf_sharding(const Impl& impl, const std::vector<Sharding>& shardings,
                              int64_t leaf, const char* what, Site site) {
  if (leaf < 0 || leaf >= static_cast<int64_t>(shardings.size()))
    user_error(site, "{}: {} {} is outside the {} leaves", impl.options.name, what, leaf,
               shardings.size());
  return shardings[static_cast<size_t>(leaf)];
}

}  // namespace

ExecutableBase::ExecutableBase(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::string ExecutableBase::text(const TextOptions& options) const {
  const bool completed = options.stage == TextStage::completed;
  const Module& module = completed ? *impl_->stages.completed : *impl_->stages.local;
  if (options.form == Language::hlo) return to_text(module);
  return to_stablehlo(*without_copies(module), {.locations = options.locations});
}
const ExecutableStats& ExecutableBase::stats() const { return impl_->stats; }
const Traced& ExecutableBase::traced() const { return impl_->traced; }
const CompiledModule& ExecutableBase::module() const { return impl_->stages; }
const Mesh& ExecutableBase::mesh() const { return impl_->options.mesh; }
int64_t ExecutableBase::num_devices() const { return impl_->num_devices(); }

const Sharding& ExecutableBase::parameter_sharding(const std::string& path, Site site) const {
  return parameter_sharding(find_leaf(*impl_, impl_->traced.arguments(), path, "argument", site),
                            site);
}
const Sharding& ExecutableBase::parameter_sharding(int64_t leaf, Site site) const {
  return leaf_sharding(*impl_, impl_->parameter_shardings, leaf, "argument", site);
}
const Sharding& ExecutableBase::result_sharding(const std::string& path, Site site) const {
  return result_sharding(find_leaf(*impl_, impl_->traced.results(), path, "result", site), site);
}
const Sharding& ExecutableBase::result_sharding(int64_t leaf, Site site) const {
  return leaf_sharding(*impl_, impl_->result_shardings, leaf, "result", site);
}

RunCounters ExecutableBase::counters() const {
  return impl_->executor ? impl_->executor->counters() : RunCounters{};
}

void ExecutableBase::trace(const std::string& path, Site site) const {
  try {
    if (is_first_process()) write_trace(path, RunTrace{}, impl_->options.name);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: trace: {}", impl_->options.name, error.what()), site);
  }
  const std::lock_guard lock(impl_->call_mutex);
  impl_->trace_path = path;
}

ExecutableCall::ExecutableCall(ExecutableBase::Impl& impl) : impl_(impl) { impl.call_mutex.lock(); }

ExecutableCall::~ExecutableCall() {
  impl_.call_leaves.clear();
  impl_.wrong_leaf.reset();
  impl_.call_buffers.clear();
  impl_.call_outputs.clear();
  if (!impl_.keeps_results) impl_.call_results.clear();
  impl_.call_mutex.unlock();
}

void ExecutableCall::argument(const std::string& path, const Array& array) {
  const std::vector<TracedLeaf>& wanted = impl_.traced.arguments();
  const size_t at = impl_.call_leaves.size();
  if (!impl_.wrong_leaf && (at >= wanted.size() || wanted[at].path != path))
    impl_.wrong_leaf.emplace(at, path);
  impl_.call_leaves.push_back(&array);
}

const Array& ExecutableCall::result(size_t leaf) const { return impl_.call_results.at(leaf); }

void ExecutableCall::run(Site site) {
  Impl& impl = impl_;
  if (!impl.program)
    user_error(site,
               "{}: compiled with prepare = false, only to be inspected; compile again to run it",
               impl.options.name);
  check_structure(impl, site);
  for (size_t i = 0; i < impl.call_leaves.size(); ++i)
    check_leaf(impl, *impl.call_leaves[i], impl.traced.arguments()[i], site);
  check_donated_once(impl, site);
  if (!impl.executor) {
    impl.executor = std::make_unique<Executor>(impl.program, shared_pool(impl.options.threads));
    impl.keeps_results = are_small(impl.traced.results());
  }
  give_back_results(impl);
  place_arguments(impl);
  ++impl.calls;
  if (impl.trace_path.empty())
    execute(impl, nullptr);
  else
    execute_traced(impl);
  wrap_results(impl);
}

const std::string& ExecutableBase::argument_name(size_t argument) const {
  const std::vector<std::string>& names = impl_->options.argument_names;
  if (argument >= names.size())
    user_error("{}: argument {} is outside the {} arguments", impl_->options.name, argument,
               names.size());
  return names[argument];
}

}  // namespace gspmd
