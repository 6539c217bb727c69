// Loops cut into pieces, and operands read from within arrays.
#include <random>

#include "kernels/loop_plan.h"
#include "load.h"
#include "loop_code_case.h"

namespace gspmd::loop_code_test {
namespace {

// Of a dim: which indices, from one on, so many apart.
struct Range {
  int64_t first, count, step;
};

LoopProgram piece_of(const LoopProgram& whole, const std::vector<Range>& ranges) {
  LoopProgram piece = whole;
  for (size_t d = 0; d < ranges.size(); ++d) piece.dims[d] = ranges[d].count;
  const auto restrict_to = [&](Dims& strides, int64_t& offset) {
    for (size_t d = 0; d < ranges.size(); ++d) {
      offset += ranges[d].first * strides[d];
      strides[d] *= ranges[d].step;
    }
  };
  for (LoopValue& v : piece.values) {
    if (v.op == LoopOp::iota) {
      v.strides.assign(ranges.size(), 0);
      v.strides[size_t(v.operand)] = 1;
    }
    if (v.op == LoopOp::iota || v.op == LoopOp::operand) restrict_to(v.strides, v.offset);
  }
  for (size_t o = 0; o < piece.outputs.size(); ++o) {
    LoopOutput& output = piece.outputs[o];
    output.strides = row_major_strides(whole.dims);
    restrict_to(output.strides, output.offset);
    output.result = int64_t(o);
  }
  return piece;
}

class PieceGenerator {
 public:
  explicit PieceGenerator(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }

  Case make() {
    static const int64_t sizes[] = {1, 2, 3, 4, 8, 15, 17, 32, 70, 131, 300};
    int64_t total = 1;
    for (int64_t d = 0, rank = 1 + below(4); d < rank; ++d) {
      c_.program.dims.push_back(sizes[below(total > 1000 ? 5 : 11)]);
      total *= c_.program.dims.back();
    }
    c_.program.reduced.assign(c_.program.dims.size(), false);
    const DType dtype = below(3) == 0 ? DType::bf16 : DType::f32;
    for (int64_t i = 0; i <= below(3); ++i) add_operand(dtype);
    for (int64_t i = 0; i <= below(6); ++i) add_op(dtype);
    for (int64_t i = 0; i <= below(2); ++i) {
      LoopOutput o;
      o.value = int(c_.program.values.size()) - 1 - int(below(2));
      c_.program.outputs.push_back(o);
      c_.results.emplace_back(c_.program.values[size_t(o.value)].dtype, c_.program.dims);
    }
    return std::move(c_);
  }

  // Whole dims, then some cut in two or into classes.
  std::vector<LoopProgram> pieces(const LoopProgram& whole) {
    std::vector<std::vector<Range>> boxes(1);
    for (const int64_t size : whole.dims) boxes[0].push_back({0, size, 1});
    for (int64_t cuts = 1 + below(3); cuts > 0; --cuts) {
      const size_t b = size_t(below(int64_t(boxes.size()))), d = size_t(below(whole.dims.size()));
      const Range r = boxes[b][d];
      if (r.count < 2) continue;
      boxes.push_back(boxes[b]);
      if (below(2) == 0) {
        const int64_t at = 1 + below(r.count - 1);
        boxes[b][d] = {r.first, at, r.step};
        boxes.back()[d] = {r.first + at * r.step, r.count - at, r.step};
      } else {
        boxes[b][d] = {r.first, (r.count + 1) / 2, 2 * r.step};
        boxes.back()[d] = {r.first + r.step, r.count / 2, 2 * r.step};
      }
    }
    std::vector<LoopProgram> out;
    for (const auto& box : boxes) out.push_back(piece_of(whole, box));
    return out;
  }

