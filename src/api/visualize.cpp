#include "gspmd/api/visualize.h"

#include "api/device_storage.h"
#include "api/trace_state.h"
#include "gspmd/api/executable.h"
#include "gspmd/ir/module.h"

namespace gspmd {

using namespace detail;

namespace {

const Shape& shape_on_devices(const Array& array) {
  const DeviceStorage* const storage = device_storage(array);
  return storage ? storage->global_shape() : array.shape();
}

}  // namespace

std::string visualize(const Array& array) {
  if (array.empty()) user_error("visualize: an empty Array has no layout; give it a shape first");
  return visualize(shape_on_devices(array), sharding_of(array));
}

std::string visualize(const Tensor& tensor, Site site) {
  return call("visualize", site, [&] {
    const Node* node = node_of(tensor);
    if (node->sharding) return visualize(node->shape, *node->sharding);
    return fmt::format(
        "{}: not annotated; its sharding is completed by compile(), see "
        "result_sharding() of the executable\n",
        describe(node));
  });
}

std::string visualize_html(const Array& array) {
  if (array.empty()) user_error("visualize: an empty Array has no layout; give it a shape first");
  return visualize_html(shape_on_devices(array), sharding_of(array));
}

std::string visualize_html(const ExecutableBase& executable) {
  std::vector<ShardedTensor> tensors;
  const std::vector<TracedLeaf>& arguments = executable.traced().arguments();
  const std::vector<TracedLeaf>& results = executable.traced().results();
  const Computation& entry = *executable.module().completed->entry();
  for (size_t i = 0; i < arguments.size(); ++i)
    tensors.push_back({arguments[i].path, entry.parameters().at(i)->shape,
                       executable.parameter_sharding(static_cast<int64_t>(i))});
  for (size_t i = 0; i < results.size(); ++i)
    tensors.push_back({results[i].path, entry.root()->shape.elements.at(i),
                       executable.result_sharding(static_cast<int64_t>(i))});
  return visualize_html(
      fmt::format("{} on {}", executable.module().completed->name, to_string(executable.mesh())),
      tensors);
}

}  // namespace gspmd
