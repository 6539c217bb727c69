#include "gspmd/api/indexing.h"

#include <algorithm>

#include "api/emit.h"
#include "gspmd/api/elementwise.h"
#include "gspmd/api/shaping.h"

namespace gspmd {

using namespace detail;

At::At(Operand x, std::vector<Index> indices) : x_(std::move(x)), indices_(std::move(indices)) {}

namespace {

// The elements of one dim that a range takes, from the least on.
struct Run {
  int64_t first = 0, count = 0, step = 1;
  bool backwards = false;
  int64_t end() const { return count == 0 ? first : first + (count - 1) * step + 1; }
  bool whole(int64_t size) const { return first == 0 && count == size && step == 1; }
};

// As Python's slice.indices().
Run run_of(const Range& range, int64_t size) {
  if (range.step == 0) call_error("a range has step 0; give another step");
  const bool backwards = range.step < 0;
  const auto place = [&](std::optional<int64_t> given, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t at = *given < 0 ? *given + size : *given;
    return std::clamp<int64_t>(at, backwards ? -1 : 0, backwards ? size - 1 : size);
  };
  const int64_t start = place(range.start, backwards ? size - 1 : 0);
  const int64_t stop = place(range.stop, backwards ? -1 : size);
  const int64_t step = backwards ? -range.step : range.step;
  Run run;
  run.count = std::max<int64_t>(
      ceil_div(std::max<int64_t>(backwards ? start - stop : stop - start, 0), step), 0);
  run.step = run.count > 1 ? step : 1;
  run.backwards = backwards && run.count > 1;
  run.first = run.count == 0 ? 0 : backwards ? start - (run.count - 1) * step : start;
  return run;
}

// The indices of x taken apart: first ranges, of x with the new dims, then numbers or places.
struct Plan {
  Dims dims;              // of x, with a 1 for each newaxis
  std::vector<Run> runs;  // of each of these
  Dims dropped;           // by numbers, where there are no places
  Dims indexed;           // by places, and by numbers beside them
  std::vector<Operand> places;
  bool apart = false;  // something stands between two of those

  Dims region() const {
    Dims sizes;
    for (const Run& run : runs) sizes.push_back(run.count);
    return sizes;
  }
  bool whole() const {
    for (size_t i = 0; i < dims.size(); ++i)
      if (!runs[i].whole(dims[i])) return false;
    return true;
  }
  Dims backwards() const {
    Dims list;
    for (size_t i = 0; i < runs.size(); ++i)
      if (runs[i].backwards) list.push_back(static_cast<int64_t>(i));
    return list;
  }
};

int64_t checked_number(int64_t number, int64_t dim, const Node* x) {
  const int64_t size = x->dim(dim);
  if (number < -size || number >= size)
    call_error("index {} is outside dim {} of {}, which has size {}; give {} to {}", number, dim,
               describe(x), size, -size, size - 1);
  return number < 0 ? number + size : number;
}

class Planner {
 public:
  Planner(const Node* x, const std::vector<Index>& indices) : x_(x) {
    int64_t used = 0, ellipses = 0;
    for (const Index& index : indices) {
      used += index.kind() != Index::Kind::new_axis && index.kind() != Index::Kind::dots;
      ellipses += index.kind() == Index::Kind::dots;
      advanced_ |= index.kind() == Index::Kind::places;
    }
    if (ellipses > 1) call_error("there are {} ellipses; write one", ellipses);
    if (used > x->rank())
      call_error("{} indices for {}, which has rank {}; give at most one per dim", used,
                 describe(x), x->rank());
    for (const Index& index : indices) {
      if (index.kind() == Index::Kind::dots)
        fill(x->rank() - used);
      else
        add(index);
    }
    if (ellipses == 0) fill(x->rank() - used);
    for (size_t i = 1; i < plan.indexed.size(); ++i)
      plan.apart |= plan.indexed[i] != plan.indexed[i - 1] + 1;
  }

  Plan plan;

