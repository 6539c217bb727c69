#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "api/emit.h"
#include "gspmd/gspmd.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/custom_ops.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/testing.h"

namespace gspmd {
namespace {

using Tensors = std::vector<Tensor>;

// Where a mesh's axes lie on the dims of operands and results: for each axis and value the dim, -1:
// on none.
using Places = std::vector<std::vector<int64_t>>;

class CustomOpChecker {
 public:
  CustomOpChecker(const std::string& name, const std::vector<Array>& operands,
                  const CustomOpCheck& check)
      : name_(name), operands_(operands), check_(check) {}

  Expectation run() {
    const Traced traced = trace([&](const Tensors& x) { return op(x); }, operands_);
    module_ = to_text(traced.module());
    expected_ = run_reference(traced, operands_);
    has_gradient_ = differentiable();
    if (has_gradient_) expected_gradients_ = reference_results(gradients(), operands_);
    for (const auto step :
         {&CustomOpChecker::read_back, &CustomOpChecker::kernel, &CustomOpChecker::parts,
          &CustomOpChecker::batch, &CustomOpChecker::differences}) {
      const Expectation holds = (this->*step)();
      if (!holds) return {false, fmt::format("op \"{}\": {}", name_, holds.message)};
    }
    return {};
  }

 private:
  Tensors op(const Tensors& x) const { return custom_call(name_, x, {.config = check_.config}); }

  bool differentiable() const {
    return std::all_of(operands_.begin(), operands_.end(),
                       [](const Array& x) { return x.dtype() == DType::f64; }) &&
           std::all_of(expected_.begin(), expected_.end(),
                       [](const Array& y) { return y.dtype() == DType::f64; }) &&
           has_rule();
  }
  bool has_rule() const {
    try {
      trace(gradients(), operands_);
      return true;
    } catch (const UserError& error) {
      if (std::string(error.what()).find("has no gradient") != std::string::npos) return false;
      throw;
    }
  }

  // A sum of the results with weights that differ, so that no two elements are exchanged unseen.
  Tensor weighed(const Tensors& results) const {
    Tensor total;
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor& y = results[i];
      Array weights(Shape(y.dtype(), y.dims()));
      for (int64_t e = 0; e < weights.size(); ++e)
        weights.set(e, std::cos(double(e) + 0.3 * double(i + 1)));
      const Tensor part = sum(y * weights);
      total = i == 0 ? part : total + part;
    }
    return total;
  }
  std::function<Tensors(const Tensors&)> gradients() const {
    return [this](const Tensors& x) {
      return grad([this](const Tensors& given) { return weighed(op(given)); })(x);
    };
  }

  Expectation read_back() const {
    const auto module = parse_module(module_);
    if (to_text(*module) != module_) return {false, "its text changes when it is read and printed"};
    std::vector<Value> arguments;
    for (const Array& x : operands_) arguments.push_back({x, {}, false});
    return expect_close(leaves(evaluate(*module, arguments)), expected_, {0, 0}, "read from text");
  }

  Expectation kernel() const {
    const auto program =
        compile([&](const Tensors& x) { return op(x); }, CompileOptions(), operands_);
    return expect_close(program(operands_), expected_, check_.tolerance, "its kernel");
  }

  // Ranks of the operands, then of the results.
  std::vector<int64_t> ranks() const {
    std::vector<int64_t> ranks;
    for (const auto* list : {&operands_, &expected_})
      for (const Array& array : *list) ranks.push_back(array.shape().rank());
    return ranks;
  }

  // All layouts where they are few, else some.
  std::vector<Places> layouts(int64_t axes) const {
    const std::vector<int64_t> ranks = this->ranks();
    double ways = 1;
    for (const int64_t rank : ranks) ways *= std::pow(double(rank + 1), double(axes));
    const bool all = ways <= double(check_.shardings);
    const auto count = all ? static_cast<int64_t>(ways) : check_.shardings;
    std::mt19937_64 random(7);
    std::vector<Places> layouts;
    for (int64_t i = 0; i < count; ++i) {
      Places layout(static_cast<size_t>(axes));
      int64_t rest = i;
      for (std::vector<int64_t>& dims : layout)
        for (const int64_t rank : ranks) {
          const auto choice = all ? rest : static_cast<int64_t>(random() >> 2);
          dims.push_back(choice % (rank + 1) - 1);
          rest /= rank + 1;
        }
      layouts.push_back(std::move(layout));
    }
    return layouts;
  }

  Tensor split(const Tensor& x, const Mesh& mesh, const Places& layout, size_t value) const {
    std::vector<std::vector<std::string>> dims(static_cast<size_t>(x.rank()));
    bool any = false;
    for (size_t axis = 0; axis < layout.size(); ++axis) {
      const int64_t dim = layout[axis][value];
      if (dim >= 0) dims[static_cast<size_t>(dim)].push_back(mesh.axes()[axis].name);
      any |= dim >= 0;
    }
    return any ? mesh_split(x, mesh, std::vector<DimSplit>(dims.begin(), dims.end())) : x;
  }

