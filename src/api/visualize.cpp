#include "gspmd/api/visualize.h"

#include "api/trace_state.h"

namespace gspmd {

using namespace detail;

std::string visualize(const Array& array) {
  if (array.empty()) user_error("visualize: an empty Array has no layout; give it a shape first");
  return visualize(array.shape(), sharding_of(array));
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

}  // namespace gspmd