 private:
  void fill(int64_t count) {
    for (; count > 0; --count) append(x_->dim(dim_), {0, x_->dim(dim_)}, true);
  }
  void append(int64_t size, Run run, bool consumes) {
    plan.dims.push_back(size);
    plan.runs.push_back(run);
    dim_ += consumes;
  }
  void add(const Index& index) {
    const auto at = static_cast<int64_t>(plan.dims.size());
    if (index.kind() == Index::Kind::new_axis) return append(1, {0, 1}, false);
    const int64_t size = x_->dim(dim_);
    if (index.kind() == Index::Kind::range) return append(size, run_of(index.range(), size), true);
    if (index.kind() == Index::Kind::number && !advanced_) {
      plan.dropped.push_back(at);
      return append(size, {checked_number(index.number(), dim_, x_), 1}, true);
    }
    if (index.kind() == Index::Kind::number)
      plan.places.emplace_back(checked_number(index.number(), dim_, x_), index.site());
    else
      plan.places.push_back(index.places());
    plan.indexed.push_back(at);
    append(size, {0, size}, true);
  }

  const Node* x_;
  bool advanced_ = false;
  int64_t dim_ = 0;
};

Node* reshaped(Node* x, const Dims& dims) { return x->dims() == dims ? x : hlo::reshape(x, dims); }

// The part of x that the ranges and numbers name, with the dims that numbers drop.
Node* region_of(Node* x, const Plan& plan) {
  x = reshaped(x, plan.dims);
  if (plan.whole() && plan.backwards().empty()) return x;
  Dims starts, limits, strides;
  for (const Run& run : plan.runs) {
    starts.push_back(run.first);
    limits.push_back(run.end());
    strides.push_back(run.step);
  }
  if (!plan.whole()) x = hlo::slice(x, starts, limits, strides);
  return reverse_node(x, plan.backwards());
}

Dims without(Dims dims, const Dims& dropped) {
  for (size_t i = dropped.size(); i-- > 0;) dims.erase(dims.begin() + dropped[i]);
  return dims;
}

// Signed places count from the end where negative.
Node* from_the_end(Node* places, int64_t size) {
  if (is_unsigned_integer(places->shape.dtype)) return places;
  return hlo::select(compare(places, 0, Direction::lt), add(places, static_cast<double>(size)),
                     places);
}

Node* integer_places(const Operand& places) {
  Node* node = node_of(places, DType::s32);
  if (node->shape.dtype == DType::pred)
    call_error("{} is a mask: how many elements it takes is not known when tracing; use where()",
               describe(node));
  need_integer(node, "indices");
  // Wide enough for the sizes that are added to them.
  return dtype_size(node->shape.dtype) < 4 ? hlo::convert(node, DType::s32) : node;
}

// Where the places point: rows of coordinates in the indexed dims, as gather and scatter take them.
struct Coordinates {
  Node* rows;    // [batch..., number of indexed dims]
  Dims batch;    // what the places broadcast to
  Dims windows;  // dims of the result that are not of the batch
};

Coordinates coordinates_of(const Plan& plan) {
  std::vector<Node*> parts;
  for (const Operand& places : plan.places) parts.push_back(integer_places(places));
  const DType dtype = parts[0]->shape.dtype;
  const bool alike = std::all_of(parts.begin(), parts.end(),
                                 [&](const Node* n) { return n->shape.dtype == dtype; });
  Node* widest = parts[0];
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!alike) parts[i] = hlo::convert(parts[i], DType::s64);
    parts[i] = from_the_end(parts[i], plan.dims[static_cast<size_t>(plan.indexed[i])]);
    widest = broadcast_node(parts[i], broadcast_dims(parts[i], widest));
  }
  Coordinates result;
  result.batch = widest->dims();
  Dims column = result.batch;
  column.push_back(1);
  for (Node*& part : parts) part = hlo::reshape(broadcast_node(part, result.batch), column);
  const auto batch_rank = static_cast<int64_t>(result.batch.size());
  result.rows = parts.size() == 1 ? parts[0] : hlo::concatenate(parts, batch_rank);
  const int64_t lead = plan.apart ? 0 : plan.indexed[0];
  const int64_t kept = std::ssize(plan.dims) - std::ssize(plan.indexed);
  for (int64_t i = 0; i < kept; ++i) result.windows.push_back(i < lead ? i : i + batch_rank);
  return result;
}

