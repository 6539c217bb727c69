//! # 4. Reading the partitioned program
//!
//! After completion, the *partitioner* writes one program that every device runs on its own shards
//! (SPMD: single program, multiple data). Shapes in it are those of a shard, and *collectives* move
//! data between devices. This lesson reads such programs and counts what they send, because
//! communication is what a sharding costs.

#include "gspmd/gspmd.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/explain.h"
#include "lesson.h"

using namespace gspmd;

const Mesh mesh{{"data", 2}, {"model", 4}};
const Shape kX(DType::f32, {8, 16}), kIn(DType::f32, {16, 32}), kOut(DType::f32, {32, 16});

//! ## One program, local shapes
//!
//! The two products of the last lesson, with the layout of the result as a parameter.

auto ffn(const SplitDims& result) {
  return [=](Tensor x, Tensor w_in, Tensor w_out) {
    x = mesh_split(x, mesh, {"data", _});
    w_in = mesh_split(w_in, mesh, {_, "model"});
    w_out = mesh_split(w_out, mesh, {"model", _});
    const Tensor hidden = named(einsum("bm,mh->bh", x, w_in), "hidden");
    return mesh_split(named(einsum("bh,hm->bm", hidden, w_out), "result"), mesh, result);
  };
}

//! `text()` is the program; `to_text` prints it without the lines of your program, which makes it
//! shorter. The parameters have the shapes of shards: of `x`, f32[8,16], a device holds f32[4,16];
//! `w_in`, f32[16,32], becomes f32[16,8].

void one_program() {
  const auto step = compile(ffn({"data", _}), {.mesh = mesh}, kX, kIn, kOut);
  show(to_text(*step.module().program, {.metadata = false}));
  CHECK(local_shape(kOut, step.parameter_sharding(2)).dims == Dims{8, 16});
}

//! The first product needs no communication: a device has its rows of `x` and its columns of
//! `w_in`, and gets a tile of `hidden`. The second product sums over the hidden dim, of which a
//! device has a quarter. Its `dot` is a *partial sum*, and the `all-reduce` adds up the four
//! partial sums of the devices along `model`. `replica_groups` names the groups: two groups of
//! four, one per coordinate along `data`.
//!
//! ## Counting bytes
//!
//! `stats()` lists the collectives. `bytes` is what one device sends. In a ring of g devices an
//! all-reduce of L bytes sends 2L(g-1)/g: once around to add up, once to hand out the sum.

void counting_bytes() {
  const auto step = compile(ffn({"data", _}), {.mesh = mesh}, kX, kIn, kOut);
  const ExecutableStats& stats = step.stats();
  CHECK(stats.collectives.size() == 1);
  const CollectiveStats& sum = stats.collectives[0];
  CHECK(sum.kind == "all-reduce");
  CHECK(sum.axes == "model");
  const int64_t partial_sums = 4 * 16 * 4;  // 4 rows, 16 columns, 4 bytes each
  CHECK(sum.bytes == 2 * partial_sums * 3 / 4);
  show(fmt::format("{} over {}: {} bytes, for {} at {}", sum.kind, sum.axes, sum.bytes, sum.op,
                   sum.source));
}

//! The simulated devices count what they really read from each other. Eight devices ran, and each
//! got what `stats()` predicted.

void counted_while_running() {
  const auto step = compile(ffn({"data", _}), {.mesh = mesh}, kX, kIn, kOut);
  step(Array::full(kX, 1), Array::full(kIn, 1), Array::full(kOut, 1));
  CHECK(step.counters().collectives == 1);
  CHECK(step.counters().bytes_received == 8 * step.stats().collective_bytes);
  show(fmt::format("predicted {} bytes, received {} bytes", 8 * step.stats().collective_bytes,
                   step.counters().bytes_received));
}

//! ## Another layout, another collective
//!
//! The sum need not be whole everywhere. If the result is cut over `model` as well, each device
//! needs a quarter of it only, and a `reduce-scatter` does with half the bytes. If it has to be
//! whole on all devices, the rows must be gathered over `data` too.

void other_collectives() {
  const auto sent = [](const SplitDims& result) {
    const auto step = compile(ffn(result), {.mesh = mesh}, kX, kIn, kOut);
    std::string text;
    for (const CollectiveStats& c : step.stats().collectives)
      text += fmt::format("  {} over {}: {} bytes\n", c.kind, c.axes, c.bytes);
    return text;
  };
  CHECK(sent({"data", _}) == "  all-reduce over model: 384 bytes\n");
  CHECK(sent({"data", "model"}) == "  reduce-scatter over model: 192 bytes\n");
  show("cut over data and model:\n" + sent({"data", "model"}));
  show("whole everywhere:\n" + sent({_, _}));
}

//! ## Sums stay partial while that is cheaper
//!
//! A value that is a sum of several partial sums needs one all-reduce, not one each: the
//! partitioner keeps partial sums apart until somebody needs the total.

void one_sum_for_two() {
  const auto two = [](Tensor x, Tensor a, Tensor b) {
    x = mesh_split(x, mesh, {_, "model"});
    return einsum("bm,mh->bh", x, a) + einsum("bm,mh->bh", x, b);
  };
  const auto step = compile(two, {.mesh = mesh}, kX, kIn, kIn);
  CHECK(step.stats().uncombined.size() == 1);
  CHECK(step.stats().uncombined[0].count == 1);
}

//! ## Why is it there, and what would remove it?
//!
//! `explain` takes the traced module and says for every collective which annotations decide it. It
//! also compiles the program with other annotations, and names one without that collective, with
//! what the program then sends in all; here only those that send less are shown. The command does
//! the same with a file: `gspmd explain FILE --num-devices 8`.

void why_is_it_there() {
  const auto step = compile(ffn({_, _}), {.mesh = mesh}, kX, kIn, kOut);
  PipelineOptions options;
  options.num_devices = mesh.num_devices();
  for (const Explanation& e : explain(step.traced().module(), options)) {
    std::string text = fmt::format("{}, {} bytes, for {} at {}", e.collective.kind,
                                   e.collective.bytes, e.collective.op, e.collective.source);
    for (const NamedSharding& a : e.annotations)
      text += fmt::format("\n  decided at {}: {}", a.source, a.sharding);
    if (const auto& s = e.suggestion; s && s->bytes_after < s->bytes_before)
      text += fmt::format("\n  {} at {} would leave {} of {} bytes", s->annotation.sharding,
                          s->annotation.source, s->bytes_after, s->bytes_before);
    show(text);
  }
}

//! The annotation "whole everywhere" asks every device for all rows of the result. The partitioner
//! compares what all ways to divide a product send: it lets each half of the devices add up its
//! half of the rows, and gathers the sums. At these sizes it would be less still not to cut
//! `w_out`, and to gather `hidden` before the product. Let us try it.

void follow_the_suggestion() {
  const auto better = [](Tensor x, Tensor w_in, Tensor w_out) {
    x = mesh_split(x, mesh, {"data", _});
    w_in = mesh_split(w_in, mesh, {_, "model"});
    w_out = mesh_split(w_out, mesh, {_, _});
    return mesh_split(matmul(matmul(x, w_in), w_out), mesh, {_, _});
  };
  const auto step = compile(better, {.mesh = mesh}, kX, kIn, kOut);
  CHECK(step.stats().collective_bytes == 544);
}

int main() {
  one_program();
  counting_bytes();
  counted_while_running();
  other_collectives();
  one_sum_for_two();
  why_is_it_there();
  follow_the_suggestion();
}