  Expectation part(const Mesh& mesh, const Places& layout) const {
    const auto on_mesh = [&](const Tensors& x) {
      const auto laid_out = [&](const Tensors& given) {
        Tensors parts, results;
        for (size_t i = 0; i < given.size(); ++i) parts.push_back(split(given[i], mesh, layout, i));
        for (const Tensor& y : op(parts))
          results.push_back(split(y, mesh, layout, given.size() + results.size()));
        return results;
      };
      Tensors results = laid_out(x);
      if (!has_gradient_) return results;
      const Tensors found = grad([&](const Tensors& given) { return weighed(laid_out(given)); })(x);
      results.insert(results.end(), found.begin(), found.end());
      return results;
    };
    CompileOptions options;
    options.mesh = mesh;
    options.poison = true;
    const std::vector<Array> got = compile(on_mesh, options, operands_)(operands_);
    std::vector<Array> wanted = expected_;
    wanted.insert(wanted.end(), expected_gradients_.begin(), expected_gradients_.end());
    std::vector<std::string> said;
    for (const std::vector<int64_t>& dims : layout)
      said.push_back(fmt::format("[{}]", fmt::join(dims, ",")));
    return expect_close(got, wanted, check_.tolerance,
                        fmt::format("on {}, with the axes on dims {} of operands and results (-1: "
                                    "none)",
                                    to_string(mesh), fmt::join(said, " and ")));
  }

  Expectation parts() const {
    for (const Mesh& mesh : {Mesh{{"x", 2}}, Mesh{{"x", 3}}, Mesh{{"x", 2}, {"y", 2}}})
      for (const Places& layout : layouts(mesh.rank())) {
        const Expectation holds = part(mesh, layout);
        if (!holds) return holds;
      }
    return {};
  }

  Expectation batch() const {
    constexpr int64_t kSize = 3;
    std::vector<Array> stacked;
    std::vector<std::vector<Array>> one_by_one;
    for (int64_t b = 0; b < kSize; ++b) {
      std::vector<Array> x;
      for (const Array& operand : operands_) {
        Array shifted = operand.clone();  // an element further each time
        for (int64_t e = 0; e < operand.size(); ++e)
          shifted.set(e, operand.at((e + b) % operand.size()));
        x.push_back(shifted);
      }
      one_by_one.push_back(x);
    }
    for (size_t i = 0; i < operands_.size(); ++i) stacked.push_back(stack_of(one_by_one, i));
    std::vector<std::vector<Array>> results;
    for (const std::vector<Array>& x : one_by_one)
      results.push_back(reference_results([&](const Tensors& t) { return op(t); }, x));
    std::vector<Array> wanted;
    for (size_t i = 0; i < expected_.size(); ++i) wanted.push_back(stack_of(results, i));
    const auto batched = vmap([&](const Tensors& x) { return op(x); });
    return expect_close(reference_results(batched, stacked), wanted, check_.tolerance, "a batch");
  }

  static Array stack_of(const std::vector<std::vector<Array>>& lists, size_t i) {
    Dims dims = lists[0][i].dims();
    dims.insert(dims.begin(), std::ssize(lists));
    Array stacked(Shape(lists[0][i].dtype(), dims));
    for (size_t b = 0; b < lists.size(); ++b)
      for (int64_t e = 0; e < lists[b][i].size(); ++e)
        stacked.set(static_cast<int64_t>(b) * lists[b][i].size() + e, lists[b][i].at(e));
    return stacked;
  }

  // Central differences of the weighed sum.
  Expectation differences() const {
    if (!has_gradient_) return {};
    constexpr double kStep = 1e-5;
    const auto loss = [&](const std::vector<Array>& x) {
      return reference_results([&](const Tensors& t) { return weighed(op(t)); }, x)[0].item();
    };
    std::vector<Array> wanted;
    for (size_t i = 0; i < operands_.size(); ++i) {
      Array gradient(operands_[i].shape());
      for (int64_t e = 0; e < gradient.size(); ++e) {
        std::vector<Array> up = operands_, down = operands_;
        up[i] = operands_[i].clone();
        down[i] = operands_[i].clone();
        up[i].set(e, operands_[i].at(e) + kStep);
        down[i].set(e, operands_[i].at(e) - kStep);
        gradient.set(e, (loss(up) - loss(down)) / (2 * kStep));
      }
      wanted.push_back(gradient);
    }
    return expect_close(expected_gradients_, wanted, check_.gradient_tolerance,
                        "its gradient, against central differences");
  }

  const std::string& name_;
  const std::vector<Array>& operands_;
  const CustomOpCheck& check_;
  std::string module_;
  std::vector<Array> expected_, expected_gradients_;
  bool has_gradient_ = false;
};

}  // namespace

Expectation expect_custom_op(const std::string& name, const std::vector<Array>& operands,
                             const CustomOpCheck& check) {
  return CustomOpChecker(name, operands, check).run();
}

}  // namespace gspmd
