#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gspmd/ops/builders.h"

namespace gspmd::testing {

// A stream of draws; equal states give equal streams.
class Draws {
 public:
  explicit Draws(uint64_t state) : state_(state) {}
  uint64_t next();
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int64_t percent) { return below(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

 private:
  uint64_t state_;
};

// What manual regions need to know, and tell.
struct Regions {
  Dims mesh;                     // sizes of the axes; devices count in row-major order
  std::set<const Node*> inside;  // whose annotations are drawn with the region
  int64_t channels = 0, groups = 0;
};

// Builds one computation out of random ops. Values are integers whose magnitude is known to stay
// within what their type holds, so that all results are exact in any order of summation.
class Builder {
 public:
  Builder(Computation& c, Draws& draws, int depth) : c(c), draws(draws), depth(depth) {}

  Computation& c;
  Draws& draws;
  int depth;                   // of called computations around this one
  Regions* regions = nullptr;  // nullptr: no regions here

  // A value that ops may read. `bound`: of its magnitude; negative: the dtype's own.
  Node* add(Node* value, double bound = -1);
  double bound(const Node* value) const;
  const std::vector<Node*>& values() const { return values_; }

  Node* pick();                          // any array, later ones more often
  Node* pick_numbers();                  // an array of numbers that have an order
  Node* fitting(Node* x, double bound);  // x, or a part of its digits that keeps within the bound
  Node* like(Node* x);                   // another value of x's type and dims
  Node* of_shape(const Shape& shape);    // a value of this type and these dims
  Node* index();                         // s32[], mostly small, known before the run or not
  Node* scalar(DType dtype, double value) { return hlo::scalar(c, dtype, value); }
  Computation* combiner(Opcode opcode, DType dtype);

  int64_t size();  // of a dim
  Dims sizes(int64_t rank);
  Dims shuffled(int64_t n);
  Dims some_of(int64_t n, int64_t percent);  // ascending

  void step();  // one op on a random value

 private:
  std::vector<Node*> values_;
  std::map<const Node*, double> bounds_;
};

double largest(DType dtype);  // up to which the type holds every integer
bool is_number(DType dtype);  // has an order and arithmetic

// One kind of op: from x and what else the builder has; nullptr where x does not suit.
struct Family {
  int64_t weight = 1;
  std::function<Node*(Builder&, Node*)> make;
};
std::vector<Family> elementwise_families();
std::vector<Family> shape_families();
std::vector<Family> sum_families();
std::vector<Family> window_families();
std::vector<Family> index_families();
std::vector<Family> order_families();
std::vector<Family> control_families();
std::vector<Family> region_families();

// A computation of its own, with parameters of these shapes (bound by `bound`), `operations` ops
// and a result of `result` shape.
Computation* random_computation(Builder& caller, const std::vector<Shape>& parameters,
                                const Shape& result, double bound, int64_t operations);
// Whether a computation is made of ops on arrays, as bodies and branches are. Combiners and
// comparators, on scalars, are no place for annotations.
bool is_program(const Computation& called);

}  // namespace gspmd::testing
