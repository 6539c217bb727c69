//! # 7. Ways to split a layer
//!
//! Data parallel, tensor parallel, fully sharded, two-dimensional: in other systems these are
//! different libraries. Here they are the same function with other annotations. This lesson writes
//! one feed-forward layer, splits it in four ways, and compares what each device stores and sends.
//! Nothing is run: compiling needs shapes only, so the sizes can be those of a large model.

#include "gspmd/gspmd.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"x", 4}, {"y", 4}};
constexpr int64_t kBatch = 8192, kModel = 4096, kHidden = 16384;

//! ## One layer
//!
//! The model names no axis. A `Layout` says which axes cut which dim; an empty list is "not cut".
//! Weights have lists of their own: they are *stored* in one layout, and completion decides how
//! they are *used*.

using AxisList = std::vector<std::string>;

struct Layout {
  AxisList batch = {}, model = {}, hidden = {};    // of activations b,m and b,h
  AxisList weight_model = {}, weight_hidden = {};  // of the weights m,h and h,m
};

template <class T>
struct Ffn {
  T w_in, w_out;
  GSPMD_FIELDS(w_in, w_out)
};

auto loss(const Layout& l) {
  return [l](Ffn<Tensor> p, Tensor x) {
    x = mesh_split(x, mesh, {l.batch, l.model});
    const Tensor w_in = mesh_split(p.w_in, mesh, {l.weight_model, l.weight_hidden});
    const Tensor w_out = mesh_split(p.w_out, mesh, {l.weight_hidden, l.weight_model});
    Tensor hidden = mesh_split(gelu(einsum("bm,mh->bh", x, w_in)), mesh, {l.batch, l.hidden});
    const Tensor y = mesh_split(einsum("bh,hm->bm", hidden, w_out), mesh, {l.batch, l.model});
    return mean(square(x + y));
  };
}

//! The step is a plain descent. Gradients get the layout of their weights from the update.

auto compiled(const Layout& layout) {
  const auto step = [layout](Ffn<Tensor> p, Tensor x) {
    auto [value, grads] = value_and_grad(loss(layout))(p, x);
    return std::tuple{map_leaves([](Tensor w, Tensor g) { return w - 1e-3 * g; }, p, grads), value};
  };
  const Ffn<Shape> params{Shape(DType::f32, {kModel, kHidden}),
                          Shape(DType::f32, {kHidden, kModel})};
  const CompileOptions options{.mesh = mesh, .donate = {0}, .prepare = false};
  return compile(step, options, params, Shape(DType::f32, {kBatch, kModel}));
}

//! `report` prints the parameters that a device stores and, for each kind of collective and axis,
//! what it sends.

constexpr int64_t kMiB = 1 << 20;

int64_t weight_bytes(const ExecutableBase& step) {
  return local_shape(Shape(DType::f32, {kModel, kHidden}), step.parameter_sharding(0)).bytes() * 2;
}

void report(const std::string& name, const ExecutableBase& step) {
  std::map<std::string, int64_t> sent;
  for (const CollectiveStats& c : step.stats().collectives)
    sent[fmt::format("{} over {}", c.kind, c.axes)] += c.bytes;
  std::string text = fmt::format("{}: weights {} MiB, sends {} MiB", name,
                                 weight_bytes(step) / kMiB, step.stats().collective_bytes / kMiB);
  for (const auto& [what, bytes] : sent) {
    if (bytes < kMiB) continue;  // the loss itself, one number
    text += fmt::format("\n  {:<28} {:>5} MiB", what, bytes / kMiB);
  }
  show(text);
}

int64_t sent_as(const ExecutableBase& step, const std::string& kind) {
  int64_t bytes = 0;
  for (const CollectiveStats& c : step.stats().collectives)
    if (c.kind == kind) bytes += c.bytes;
  return bytes;
}

//! ## Data parallel
//!
//! Every device has all weights and a sixteenth of the batch. The only communication is the sum of
//! the gradients, whose size is that of the weights and does not depend on the batch.

const AxisList kAll = {"x", "y"};
constexpr int64_t kWeights = 2 * kModel * kHidden * 4;

void data_parallel() {
  const auto step = compiled({.batch = kAll});
  report("data parallel", step);
  CHECK(weight_bytes(step) == kWeights);
  CHECK(sent_as(step, "all-reduce") >= 2 * kWeights * 15 / 16);
  CHECK(sent_as(step, "all-reduce") == step.stats().collective_bytes);
}

//! ## Tensor parallel
//!
//! Every device has a sixteenth of the weights and the whole batch; the hidden dim is cut. Partial
//! sums of activations are added up, here once, and in a stack of layers once more backward: what
//! is sent grows with the batch and not with the weights. (Megatron's layer.)

void tensor_parallel() {
  const auto step = compiled({.hidden = kAll, .weight_hidden = kAll});
  report("tensor parallel", step);
  CHECK(weight_bytes(step) == kWeights / 16);
  const int64_t activations = kBatch * kModel * 4;
  CHECK(sent_as(step, "all-reduce") >= 2 * activations * 15 / 16);
}

//! ## Fully sharded
//!
//! Weights are stored in sixteenths as above, but the batch is what cuts the computation. So each
//! weight is gathered before it is used and forgotten after, and gradients are scattered as they
//! are summed. (ZeRO, FSDP.) The bytes are those of data parallelism and one gather more, because
//! the backward pass needs a weight again; the memory is that of tensor parallelism.

void fully_sharded() {
  const auto step = compiled({.batch = kAll, .weight_model = kAll});
  report("fully sharded", step);
  CHECK(weight_bytes(step) == kWeights / 16);
  CHECK(sent_as(step, "all-gather") > 0);
  CHECK(sent_as(step, "reduce-scatter") >= kWeights * 15 / 16);
}

//! ## Two-dimensional
//!
//! Both at once: the batch over `x`, the hidden dim over `y`, weights stored over both. Groups are
//! of four devices instead of sixteen. This is the layout of GSPMD's dense models.

void two_dimensional() {
  const auto step = compiled({.batch = {"x"},
                              .model = {"y"},
                              .hidden = {"y"},
                              .weight_model = {"x"},
                              .weight_hidden = {"y"}});
  report("two-dimensional", step);
  CHECK(weight_bytes(step) == kWeights / 16);
}

//! ## Which one?
//!
//! The numbers say it for your sizes. With few devices and a large batch, data parallel sends
//! little for what it computes; when weights do not fit, fully sharded sends a quarter more here,
//! and a half more in a stack of layers; with many devices and large weights, two dimensions send
//! the least.

void which_one() {
  const auto bytes = [](const Layout& l) { return compiled(l).stats().collective_bytes; };
  const int64_t data = bytes({.batch = kAll});
  const int64_t sharded = bytes({.batch = kAll, .weight_model = kAll});
  const int64_t two = bytes({.batch = {"x"},
                             .model = {"y"},
                             .hidden = {"y"},
                             .weight_model = {"x"},
                             .weight_hidden = {"y"}});
  CHECK(4 * (sharded / kMiB) == 5 * (data / kMiB));
  CHECK(two < data);
}

//! `models/transformer.h` is a whole model written like this, with six layouts in
//! `models/layout.h`, and `examples/train_transformer` trains it.

int main() {
  data_parallel();
  tensor_parallel();
  fully_sharded();
  two_dimensional();
  which_one();
}
