#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/common/combine_values.h"
#include "ops/common/loops.h"
#include "ops/common/widen.h"
#include "ops/reduce/combiner_structure.h"
#include "ops/reduce/reduce.h"

namespace gspmd {
namespace {

// Strides into the result for an index of the input: 0 along reduced dims.
Dims result_strides(const Node& node) {
  Dims kept;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d)
    if (!contains(node.attrs.dimensions, d)) kept.push_back(node.operand(0)->dim(d));
  const Dims dense = row_major_strides(kept);
  Dims strides;
  size_t next = 0;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d)
    strides.push_back(contains(node.attrs.dimensions, d) ? 0 : dense[next++]);
  return strides;
}

Value reduce_known(const EvalContext& context) {
  const Combiner combiner = *recognize_combiner(*context.node.called[0]);
  const Array& x = context.operands[0].array;
  const Array result(context.node.shape);
  const Dims strides = row_major_strides(x.dims());
  const Dims target = result_strides(context.node);
  visit_number(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = AccumulatorOf<T>;
    const std::span<const T> in = x.data<T>();
    const std::span<T> out = result.data<T>();
    std::vector<Wrapped<A>> sums(out.size(),
                                 {convert_element<A>(context.operands[1].array.data<T>()[0])});
    for_each_offset<2>(x.dims(), {strides, target}, {0, 0}, [&](const std::array<int64_t, 2>& at) {
      A& sum = sums[static_cast<size_t>(at[1])].value;
      sum = combine(combiner, sum, convert_element<A>(in[static_cast<size_t>(at[0])]));
    });
    for (size_t i = 0; i < out.size(); ++i) out[i] = convert_element<T>(sums[i].value);
  });
  return {result, {}, false};
}

// Of several arrays, each by itself: as the reductions that it is.
Value reduce_each(const EvalContext& context, const std::vector<Opcode>& ops) {
  std::vector<Array> results;
  for (size_t i = 0; i < ops.size(); ++i) {
    Module scratch("reduce");
    Computation* const body = scratch.add_computation("reduce");
    const auto parameter = [&](int64_t index, size_t operand) {
      return hlo::parameter(*body, index, context.node.operands()[operand]->shape);
    };
    Node* const x = parameter(0, i);
    Node* const start = parameter(1, ops.size() + i);
    Node* const node = hlo::reduce(x, start, context.node.attrs.dimensions,
                                   binary_computation(scratch, ops[i], x->shape.dtype));
    const std::vector<Value> operands{context.operands[i], context.operands[ops.size() + i]};
    results.push_back(evaluate_reduce({*node, operands, context.call}).array);
  }
  return pack(context.node.shape, results);
}

}  // namespace

Value evaluate_reduce(const EvalContext& context) {
  const Node& node = context.node;
  const size_t inputs = node.operands().size() / 2;
  if (inputs == 1 && recognize_combiner(*node.called[0]))
    return evaluate_any_width(context, reduce_known);
  if (const std::vector<Opcode> ops = separate_ops(*node.called[0]); !ops.empty())
    return reduce_each(context, ops);
  const std::vector<Array> results = initial_results(context);
  const Dims strides = row_major_strides(node.operand(0)->dims());
  CalledCombiner combiner(context.call, *node.called[0], results, inputs_of(context));
  for_each_offset<2>(node.operand(0)->dims(), {strides, result_strides(node)}, {0, 0},
                     [&](const std::array<int64_t, 2>& at) { combiner.combine(at[1], at[0]); });
  return pack(node.shape, results);
}

}  // namespace gspmd