Node* gathered(Node* region, const Plan& plan) {
  const Coordinates at = coordinates_of(plan);
  GatherDims dims;
  dims.offset_dims = at.windows;
  dims.collapsed_slice_dims = dims.start_index_map = plan.indexed;
  dims.index_vector_dim = std::ssize(at.batch);
  Dims sizes = region->dims();
  for (const int64_t d : plan.indexed) {
    if (region->dim(d) == 0)
      call_error("dim {} of {} has no elements to be indexed", d, describe(region));
    sizes[static_cast<size_t>(d)] = 1;
  }
  return hlo::gather(region, at.rows, dims, sizes);
}

Node* read(Node* x, const Plan& plan) {
  Node* region = region_of(x, plan);
  if (!plan.indexed.empty()) return gathered(region, plan);
  return reshaped(region, without(region->dims(), plan.dropped));
}

Plan plan_of(const Node* x, const std::vector<Index>& indices) { return Planner(x, indices).plan; }

// Which elements the ranges take.
Node* mask_of(const Node* x, const Plan& plan) {
  Node* mask = nullptr;
  const auto both = [&](Node* condition) {
    mask = mask ? hlo::binary(Opcode::and_, mask, condition) : condition;
  };
  for (size_t i = 0; i < plan.dims.size(); ++i) {
    const Run& run = plan.runs[i];
    if (run.whole(plan.dims[i])) continue;
    Node* at = iota_like(x, static_cast<int64_t>(i));
    const auto first = static_cast<double>(run.first);
    if (run.first > 0) both(compare(at, first, Direction::ge));
    if (run.end() < plan.dims[i]) both(compare(at, static_cast<double>(run.end()), Direction::lt));
    if (run.step > 1) {
      Node* rest = hlo::remainder(add(at, -first), splat_like(at, static_cast<double>(run.step)));
      both(compare(rest, 0, Direction::eq));
    }
  }
  return mask;
}

// x with `part` where its region is.
Node* with_region(Node* x, Node* part, const Plan& plan) {
  part = reverse_node(part, plan.backwards());
  if (plan.whole()) return part;
  std::vector<PaddingDim> padding;
  for (size_t i = 0; i < plan.dims.size(); ++i)
    padding.push_back(
        {plan.runs[i].first, plan.dims[i] - plan.runs[i].end(), plan.runs[i].step - 1});
  Node* spread = hlo::pad(part, hlo::scalar(x->parent(), x->shape.dtype, 0), std::move(padding));
  return hlo::select(mask_of(x, plan), spread, x);
}

// nullopt: the new value takes the old one's place.
using Join = std::optional<Opcode>;

Computation* join_computation(Module& module, Join join, DType dtype) {
  if (join) return binary_computation(module, *join, dtype);
  Computation* c = module.add_computation("second");
  hlo::parameter(*c, 0, Shape(dtype, {}), "old");
  c->set_root(hlo::parameter(*c, 1, Shape(dtype, {}), "new"));
  return c;
}

Node* scattered(Node* region, Node* value, const Plan& plan, Join join) {
  const Coordinates at = coordinates_of(plan);
  ScatterDims dims;
  dims.update_window_dims = at.windows;
  dims.inserted_window_dims = dims.scatter_dims_to_operand_dims = plan.indexed;
  dims.index_vector_dim = std::ssize(at.batch);
  Dims sizes(at.windows.size() + at.batch.size(), 0);
  const Dims kept = without(region->dims(), plan.indexed);
  for (size_t i = 0; i < kept.size(); ++i) sizes[static_cast<size_t>(at.windows[i])] = kept[i];
  size_t next = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (std::find(at.windows.begin(), at.windows.end(), static_cast<int64_t>(i)) ==
        at.windows.end())
      sizes[i] = at.batch[next++];
  Computation* combiner = join_computation(region->parent().module(), join, region->shape.dtype);
  return hlo::scatter(region, at.rows, node_of(broadcast_to(tensor_of(value), sizes)), dims,
                      combiner);
}

