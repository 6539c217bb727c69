#include "gspmd/api/vmap.h"

#include <algorithm>
#include <optional>

#include "api/body.h"
#include "api/emit.h"
#include "gspmd/passes/batch/batch.h"
#include "ops/common/batch.h"

namespace gspmd {

using namespace detail;

BatchAxes::BatchAxes(BatchAxis axis, ForAll)
    : leaves_(std::vector{std::pair{std::string(), axis}}), one_for_all_(true) {}
BatchAxes::BatchAxes(NotBatched none) : BatchAxes(BatchAxis(none), ForAll()) {}
BatchAxes::BatchAxes(std::initializer_list<BatchAxes> parts)
    : parts_(std::vector(parts)), has_parts_(true) {}
BatchAxes::BatchAxes(const BatchAxes& other) = default;
BatchAxes::BatchAxes(BatchAxes&& other) noexcept = default;
BatchAxes& BatchAxes::operator=(const BatchAxes& other) = default;
BatchAxes& BatchAxes::operator=(BatchAxes&& other) noexcept = default;
BatchAxes::~BatchAxes() = default;

int64_t BatchAxes::parts() const { return has_parts_ ? static_cast<int64_t>(parts_.size()) : -1; }

BatchAxis BatchAxes::at(const std::string& path, const std::string& what) const {
  if (one_for_all_) return leaves_[0].second;
  if (has_parts_) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string part = path.substr(0, dot);
    if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos)
      call_error(
          "{} is no element of a list, but a list of axes is given for it; give one axis, or "
          "a tree of BatchAxis",
          what);
    if (std::stoull(part) >= parts_.size())
      call_error("there is no axis for {}; {} are given", what, parts_.size());
    return parts_[std::stoull(part)].at(dot < path.size() ? path.substr(dot + 1) : "", what);
  }
  for (const auto& [leaf, axis] : leaves_)
    if (leaf == path) return axis;
  call_error("there is no axis for {}; give a tree of BatchAxis of its structure", what);
}

namespace detail {
namespace {

std::string describe_argument(const std::string& path, const Node* node) {
  return "argument " + path + " (" + describe(node) + ")";
}

std::string describe_result(const std::string& path, const Node* node) {
  return (path.empty() ? "the result" : "result " + path) + " (" + describe(node) + ")";
}

// `axis` of a value of this rank.
int64_t axis_within(int64_t axis, int64_t rank, const char* list, const std::string& what) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank)
    call_error("{} gives axis {} for {}, which has {} dims with that of the batch", list, axis,
               what, rank);
  return from_front;
}

Node* move_front_to(Node* x, int64_t axis) {
  if (axis == 0) return x;
  Dims permutation;
  for (int64_t d = 1; d < x->rank(); ++d) permutation.push_back(d);
  permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  return hlo::transpose(x, std::move(permutation));
}

}  // namespace

struct VmapTrace::Impl {
  Site site;
  VmapOptions options;
  std::optional<OpenBody> body;
  std::vector<BatchLeaf> arguments;
  std::vector<Tensor> slices;
  int64_t size = -1;
  std::string first;  // the argument whose size that is

  void add(const std::string& path, Node* node) {
    const std::string what = describe_argument(path, node);
    const BatchAxis given = options.in_axes.at(path, what);
    if (!given.batched) {
      arguments.push_back({node, false});
      return;
    }
    if (node->rank() == 0)
      call_error(
          "{} has no dims, so that it has none for the batch; give not_batched for it in "
          "in_axes",
          what);
    const int64_t axis = axis_within(given.axis, node->rank(), "in_axes", what);
    const int64_t elements = node->dim(axis);
    if (size >= 0 && size != elements)
      call_error("{} has {} elements along axis {}, {}; the batch has one size", what, elements,
                 axis, first);
    if (size < 0) first = fmt::format("{} has {} along axis {}", what, elements, axis);
    size = elements;
    arguments.push_back({move_to_front(node, axis), true});
  }
};

VmapTrace::VmapTrace(const PathLeaves& arguments, size_t count, const VmapOptions& options,
                     Site site)
    : impl_(make_owned<Impl>()) {
  call("vmap", site, [&] {
    impl_->site = site;
    impl_->options = options;
    if (options.in_axes.parts() >= 0 && options.in_axes.parts() != static_cast<int64_t>(count))
      call_error("in_axes has {} entries for {} arguments; give one for each",
                 options.in_axes.parts(), count);
    for (const auto& [path, tensor] : arguments) {
      if (!TensorAccess::trace(tensor))
        call_error("argument {} has no value; assign it before the call", path);
      impl_->add(path, node_of(tensor));
    }
    if (impl_->size < 0)
      call_error("no argument is batched, so that the batch has no size; give an axis in in_axes");
    OpenBody& body = impl_->body.emplace("vmap", site);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const BatchLeaf& leaf = impl_->arguments[i];
      Shape shape = leaf.node->shape;
      if (leaf.batched) shape.dims.erase(shape.dims.begin());
      impl_->slices.push_back(body.parameter(shape, "argument" + arguments[i].first));
    }
  });
}

VmapTrace::~VmapTrace() = default;

const std::vector<Tensor>& VmapTrace::slices() const { return impl_->slices; }

std::vector<Tensor> VmapTrace::finish(const PathLeaves& results) {
  return call("vmap", impl_->site, [&] {
    std::vector<Tensor> inside;
    for (const auto& [path, tensor] : results) {
      if (!TensorAccess::trace(tensor))
        call_error("the function returns leaf \"{}\" without a value; assign it there", path);
      inside.push_back(tensor);
    }
    impl_->body->close(inside);
    std::vector<BatchLeaf> arguments = impl_->arguments;
    for (Node* outer : impl_->body->outer()) arguments.push_back({outer, false});
    const std::vector<BatchLeaf> found =
        batch(impl_->body->computation(), trace_of_call().here(), arguments,
              {.size = impl_->size, .mesh_axis = impl_->options.mesh_axis});
    std::vector<Tensor> outside;
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string what = describe_result(results[i].first, impl_->body->results()[i]);
      const BatchAxis wanted = impl_->options.out_axes.at(results[i].first, what);
      if (!wanted.batched && found[i].batched)
        call_error("out_axes says not_batched for {}, which depends on the batch; give an axis",
                   what);
      Node* node = found[i].node;
      if (wanted.batched) {
        node = with_batch(found[i], impl_->size);
        node = move_front_to(node, axis_within(wanted.axis, node->rank(), "out_axes", what));
      }
      outside.push_back(tensor_of(node));
    }
    return outside;
  });
}

}  // namespace detail
}  // namespace gspmd