 private:
  void push(LoopValue v) { c_.program.values.push_back(std::move(v)); }
  // From within an array: an offset, steps and dims that are left out.
  void add_operand(DType dtype) {
    LoopValue v;
    v.dtype = dtype;
    v.operand = int64_t(c_.operands.size());
    v.strides.assign(c_.program.dims.size(), 0);
    v.offset = below(3) * below(20);
    int64_t stride = below(4) == 0 ? 1 + below(3) : 1, size = v.offset + 1;
    for (size_t d = c_.program.dims.size(); d-- > 0;) {
      if (below(4) == 0) continue;
      v.strides[d] = stride;
      size += (c_.program.dims[d] - 1) * stride;
      stride *= c_.program.dims[d] + below(2) * below(5);
    }
    Array data(dtype, {size});
    for (int64_t i = 0; i < size; ++i) data.set(i, double(below(2001) - 1000) / 16);
    c_.operands.push_back(data);
    push(v);
  }
  void add_op(DType dtype) {
    const int count = int(c_.program.values.size());
    LoopValue v;
    v.dtype = dtype;
    v.a = int(below(count));
    v.b = int(below(count));
    const int64_t kind = below(7);
    if (kind == 0) {  // numbers of a dim, as floats
      v.op = LoopOp::iota;
      v.operand = below(int64_t(c_.program.dims.size()));
      v.a = v.b = -1;
    } else if (kind < 3) {
      static const LoopOp unary[] = {LoopOp::negate, LoopOp::tanh, LoopOp::sine, LoopOp::copy};
      v.op = unary[below(4)];
      v.b = -1;
    } else {
      static const LoopOp binary[] = {LoopOp::add, LoopOp::multiply, LoopOp::maximum};
      v.op = binary[below(3)];
    }
    push(v);
  }

  std::mt19937_64 random_;
  Case c_;
};

}  // namespace

TEST_CASE("loop pieces: give what one loop over all of it gives, bit by bit", "[loop]") {
  for (int64_t seed = 1; seed <= random_load(600); ++seed) {
    PieceGenerator generator{uint64_t(seed)};
    const Case c = generator.make();
    const std::vector<LoopProgram> pieces = generator.pieces(c.program);
    const std::vector<int> nowhere(c.results.size(), -1);
    const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, nowhere, false);
    const auto check = [&](const LoopOptions& options, bool backwards) {
      const auto got = run(prepare_loop_pieces(pieces, options), c, nowhere, backwards);
      for (size_t o = 0; o < want.size(); ++o) {
        INFO("seed " << seed << " output " << o << " " << to_string(c.results[o]) << ", "
                     << pieces.size() << " pieces");
        REQUIRE(differing(c.results[o].dtype, want[o], got[o]) == 0);
      }
    };
    check({.machine_code = false}, false);
    for (const LoopTarget target : targets()) check({.target = target}, true);
  }
}

// The first elements of pairs in one loop with the second ones.
TEST_CASE("loop pieces: results that stand in turn are written together", "[loop]") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::pred})
    for (const Dims& dims : {Dims{5, 33}, Dims{3, 7, 2}, Dims{700}, Dims{2, 300}, Dims{4, 6, 64}}) {
      Case c;
      c.program.dims = dims;
      const int64_t n = Shape(DType::pred, dims).elements_count();
      Dims pairs = row_major_strides(dims);
      for (int64_t& stride : pairs) stride *= 2;
      Array data(dtype, {2 * n});
      for (int64_t i = 0; i < 2 * n; ++i)
        data.set(i, dtype == DType::pred ? double(i % 3 == 0) : double(i % 97));
      c.operands.push_back(data);
      for (const int64_t half : {0, 1}) {  // each half goes to the place of the other
        LoopValue v;
        v.dtype = dtype;
        v.strides = pairs;
        v.offset = half;
        c.program.values.push_back(v);
        LoopValue copy;
        copy.op = LoopOp::copy;
        copy.dtype = dtype;
        copy.a = int(2 * half);
        c.program.values.push_back(copy);
        c.program.outputs.push_back({int(2 * half) + 1, false, pairs, 1 - half, 0});
      }
      c.results.emplace_back(dtype, Dims{2 * n});
      for (const bool code : {false, true}) {
        const auto got = run(prepare_loop(c.program, {.machine_code = code}), c, {-1}, false);
        Array result(dtype, {2 * n});
        std::memcpy(result.bytes().data(), got[0].data(), got[0].size());
        for (int64_t i = 0; i < 2 * n; ++i) REQUIRE(result.at(i) == data.at(i ^ 1));
      }
    }
}

}  // namespace gspmd::loop_code_test
