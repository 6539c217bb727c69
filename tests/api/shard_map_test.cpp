#include "gspmd/api/shard_map.h"

#include <algorithm>

#include "api/support.h"
#include "gspmd/ir/text.h"

using namespace gspmd;
using namespace gspmd::test;

namespace shard_map_test {
namespace {

using Parts = std::vector<std::vector<double>>;  // by device

const Mesh kMesh{{"x", 2}, {"y", 3}};
const std::vector<std::pair<int64_t, int64_t>> kPairs = {{0, 1}, {1, 0}};

// Devices along some axes of kMesh, in the order that the axes count them, one group for each.
std::vector<std::vector<size_t>> groups(const std::string& axes) {
  if (axes == "x") return {{0, 3}, {1, 4}, {2, 5}};
  if (axes == "y") return {{0, 1, 2}, {3, 4, 5}};
  if (axes == "xy") return {{0, 1, 2, 3, 4, 5}};
  return {{0, 3, 1, 4, 2, 5}};  // yx
}

AxisNames names(const std::string& axes) {
  if (axes == "xy") return {"x", "y"};
  if (axes == "yx") return {"y", "x"};
  return axes;
}

// Twelve numbers on each device, [2,6]; what the others get of them.
template <class F>
Parts each_group(const Parts& parts, const std::string& axes, F f) {
  Parts results(parts.size());
  for (const std::vector<size_t>& group : groups(axes)) {
    Parts mine;
    for (const size_t device : group) mine.push_back(parts[device]);
    const Parts made = f(mine);
    for (size_t i = 0; i < group.size(); ++i) results[group[i]] = made[i];
  }
  return results;
}

// What `f` makes of the parts of x, a device's one behind the other's.
template <class F>
std::vector<double> on_devices(F f, const Array& x) {
  const auto fn = [&](Tensor t) {
    return shard_map(
        [&](Tensor part) {
          return reshape(f(reshape(part, {2, 6})), {-1});
        },
        kMesh, {{{"x", "y"}}}, {{"x", "y"}})(t);
  };
  const Array found = compile(fn, {.mesh = kMesh}, x)(x);
  CHECK(expect_close(reference_results(fn, x), {found}, {1e-12, 1e-12}));
  return values(found);
}

std::vector<double> joined(const Parts& parts) {
  std::vector<double> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <class Combine>
Parts combined(const Parts& mine, Combine combine) {
  std::vector<double> all = mine[0];
  for (size_t d = 1; d < mine.size(); ++d)
    for (size_t i = 0; i < all.size(); ++i) all[i] = combine(all[i], mine[d][i]);
  return Parts(mine.size(), all);
}

// Twelve numbers for each of six devices.
const Array kNumbers = random_integers({DType::f64, {72}}, 4, -50, 50);

// Whether f of a device's numbers is what `expected` makes of those of a group.
template <class F, class Expected>
void check_each(const std::string& axes, F f, Expected expected) {
  INFO(axes);
  Parts parts;
  for (int64_t d = 0; d < 6; ++d) {
    parts.emplace_back();
    for (int64_t i = 0; i < 12; ++i) parts.back().push_back(kNumbers.at(d * 12 + i));
  }
  const std::vector<double> wanted = joined(each_group(parts, axes, expected));
  CHECK(on_devices(f, kNumbers) == wanted);
}

Parts sums(const Parts& mine) {
  return combined(mine, [](double a, double b) { return a + b; });
}

}  // namespace

TEST_CASE("reductions in shard_map do what their names say, over one axis or two", "[shard_map]") {
  for (const std::string axes : {"x", "y", "xy", "yx"}) {
    const AxisNames over = names(axes);
    const size_t n = groups(axes)[0].size();
    const auto check = [&](auto f, auto expected) { check_each(axes, f, expected); };
    check([&](Tensor t) { return psum(t, over); }, sums);
    check([&](Tensor t) { return pmean(t * static_cast<double>(n), over); }, sums);
    check([&](Tensor t) { return pmax(t, over); },
          [](const Parts& m) {
            return combined(m, [](double a, double b) { return std::max(a, b); });
          });
    check([&](Tensor t) { return pmin(t, over); },
          [](const Parts& m) {
            return combined(m, [](double a, double b) { return std::min(a, b); });
          });
    check([&](Tensor t) { return t * 0. + convert(axis_index(over), DType::f64); },
          [&](Parts m) {
            for (size_t d = 0; d < n; ++d) m[d].assign(12, static_cast<double>(d));
            return m;
          });
    CHECK(on_devices([&](Tensor t) { return t * 0. + static_cast<double>(axis_size(over)); },
                     kNumbers) == std::vector<double>(72, static_cast<double>(n)));
    check([&](Tensor t) { return ppermute(t, over, kPairs); },
          [&](const Parts& m) {
            Parts made(n, std::vector<double>(12, 0));
            made[1] = m[0];
            made[0] = m[1];
            return made;
          });
  }
}

TEST_CASE("exchanges in shard_map do what their names say, over one axis or two", "[shard_map]") {
  for (const std::string axes : {"x", "y", "xy", "yx"}) {
    const AxisNames over = names(axes);
    const size_t n = groups(axes)[0].size();
    const auto size = static_cast<int64_t>(n);
    const auto check = [&](auto f, auto expected) { check_each(axes, f, expected); };
    // [2,n,6]: element (i,d,j) is what device d has at (i,j).
    check([&](Tensor t) { return all_gather(t, over, {.axis = 1}); },
          [&](const Parts& m) {
            std::vector<double> all;
            for (size_t i = 0; i < 2; ++i)
              for (size_t d = 0; d < n; ++d)
                all.insert(all.end(), m[d].begin() + static_cast<long>(i) * 6,
                           m[d].begin() + static_cast<long>(i) * 6 + 6);
            return Parts(n, all);
          });
    CHECK(on_devices(
              [&](Tensor t) {
                const Tensor tiled = all_gather(t, over, {.axis = -1, .tiled = true});
                const Tensor apart = all_gather(t, over, {.axis = -2});
                return tiled - reshape(apart, {2, 6 * size});
              },
              kNumbers) == std::vector<double>(72 * n, 0));
    // Column d of a sum over groups of as many columns.
    const auto scattered = [&](const Parts& m) {
      const std::vector<double> sum = sums(m)[0];
      const size_t width = 6 / n;
      Parts made(n);
      for (size_t d = 0; d < n; ++d)
        for (size_t i = 0; i < 2; ++i)
          for (size_t j = 0; j < width; ++j) made[d].push_back(sum[i * 6 + d * width + j]);
      return made;
    };
    check([&](Tensor t) { return psum_scatter(t, over, {.axis = 1, .tiled = true}); }, scattered);
    if (n == 6) check([&](Tensor t) { return psum_scatter(t, over, {.axis = 1}); }, scattered);
    // Rows of device d: its columns of every device's, [2n, 6/n].
    check(
        [&](Tensor t) {
          return all_to_all(t, over, {.split_axis = 1, .concat_axis = 0, .tiled = true});
        },
        [&](const Parts& m) {
          const size_t width = 6 / n;
          Parts made(n);
          for (size_t d = 0; d < n; ++d)
            for (size_t from = 0; from < n; ++from)
              for (size_t i = 0; i < 2; ++i)
                for (size_t j = 0; j < width; ++j)
                  made[d].push_back(m[from][i * 6 + d * width + j]);
          return made;
        });
    if (n == 6)  // [6,2]: row f is column d of device f
      check([&](Tensor t) { return all_to_all(t, over, {.split_axis = 1, .concat_axis = 0}); },
            [&](const Parts& m) {
              Parts made(n);
              for (size_t d = 0; d < n; ++d)
                for (size_t from = 0; from < n; ++from)
                  for (size_t i = 0; i < 2; ++i) made[d].push_back(m[from][i * 6 + d]);
              return made;
            });
  }
}

namespace {

// Meshes with the axes of the tests, some of one device, one with its devices in another order, one
// with an axis that is automatic.
std::vector<Mesh> meshes() {
  return {Mesh{{"x", 2}, {"y", 3}}, Mesh{{"x", 3}, {"y", 1}}, Mesh{{"x", 1}, {"y", 1}},
          Mesh({{"y", 2}, {"x", 3}}, {5, 2, 0, 1, 4, 3}), Mesh{{"x", 3}, {"z", 2}, {"y", 2}}};
}

// Whether derivatives of make(mesh), a scalar function, are those of its values; and these, and its
// gradient, those of `plain` on every mesh.
template <class Make, class Plain>
Expectation is_plain(Make make, Plain plain, const Array& x) {
  const Expectation right = derivatives_are_right(make(meshes()[0]), x);
  if (!right) return right;
  const std::vector<Array> expected = reference_results(value_and_grad(plain), x);
  for (const Mesh& mesh : meshes()) {
    const auto fn = value_and_grad(make(mesh));
    const auto [value, gradient] = compile(fn, {.mesh = mesh, .poison = true}, x)(x);
    const Expectation same =
        expect_close({value, gradient}, expected, {1e-9, 1e-10}, "on " + to_string(mesh));
    if (!same) return same;
  }
  return {};
}

const Array kX = random_array({DType::f64, {6, 6}}, 11);
const Array kWeight = random_array({DType::f64, {6, 6}}, 12);

}  // namespace

TEST_CASE("derivatives of shard_map are those of the function on whole tensors", "[shard_map]") {
  // Data parallel: parts and what is shared; a loss that all devices have.
  const auto mean_loss = [](const Mesh& mesh) {
    return [=](Tensor w) {
      return shard_map(
          [](Tensor v, Tensor x) { return pmean(mean(square(sin(matmul(x, v)))), "x"); }, mesh,
          {{}, {"x", _}}, {}, {"x"})(w, full({DType::f64, {6, 6}}, 0.) + kWeight);
    };
  };
  CHECK(is_plain(
      mean_loss, [](Tensor w) { return mean(square(sin(matmul(kWeight + w * 0., w)))); }, kX));
  // A product cut over the dim that is summed; the result is cut over another axis.
  const auto partial = [](const Mesh& mesh) {
    return [=](Tensor x) {
      const auto product =
          shard_map([](Tensor a, Tensor b) { return psum(matmul(a, exp(b)), "x"); }, mesh,
                    {{_, "x"}, {"x", "y"}}, {_, "y"}, {"x", "y"});
      return sum(sin(product(x, x + kWeight)));
    };
  };
  CHECK(is_plain(
      partial, [](Tensor x) { return sum(sin(matmul(x, exp(x + kWeight)))); }, kX));
  // Closed over: what every device has as a whole.
  const auto closed = [](const Mesh& mesh) {
    return [=](Tensor x) {
      const Tensor scale = exp(mean(x));
      const auto f = shard_map([&](Tensor part) { return part * scale + kWeight * mean(scale); },
                               mesh, {{}}, {}, {"x"});
      return sum(square(f(x)));
    };
  };
  CHECK(is_plain(
      closed,
      [](Tensor x) {
        const Tensor scale = exp(mean(x));
        return sum(square(x * scale + kWeight * scale));
      },
      kX));
  // Gathered, scattered, and a result that is the same on all devices for no reason to be seen.
  const auto gathered = [](const Mesh& mesh) {
    return [=](Tensor x) {
      const auto f = shard_map(
          [](Tensor part, Tensor rows) {
            const Tensor all = all_gather(tanh(part), "x", {.axis = 0, .tiled = true});
            const Tensor mine = psum_scatter(matmul(all, rows), "x", {.axis = 0, .tiled = true});
            return std::pair{mine * part, ppermute(psum(mine, "x"), "x", {{0, 0}}) * 0. +
                                              psum(sum(square(mine)), "x")};
          },
          mesh, {{"x", _}, {}}, {{"x", _}, {}}, {"x"}, {.check_vma = false});
      const auto [parts, shared] = f(x, x);
      return sum(sin(parts)) + mean(shared) / static_cast<double>(mesh.size("x"));
    };
  };
  CHECK(derivatives_are_right(gathered(meshes()[0]), kX));
}

TEST_CASE("pmax shares a cotangent among equal elements, as max does", "[shard_map]") {
  const auto largest = [](const Mesh& mesh) {
    return [=](Tensor x) {
      const auto f = shard_map(
          [](Tensor part) {
            return std::pair{pmax(max(part, {.axes = 0}), "x"), pmin(min(part, {.axes = 0}), "x")};
          },
          mesh, {{"x", _}}, {{}, {}}, {"x"});
      const auto [high, low] = f(x);
      return sum(square(high) + sin(low));
    };
  };
  const auto plain = [](Tensor x) {
    return sum(square(max(x, {.axes = 0})) + sin(min(x, {.axes = 0})));
  };
  CHECK(is_plain(largest, plain, kX));
  const Array ones = Array::of<double>({6, 1}, {1, 0, 1, 1, 0, 1});
  const Array halves = compile(grad(shard_map([](Tensor part) { return sum(pmax(part, "x")); },
                                              Mesh{{"x", 3}}, {{"x", _}}, {})),
                               {.mesh = {{"x", 3}}}, ones)(ones);
  // Rows of devices: (1,0) (1,1) (0,1): the first elements have the maximum twice, so do the
  // others.
  CHECK(values(halves) == std::vector<double>{.5, 0, .5, .5, 0, .5});
}

TEST_CASE("shard_map in loops, branches and transforms, and those in it", "[shard_map]") {
  const auto layer = [](const Mesh& mesh) {
    return shard_map(
        [](Tensor x, Tensor w) {
          return psum_scatter(matmul(x, w), "x", {.axis = 0, .tiled = true});
        },
        mesh, {{_, "x"}, {"x", _}}, {"x", _}, {"x"});
  };
  const auto plain_layer = [](Tensor x, Tensor w) { return matmul(x, w); };
  const auto steps = [](auto f) {
    return [=](Tensor w) {
      const auto body = [&](Tensor carry, Tensor row) {
        const Tensor next = tanh(f(carry, w) + row);
        return std::pair{next, sum(next)};
      };
      const auto [last, sums] = scan(body, kWeight + w * 0., w);
      return sum(last) + sum(square(sums));
    };
  };
  SECTION("in scan") {
    CHECK(is_plain([&](const Mesh& m) { return steps(layer(m)); }, steps(plain_layer), kX));
  }
  SECTION("in cond and checkpoint") {
    const auto both = [](auto f) {
      return [=](Tensor w) {
        const auto taken = [&](Tensor x) { return sin(f(x, w)); };
        const Tensor y = cond(
            sum(w) > -100., taken, [](Tensor x) { return x; }, w);
        return sum(square(checkpoint(taken)(y)));
      };
    };
    CHECK(is_plain([&](const Mesh& m) { return both(layer(m)); }, both(plain_layer), kX));
  }
  SECTION("in vmap") {
    const auto batched = [](auto f) {
      return [=](Tensor w) {
        return sum(sin(vmap([&](Tensor x, Tensor s) { return f(x * s, w); },
                            {.in_axes = {not_batched, 0}})(w, slice(w, {0, 0}, {1, 3})(0))));
      };
    };
    CHECK(is_plain([&](const Mesh& m) { return batched(layer(m)); }, batched(plain_layer), kX));
  }
}

TEST_CASE("loops, branches, transforms and gradients inside of shard_map", "[shard_map]") {
  SECTION("a ring of steps in scan, with what differs by device carried") {
    // Row block i times all row blocks of w, of which one at a time is there.
    const auto ring = [](const Mesh& mesh) {
      return [=](Tensor x) {
        const int64_t n = mesh.size("x");
        std::vector<std::pair<int64_t, int64_t>> next;
        for (int64_t d = 0; d < n; ++d) next.emplace_back(d, (d + 1) % n);
        const auto f = shard_map(
            [=](Tensor part, Tensor rows) {  // [6/n,6] of both
              const auto step = [&](std::pair<Tensor, Tensor> carry, Tensor i) {
                const auto& [total, block] = carry;
                const Tensor from = remainder(axis_index("x") - i + n, n) * (6 / n);
                const Tensor mine = dynamic_slice(part, {0, from}, {6 / n, 6 / n});
                return std::pair{std::pair{total + matmul(mine, block), ppermute(block, "x", next)},
                                 Nothing{}};
              };
              return scan(step, std::pair{part * 0., rows}, iota({DType::s32, {n}}, 0)).first.first;
            },
            mesh, {{"x", _}, {"x", _}}, {"x", _}, {"x"});
        return sum(sin(f(x, exp(x))));
      };
    };
    CHECK(is_plain(
        ring, [](Tensor x) { return sum(sin(matmul(x, exp(x)))); }, kX));
  }
  SECTION("cond, checkpoint and vmap, with collectives in them") {
    const auto mixed = [](const Mesh& mesh) {
      return [=](Tensor x) {
        const auto f = shard_map(
            [](Tensor part) {
              const auto rows = [](Tensor row) { return row * pmean(sum(row), "x"); };
              const Tensor y = vmap(checkpoint(rows))(part);
              const auto both = [](Tensor t) { return psum(sin(t), "x") * t; };
              const auto other = [](Tensor t) { return t * 2.; };
              // Devices go different ways where there is nothing to exchange, together where there
              // is.
              const Tensor z = cond(
                  axis_index("x") < 1, [](Tensor t) { return exp(t); }, other, y);
              return cond(psum(sum(part), "x") > -1e6, both, other, z);
            },
            mesh, {{_, "x"}}, {_, "x"}, {"x"});
        return sum(square(f(x)));
      };
    };
    CHECK(derivatives_are_right(mixed(meshes()[0]), kX));
    const std::vector<Array> expected = reference_results(value_and_grad(mixed(meshes()[1])), kX);
    for (const Mesh& mesh : {meshes()[1], meshes()[3], meshes()[4]}) {
      const auto fn = value_and_grad(mixed(mesh));
      const auto [value, gradient] = compile(fn, {.mesh = mesh, .poison = true}, kX)(kX);
      CHECK(expect_close({value, gradient}, expected, {1e-9, 1e-10}, to_string(mesh)));
    }
  }
  SECTION("the gradient of each device's loss, and their mean") {
    const auto gradients = [](const Mesh& mesh) {
      return [=](Tensor w) {
        const auto local = [](Tensor weight, Tensor x) {
          return mean(square(tanh(matmul(x, weight))));
        };
        const auto f = shard_map(
            [&](Tensor weight, Tensor x) {
              return pmean(grad([&](Tensor v) { return local(v, x); })(weight), "x");
            },
            mesh, {{}, {"x", _}}, {}, {"x"});
        return sum(sin(f(w, kWeight + w * 0.)));
      };
    };
    const auto plain = [](Tensor w) {
      return sum(
          sin(grad([](Tensor v) { return mean(square(tanh(matmul(kWeight + v * 0., v)))); })(w)));
    };
    CHECK(is_plain(gradients, plain, kX));
  }
}

TEST_CASE("axes that are not manual stay automatic in shard_map", "[shard_map]") {
  const Mesh mesh{{"data", 2}, {"model", 3}};
  const auto layer = [&](Tensor x, Tensor w) {
    const auto f = shard_map(
        [&](Tensor part, Tensor weight) {
          CHECK(part.dims() == Dims{3, 6});
          const Tensor hidden = mesh_split(matmul(part, weight), mesh, {_, "model"});
          return pmean(hidden, "data");
        },
        mesh, {{"data", _}, {}}, {}, {"data"});
    return f(x, w);
  };
  const auto step = compile(layer, {.mesh = mesh}, kX, kWeight);
  const Expectation sent = expect_collectives(step, {{"all-reduce", "data", 1}});
  INFO(sent.message);
  CHECK(sent);
  const auto averaged = [](Tensor x, Tensor w) {
    const Tensor product = matmul(x, w);
    return (slice(product, {0, 0}, {3, 6}) + slice(product, {3, 0}, {6, 6})) / 2.;
  };
  CHECK(
      expect_close({step(kX, kWeight)}, reference_results(averaged, kX, kWeight), {1e-12, 1e-12}));
}

}  // namespace shard_map_test