Tensor written(const char* op, Needs needs, Join join, const Operand& target, const Operand& value,
               const std::vector<Index>& indices) {
  return call(op, target.site(), [&] {
    Node* x = node_of(target);
    check_needs(x, needs);
    Node* v = node_of(value, x->shape.dtype);
    if (v->shape.dtype != x->shape.dtype)
      call_error("dtypes of {} and the value {} differ; convert(x, DType::{}) the value",
                 describe(x), describe(v), dtype_name(x->shape.dtype));
    const Plan plan = plan_of(x, indices);
    const Dims region_dims = plan.region();
    if (std::find(region_dims.begin(), region_dims.end(), 0) != region_dims.end())
      return tensor_of(x);
    Node* region = region_of(x, plan);
    if (!plan.indexed.empty()) {
      region = scattered(region, v, plan, join);
    } else {
      const Dims part = without(region->dims(), plan.dropped);
      v = reshaped(node_of(broadcast_to(tensor_of(v), part)), region->dims());
      region = join ? hlo::binary(*join, region, v) : v;
    }
    Node* whole = with_region(reshaped(x, plan.dims), region, plan);
    return tensor_of(reshaped(whole, x->dims()));
  });
}

}  // namespace

Tensor detail::indexed(const Tensor& x, std::vector<Index> indices, Site site) {
  return call("index", site, [&] {
    Node* node = node_of(x);
    return tensor_of(read(node, plan_of(node, indices)));
  });
}

Tensor At::get() const {
  return call("at.get", x_.site(), [&] {
    Node* node = node_of(x_);
    return tensor_of(read(node, plan_of(node, indices_)));
  });
}
Tensor At::set(Operand value) const {
  return written("at.set", Needs::any, std::nullopt, x_, value, indices_);
}
Tensor At::add(Operand value) const {
  return written("at.add", Needs::number, Opcode::add, x_, value, indices_);
}
Tensor At::multiply(Operand value) const {
  return written("at.multiply", Needs::number, Opcode::multiply, x_, value, indices_);
}
Tensor At::min(Operand value) const {
  return written("at.min", Needs::real, Opcode::minimum, x_, value, indices_);
}
Tensor At::max(Operand value) const {
  return written("at.max", Needs::real, Opcode::maximum, x_, value, indices_);
}
Tensor At::subtract(Operand value) const {
  return call("at.subtract", x_.site(), [&] {
    Node* v = node_of(value, node_of(x_)->shape.dtype);
    check_needs(v, Needs::number);
    return add(tensor_of(hlo::unary(Opcode::negate, v)));
  });
}
// By the product of the divisors of each element.
Tensor At::divide(Operand value) const {
  return call("at.divide", x_.site(), [&] {
    Node* x = node_of(x_);
    check_needs(x, Needs::analytic);
    return x_ / At(tensor_of(splat_like(x, 1)), indices_).multiply(value);
  });
}

Tensor take(Operand x, Operand indices, const TakeOptions& options) {
  return call("take", x.site(), [&] {
    Node* table = node_of(x);
    Node* which = node_of(indices, DType::s32);
    if (table->rank() < 1) call_error("the table {} has no dim to index", describe(table));
    need_integer(which, "indices");
    const int64_t axis = checked_axis(options.axis, table);
    GatherDims dims;
    for (int64_t i = 0; i < table->rank() - 1; ++i)
      dims.offset_dims.push_back(i < axis ? i : which->rank() + i);
    dims.collapsed_slice_dims = {axis};
    dims.start_index_map = {axis};
    dims.index_vector_dim = which->rank();
    Dims sizes = table->dims();
    sizes[static_cast<size_t>(axis)] = 1;
    if (table->dim(axis) < 1)
      call_error("the table {} has no {}", describe(table),
                 axis == 0 ? "rows" : "elements along the axis");
    return tensor_of(hlo::gather(table, which, dims, sizes));
  });
}

