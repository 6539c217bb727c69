#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "api/support.h"

namespace gspmd::test {

// What NumPy and SciPy gave for one subject: tests/data/numpy/generate.py.
class NumpyCases {
 public:
  explicit NumpyCases(const std::string& subject) {
    const std::string path = std::string(GSPMD_SOURCE_DIR) + "/tests/data/numpy/" + subject;
    for (auto& [name, array] : read_npz(path + ".npz")) arrays_.emplace(name, array);
  }

  std::vector<Array> inputs(const std::string& name) const { return listed(name + ".in"); }
  std::vector<Array> results(const std::string& name) const { return listed(name + ".out"); }

  // Whether f gives what NumPy gave, by the reference interpreter, and the same on a mesh that
  // splits the first and last dims of the inputs unevenly.
  template <class F>
  void check(const std::string& name, F f, Tolerance tolerance = {1e-10, 1e-12}) const {
    check_listed(
        name, [&](const Tensors& x) { return real_parts(applied(f, x)); }, tolerance);
  }

 private:
  using Tensors = std::vector<Tensor>;

  // One function for all: compilers would take minutes to trace and run each lambda by its type.
  void check_listed(const std::string& name, const std::function<Tensors(const Tensors&)>& f,
                    Tolerance tolerance) const {
    INFO(name);
    const std::vector<Array> given = inputs(name), wanted = parts(results(name));
    REQUIRE(!wanted.empty());
    const std::vector<Array> seen =
        given.empty() ? reference_results([&] { return f({}); }) : reference_results(f, given);
    const Expectation right = expect_close(seen, wanted, tolerance, name);
    CHECK(right.message == "");
    for (size_t i = 0; i < seen.size() && i < wanted.size(); ++i)
      CHECK(seen[i].dtype() == wanted[i].dtype());
    if (given.empty()) return;
    const auto make = [&](const Mesh& mesh) {
      return [&, mesh](Tensors x) {
        for (Tensor& t : x) t = spread(t, mesh);
        return f(x);
      };
    };
    const Expectation same =
        expect_equal_on_meshes(make, {Mesh{{"a", 3}, {"b", 2}}}, tolerance, given);
    CHECK(same.message == "");
  }

  std::vector<Array> listed(const std::string& prefix) const {
    std::vector<Array> list;
    while (arrays_.count(prefix + std::to_string(list.size())) > 0)
      list.push_back(arrays_.at(prefix + std::to_string(list.size())));
    return list;
  }

  // The real and imaginary parts of complex arrays, the others as they are.
  static std::vector<Array> parts(const std::vector<Array>& arrays) {
    std::vector<Array> result;
    for (const Array& array : arrays) {
      if (!is_complex(array.dtype())) {
        result.push_back(array);
        continue;
      }
      REQUIRE(array.dtype() == DType::c128);
      for (const size_t part : {size_t(0), size_t(1)}) {
        Array& numbers = result.emplace_back(DType::f64, array.dims());
        for (int64_t i = 0; i < array.size(); ++i)
          std::memcpy(numbers.bytes().data() + i * 8,
                      array.bytes().data() + i * 16 + static_cast<int64_t>(part) * 8, 8);
      }
    }
    return result;
  }
  static std::vector<Tensor> real_parts(const std::vector<Tensor>& tensors) {
    std::vector<Tensor> result;
    for (const Tensor& t : tensors) {
      const bool whole = !is_complex(t.dtype());
      result.push_back(whole ? t : real(t));
      if (!whole) result.push_back(imag(t));
    }
    return result;
  }

  static std::vector<Tensor> listed(const Tensor& t) { return {t}; }
  static std::vector<Tensor> listed(const std::vector<Tensor>& t) { return t; }
  static std::vector<Tensor> listed(const std::pair<Tensor, Tensor>& t) {
    return {t.first, t.second};
  }
  // f of as many tensors as it takes.
  template <class F>
  static std::vector<Tensor> applied(F& f, const std::vector<Tensor>& x) {
    if constexpr (std::is_invocable_v<F&>)
      return listed(f());
    else if constexpr (std::is_invocable_v<F&, Tensor>)
      return listed(f(x.at(0)));
    else if constexpr (std::is_invocable_v<F&, Tensor, Tensor>)
      return listed(f(x.at(0), x.at(1)));
    else if constexpr (std::is_invocable_v<F&, Tensor, Tensor, Tensor>)
      return listed(f(x.at(0), x.at(1), x.at(2)));
    else if constexpr (std::is_invocable_v<F&, std::vector<Tensor>>)
      return listed(f(x));
    else
      return listed(f(x.at(0), x.at(1), x.at(2), x.at(3)));
  }

  static Tensor spread(const Tensor& t, const Mesh& mesh) {
    if (t.rank() == 0) return t;
    std::vector<DimSplit> dims(static_cast<size_t>(t.rank()), DimSplit(_));
    dims.front() = DimSplit("a");
    if (t.rank() > 1) dims.back() = DimSplit("b");
    return mesh_split(t, mesh, dims);
  }

  std::map<std::string, Array> arrays_;
};

}  // namespace gspmd::test
