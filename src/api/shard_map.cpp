#include "gspmd/api/shard_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "api/body.h"
#include "api/emit.h"
#include "api/varying.h"
#include "gspmd/api/regions.h"

namespace gspmd {

using namespace detail;

ShardSpecs::ShardSpecs(Unsplit) : kind_(Kind::unsplit) {}
ShardSpecs::ShardSpecs(const char* axis) : kind_(Kind::axis), axis_(AxisRef(axis).name) {}
ShardSpecs::ShardSpecs(const std::string& axis) : kind_(Kind::axis), axis_(axis) {}
ShardSpecs::ShardSpecs(std::initializer_list<ShardSpecs> parts) : parts_(std::vector(parts)) {}
ShardSpecs::ShardSpecs(const ShardSpecs& other) = default;
ShardSpecs::ShardSpecs(ShardSpecs&& other) noexcept = default;
ShardSpecs& ShardSpecs::operator=(const ShardSpecs& other) = default;
ShardSpecs& ShardSpecs::operator=(ShardSpecs&& other) noexcept = default;
ShardSpecs::~ShardSpecs() = default;

AxisNames::AxisNames(const char* axis) : names_({AxisRef(axis).name}) {}
AxisNames::AxisNames(const std::string& axis) : names_({axis}) {}
AxisNames::AxisNames(std::initializer_list<const char*> axes) {
  for (const char* axis : axes) names_.push_back(AxisRef(axis).name);
}
AxisNames::AxisNames(const std::vector<std::string>& axes) : names_(axes) {}

namespace {

bool is_number(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

// {"data", {"x", "y"}, _} is one layout; {{"data"}, {}} are two.
bool ShardSpecs::is_list_of_layouts() const {
  return kind_ == Kind::list && !parts_.empty() &&
         std::none_of(parts_.begin(), parts_.end(), [](const ShardSpecs& part) {
           return part.kind_ == Kind::unsplit || part.kind_ == Kind::axis;
         });
}

int64_t ShardSpecs::parts() const { return is_list_of_layouts() ? std::ssize(parts_) : -1; }

std::vector<DimSplit> ShardSpecs::layout(const std::string& what) const {
  if (kind_ != Kind::list)
    call_error("the layout of {} is no list; give one entry per dim, as in {{\"{}\", _}}", what,
               kind_ == Kind::axis ? axis_ : "data");
  std::vector<DimSplit> dims;
  for (const ShardSpecs& part : parts_) {
    if (part.kind_ == Kind::unsplit) {
      dims.emplace_back(_);
      continue;
    }
    std::vector<AxisRef> axes;
    if (part.kind_ == Kind::axis) axes.emplace_back(part.axis_);
    for (const ShardSpecs& axis : part.parts_) {
      if (axis.kind_ != Kind::axis)
        call_error("dim {} of the layout of {} lists something else than axes; give their names",
                   dims.size(), what);
      axes.emplace_back(axis.axis_);
    }
    dims.emplace_back(std::move(axes));
  }
  return dims;
}

std::vector<DimSplit> ShardSpecs::at(const std::string& path, const std::string& what) const {
  if (kind_ == Kind::tree) {
    for (const auto& [leaf, dims] : leaves_)
      if (leaf == path || leaf.empty()) return dims.dims();
    call_error("there is no layout for {}; give a tree of SplitDims of its structure", what);
  }
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string part = path.substr(0, dot);
  if (!is_number(part) || !is_list_of_layouts()) return layout(what);
  if (std::stoull(part) >= parts_.size())
    call_error("there is no layout for {}; {} are given", what, parts_.size());
  return parts_[std::stoull(part)].at(dot < path.size() ? path.substr(dot + 1) : "", what);
}

namespace detail {

bool ManualRegion::is_manual(const std::string& axis) const {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Sharding ManualRegion::inside(std::vector<Digits> dims) const {
  return tile_count(digits) == mesh.num_devices()
             ? Sharding::manual()
             : Sharding::tiled(mesh.order(), std::move(dims), digits);
}

namespace {

std::string describe_leaf(const char* kind, const std::string& path, const Node* node) {
  return path.empty() ? fmt::format("the {} ({})", kind, describe(node))
                      : fmt::format("{} {} ({})", kind, path, describe(node));
}

// A layout at the border of a region.
struct Border {
  SplitDims dims;       // an entry for each dim; what is automatic is open
  Dims parts;           // per dim, how many pieces the manual axes make
  AxisSet manual_axes;  // that cut it
};

}  // namespace

struct ShardMapTrace::Impl {
  Site site;
  ManualRegion region;
  ShardSpecs out{};
  ShardMapOptions options;
  std::optional<OpenBody> body;
  std::shared_ptr<TraceState> trace;
  std::vector<Node*> arguments;
  std::vector<Border> borders;  // of the arguments
  std::vector<Tensor> shards;

  ~Impl() { leave(); }
  void leave() {
    if (trace && trace->region == &region) trace->region = nullptr;
  }

  bool has_automatic_axes() const { return tile_count(region.digits) < region.mesh.num_devices(); }

  const std::string& axis_name(const AxisRef& axis, size_t dim, const std::string& what) const {
    const std::vector<MeshAxis>& all = region.mesh.axes();
    if (axis.is_number && axis.number >= 0 && axis.number < std::ssize(all))
      return all[static_cast<size_t>(axis.number)].name;
    if (!axis.is_number && region.mesh.has(axis.name))
      return all[static_cast<size_t>(region.mesh.index(axis.name))].name;
    call_error("axis {} for dim {} of {} is not in the mesh, {}; use one of its axes or _",
               axis.is_number ? fmt::format("{}", axis.number) : "\"" + axis.name + "\"", dim, what,
               to_string(region.mesh));
  }

  Border border(std::vector<DimSplit> layout, int64_t rank, const std::string& what) const {
    if (std::ssize(layout) > rank)
      call_error("the layout of {} has {} entries, for rank {}; give one per dim or fewer", what,
                 layout.size(), rank);
    layout.resize(static_cast<size_t>(rank), _);
    Border border{{}, Dims(layout.size(), 1), 0};
    std::vector<DimSplit> dims;
    for (size_t d = 0; d < layout.size(); ++d) {
      std::vector<AxisRef> axes;
      for (const AxisRef& given : layout[d].axes()) {
        if (given.is_open) continue;
        const std::string& axis = axis_name(given, d, what);
        axes.emplace_back(axis);
        const auto at = std::find(region.axes.begin(), region.axes.end(), axis);
        if (at == region.axes.end()) continue;
        border.parts[d] *= region.mesh.size(axis);
        border.manual_axes |= AxisSet(1) << (at - region.axes.begin());
      }
      if (has_automatic_axes()) axes.emplace_back(open_dim);
      dims.emplace_back(std::move(axes));
    }
    border.dims = SplitDims(std::move(dims));
    return border;
  }

  void add_argument(const std::string& path, Node* node, const ShardSpecs& in) {
    const std::string what = describe_leaf("argument", path, node);
    Border cut = border(in.at(path, what), node->rank(), what);
    Shape shard = node->shape;
    for (size_t d = 0; d < shard.dims.size(); ++d) {
      if (shard.dims[d] % cut.parts[d] != 0)
        call_error(
            "dim {} of {} has {} elements, which do not divide by the {} devices along its manual "
            "axes; pad it, or leave the dim whole",
            d, what, shard.dims[d], cut.parts[d]);
      shard.dims[d] /= cut.parts[d];
    }
    arguments.push_back(node);
    borders.push_back(std::move(cut));
    shards.push_back(body->parameter(shard, "argument" + path));
  }

  std::vector<Border> result_borders(const PathLeaves& results) const {
    std::vector<Border> all;
    for (size_t i = 0; i < results.size(); ++i) {
      const Node* node = body->results()[i];
      const std::string what = describe_leaf("result", results[i].first, node);
      all.push_back(border(out.at(results[i].first, what), node->rank(), what));
    }
    return all;
  }

  void check_varying(const PathLeaves& results, const std::vector<Border>& outside) const {
    std::vector<AxisSet> parameters;
    for (const Border& cut : borders) parameters.push_back(cut.manual_axes);
    parameters.resize(parameters.size() + body->outer().size(), 0);
    const std::vector<AxisSet> found = varying_results(body->computation(), region, parameters);
    for (size_t i = 0; i < found.size() && options.check_vma; ++i) {
      const AxisSet lost = found[i] & ~outside[i].manual_axes;
      for (size_t a = 0; a < region.axes.size(); ++a)
        if ((lost >> a & 1) != 0 && region.mesh.size(region.axes[a]) > 1)
          call_error(
              "{} may differ along manual axis \"{}\", over which out_specs does not cut it; name "
              "the axis there, or make it the same on all devices with psum, pmean, pmax or "
              "all_gather; if it is the same already, say {{.check_vma = false}}",
              describe_leaf("result", results[i].first, body->results()[i]), region.axes[a]);
    }
  }

  Tensor enter(Node* node, const SplitDims& dims) const {
    return auto_to_manual(Operand(tensor_of(node), site), region.mesh, dims, region.axes);
  }
};

ShardMapTrace::ShardMapTrace(const PathLeaves& arguments, size_t count, const Mesh& mesh,
                             const Layouts& layouts, const std::vector<std::string>& axes,
                             const ShardMapOptions& options, Site site)
    : impl_(make_owned<Impl>()) {
  call("shard_map", site, [&] {
    impl_->site = site;
    impl_->region.mesh = mesh;
    impl_->out = layouts.out;
    impl_->options = options;
    TraceState& trace = trace_of_call();
    ManualRegion& region = impl_->region;
    if (trace.region != nullptr)
      call_error(
          "called in the function given to another shard_map; give all manual axes to one of them");
    for (const std::string& axis : axes)
      if (!mesh.has(axis))
        call_error("manual axis \"{}\" is not in the mesh, {}; use its axes", axis,
                   to_string(mesh));
    for (const MeshAxis& axis : mesh.axes()) {
      if (!axes.empty() && std::find(axes.begin(), axes.end(), axis.name) == axes.end()) continue;
      region.axes.push_back(axis.name);
      if (axis.size > 1) region.digits.push_back(mesh.digit(mesh.index(axis.name)));
    }
    if (region.axes.size() > 63) call_error("{} axes are manual; 63 can be", region.axes.size());
    if (layouts.in.parts() >= 0 && layouts.in.parts() != static_cast<int64_t>(count))
      call_error("in_specs has {} layouts for {} arguments; give one for each", layouts.in.parts(),
                 count);
    std::vector<Node*> nodes;
    for (const auto& [path, tensor] : arguments) {
      if (!TensorAccess::trace(tensor))
        call_error("argument {} has no value; assign it before the call", path);
      nodes.push_back(node_of(tensor));
    }
    impl_->body.emplace("shard_map", site);
    for (size_t i = 0; i < nodes.size(); ++i)
      impl_->add_argument(arguments[i].first, nodes[i], layouts.in);
    impl_->trace = current_trace();
    trace.region = &region;
  });
}

ShardMapTrace::~ShardMapTrace() = default;

const std::vector<Tensor>& ShardMapTrace::shards() const { return impl_->shards; }

std::vector<Tensor> ShardMapTrace::finish(const PathLeaves& results) {
  return call("shard_map", impl_->site, [&] {
    std::vector<Tensor> inside;
    for (const auto& [path, tensor] : results) {
      if (!TensorAccess::trace(tensor))
        call_error("the function returns leaf \"{}\" without a value; assign it there", path);
      inside.push_back(tensor);
    }
    impl_->body->close(inside);
    impl_->leave();
    const std::vector<Border> outside = impl_->result_borders(results);
    impl_->check_varying(results, outside);
    std::vector<Node*> entered;
    for (size_t i = 0; i < impl_->arguments.size(); ++i)
      entered.push_back(
          TensorAccess::node(impl_->enter(impl_->arguments[i], impl_->borders[i].dims)));
    for (Node* outer : impl_->body->outer())
      entered.push_back(
          TensorAccess::node(impl_->enter(outer, impl_->border({}, outer->rank(), "").dims)));
    const std::vector<Node*> made = impl_->body->inline_into(trace_of_call().here(), entered);
    std::vector<Tensor> left;
    for (size_t i = 0; i < made.size(); ++i)
      left.push_back(manual_to_auto(Operand(tensor_of(made[i]), impl_->site), impl_->region.mesh,
                                    outside[i].dims, impl_->region.axes));
    return left;
  });
}

}  // namespace detail
}  // namespace gspmd