Tensor take_along_axis(Operand x, Operand indices, int64_t axis) {
  return call("take_along_axis", x.site(), [&] {
    Node* node = node_of(x);
    Node* places = integer_places(indices);
    if (places->rank() != node->rank())
      call_error(
          "indices {} and {} differ in rank; give as many dims, of size 1 where they are "
          "for all",
          describe(places), describe(node));
    const int64_t at = checked_axis(axis, node);
    if (node->dim(at) == 0)
      call_error("axis {} of {} has no elements to be indexed", at, describe(node));
    Dims from = node->dims(), to = places->dims();
    GatherDims dims;
    for (int64_t i = 0; i < node->rank(); ++i) {
      if (i == at) continue;
      const auto d = static_cast<size_t>(i);
      if (from[d] != to[d] && from[d] != 1 && to[d] != 1)
        call_error("dim {} is {} in {} and {} in the indices {}; sizes must be equal or 1", i,
                   from[d], describe(node), to[d], describe(places));
      from[d] = to[d] = from[d] == 1 ? to[d] : from[d];
      dims.operand_batching_dims.push_back(i);
    }
    dims.start_indices_batching_dims = dims.operand_batching_dims;
    dims.collapsed_slice_dims = dims.start_index_map = {at};
    dims.index_vector_dim = node->rank();
    places = from_the_end(broadcast_node(places, to), node->dim(at));
    return tensor_of(hlo::gather(broadcast_node(node, from), places, dims, Dims(from.size(), 1)));
  });
}

namespace {

std::vector<Node*> starts_of(const std::vector<Operand>& starts, const Node* x) {
  if (std::ssize(starts) != x->rank())
    call_error("{} starts for {}, which has rank {}; give one per dim", starts.size(), describe(x),
               x->rank());
  std::vector<Node*> nodes;
  for (const Operand& start : starts) {
    Node* node = node_of(start, DType::s32);
    need_integer(node, "starts");
    if (node->rank() != 0)
      call_error("the start {} has dims; give one integer per dim", describe(node));
    nodes.push_back(node);
  }
  const bool alike = std::all_of(nodes.begin(), nodes.end(), [&](const Node* n) {
    return n->shape.dtype == nodes[0]->shape.dtype;
  });
  if (!alike)
    for (Node*& node : nodes)
      if (node->shape.dtype != DType::s32) node = hlo::convert(node, DType::s32);
  return nodes;
}

void check_part(const Node* x, const Dims& sizes) {
  if (std::ssize(sizes) != x->rank())
    call_error("a part of {} dims of {}, which has rank {}; give one size per dim", sizes.size(),
               describe(x), x->rank());
  for (int64_t i = 0; i < x->rank(); ++i)
    if (sizes[static_cast<size_t>(i)] < 0 || sizes[static_cast<size_t>(i)] > x->dim(i))
      call_error("dim {} of {}: a part of size {} does not fit; give 0 to {}", i, describe(x),
                 sizes[static_cast<size_t>(i)], x->dim(i));
}

}  // namespace

Tensor dynamic_slice(Operand x, std::vector<Operand> starts, Dims sizes) {
  return call("dynamic_slice", x.site(), [&] {
    Node* node = node_of(x);
    check_part(node, sizes);
    if (node->rank() == 0) return tensor_of(node);
    return tensor_of(hlo::dynamic_slice(node, starts_of(starts, node), sizes));
  });
}

Tensor dynamic_update_slice(Operand x, Operand update, std::vector<Operand> starts) {
  return call("dynamic_update_slice", x.site(), [&] {
    const auto [node, part] = nodes_of(x, update);
    check_part(node, part->dims());
    if (node->rank() == 0) return tensor_of(part);
    return tensor_of(hlo::dynamic_update_slice(node, part, starts_of(starts, node)));
  });
}

}  // namespace gspmd
