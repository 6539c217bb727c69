#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

namespace gspmd {

// [first:last:step] of one dim, all of the other.
inline std::string slice_of(const std::string& x, size_t dim, int first, int last, int step) {
  const std::string part = fmt::format("[{}:{}:{}]", first, last, step);
  return fmt::format("slice({}), slice={{{}, {}}}", x, dim == 0 ? part : "[0:6]",
                     dim == 0 ? "[0:6]" : part);
}

// Some rows or columns of a, then the rest of b with other signs.
inline std::string random_roll(std::mt19937_64& random, const std::string& name,
                               const std::string& a, const std::string& b) {
  const size_t dim = random() % 2;
  const int k = 1 + int(random() % 5);
  const auto part = [&](int n) {
    return fmt::format("f32[{},{}]{{1,0}} ", dim == 0 ? n : 6, dim == 0 ? 6 : n);
  };
  return fmt::format("a{0} = {1}{2}\nb{0} = {3}{4}\nc{0} = {3}negate(b{0})\n", name, part(6 - k),
                     slice_of(a, dim, k, 6, 1), part(k), slice_of(b, dim, 0, k, 1)) +
         fmt::format("{0} = f32[6,6]{{1,0}} concatenate(a{0}, c{0}), dimensions={{{1}}}\n", name,
                     dim);
}

// Moved by some rows and columns, with what comes in from a constant; signs taken first.
inline std::string random_shift(std::mt19937_64& random, const std::string& name,
                                const std::string& a) {
  const int i = int(random() % 5) - 2, j = int(random() % 5) - 2;
  return fmt::format(
      "s{0} = f32[6,6]{{1,0}} sign({1})\n{0} = f32[6,6]{{1,0}} pad(s{0}, low), "
      "padding={2}_{3}x{4}_{5}\n",
      name, a, i, -i, j, -j);
}

// Every second row or column of a in turn with those of b: pads, and their sum.
inline std::string random_halves(std::mt19937_64& random, const std::string& name,
                                 const std::string& a, const std::string& b) {
  const size_t dim = random() % 2;
  const int first = int(random() % 2);
  const std::string half = dim == 0 ? "f32[3,6]{1,0} " : "f32[6,3]{1,0} ";
  const auto padding = [&](int low) {
    const std::string spread = fmt::format("{}_{}_1", low, 1 - low);
    return dim == 0 ? spread + "x0_0" : "0_0x" + spread;
  };
  return fmt::format("a{0} = {1}{2}\nb{0} = {1}{3}\nm{0} = {1}maximum(a{0}, b{0})\n", name, half,
                     slice_of(a, dim, first, 6, 2), slice_of(b, dim, 1 - first, 6, 2)) +
         fmt::format("p{0} = f32[6,6]{{1,0}} pad(m{0}, zero), padding={1}\n", name,
                     padding(first)) +
         fmt::format("q{0} = f32[6,6]{{1,0}} pad(b{0}, low), padding={1}\n", name,
                     padding(1 - first)) +
         fmt::format("{0} = f32[6,6]{{1,0}} maximum(p{0}, q{0})\n", name);
}

// The body of an entry: a random graph over [6,6] and [6]: elementwise ops, row sums and their
// broadcasts, products, transposes, slices that are put together again and pads.
inline std::string random_loop_body(std::mt19937_64& random) {
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::string body = R"(
    x = f32[6,6]{1,0} parameter(0)
    y = f32[6,6]{1,0} parameter(1)
    v = f32[6]{0} parameter(2)
    zero = f32[] constant(0)
    low = f32[] constant(-8)
    lows = f32[6,6]{1,0} broadcast(low), dimensions={}
)";
  std::vector<std::string> full{"x", "y"}, rows{"v"};
  for (int i = 0; i < 18; ++i) {
    const std::string name = fmt::format("n{}", i), a = full[below(full.size())],
                      b = full[below(full.size())];
    const std::string r = rows[below(rows.size())], shape = " = f32[6,6]{1,0} ";
    switch (below(12)) {
      case 0:
        body += name + shape + "maximum(" + a + ", " + b + ")\n";
        break;
      case 1:
        body += name + shape + "subtract(" + a + ", " + b + ")\n";
        break;
      case 2:
        body += name + shape + "clamp(low, " + a + ", " + b + ")\n";
        break;
      case 3:
        body +=
            name + shape + "broadcast(" + r + "), dimensions={" + std::to_string(below(2)) + "}\n";
        break;
      case 4:
        body += name + shape + "minimum(" + a + ", lows)\n";
        break;
      case 5:
        body += name + shape + "transpose(" + a + "), dimensions={1,0}\n";
        break;
      case 6:
        body += "c" + name + shape + "sign(" + a + ")\n" + "d" + name + shape + "sign(" + b +
                ")\n" + name + shape + "dot(c" + name + ", d" + name +
                "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
        break;
      case 7:
        body += "c" + name + shape + "sign(" + a + ")\n" + name + " = f32[6]{0} reduce(c" + name +
                ", zero), dimensions={" + std::to_string(below(2)) + "}, to_apply=sum\n";
        rows.push_back(name);
        continue;
      case 8:
        body += random_roll(random, name, a, b);
        break;
      case 9:
        body += random_shift(random, name, a);
        break;
      case 10:
        body += random_halves(random, name, a, b);
        break;
      default:
        body += name + " = f32[6]{0} add(" + r + ", " + rows[below(rows.size())] + ")\n";
        rows.push_back(name);
        continue;
    }
    full.push_back(name);
  }
  body += "ROOT r = (f32[6,6]{1,0}, f32[6,6]{1,0}, f32[6]{0}) tuple(" + full.back() + ", " +
          full[below(full.size())] + ", " + rows.back() + ")";
  return body;
}

}  // namespace gspmd
