#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace gspmd {

// [first:last:step] of one of two dims of size n, all of the other.
inline std::string slice_of(const std::string& x, int n, size_t dim, int first, int last,
                            int step) {
  const std::string part = fmt::format("[{}:{}:{}]", first, last, step),
                    all = fmt::format("[0:{}]", n);
  return fmt::format("slice({}), slice={{{}, {}}}", x, dim == 0 ? part : all,
                     dim == 0 ? all : part);
}

// Some rows or columns of a, then the rest of b with other signs.
inline std::string random_roll(std::mt19937_64& random, int n, const std::string& name,
                               const std::string& a, const std::string& b) {
  const size_t dim = random() % 2;
  const int k = 1 + int(random() % 5);
  const auto part = [&](int size) {
    return fmt::format("f32[{},{}]{{1,0}} ", dim == 0 ? size : n, dim == 0 ? n : size);
  };
  return fmt::format("a{0} = {1}{2}\nb{0} = {3}{4}\nc{0} = {3}negate(b{0})\n", name, part(n - k),
                     slice_of(a, n, dim, k, n, 1), part(k), slice_of(b, n, dim, 0, k, 1)) +
         fmt::format("{0} = {1}concatenate(a{0}, c{0}), dimensions={{{2}}}\n", name, part(n), dim);
}

// Moved by some rows and columns, with what comes in from a constant; signs taken first.
inline std::string random_shift(std::mt19937_64& random, int n, const std::string& name,
                                const std::string& a) {
  const int i = int(random() % 5) - 2, j = int(random() % 5) - 2;
  return fmt::format(
      "s{0} = f32[{6},{6}]{{1,0}} sign({1})\n{0} = f32[{6},{6}]{{1,0}} pad(s{0}, low), "
      "padding={2}_{3}x{4}_{5}\n",
      name, a, i, -i, j, -j, n);
}

// Every second row or column of a in turn with those of b: pads, and their sum.
inline std::string random_halves(std::mt19937_64& random, int n, const std::string& name,
                                 const std::string& a, const std::string& b) {
  const size_t dim = random() % 2;
  const int first = int(random() % 2);
  const std::string whole = fmt::format("f32[{0},{0}]{{1,0}} ", n),
                    half = fmt::format("f32[{},{}]{{1,0}} ", dim == 0 ? n / 2 : n,
                                       dim == 0 ? n : n / 2);
  const auto padding = [&](int low) {
    const std::string spread = fmt::format("{}_{}_1", low, 1 - low);
    return dim == 0 ? spread + "x0_0" : "0_0x" + spread;
  };
  return fmt::format("a{0} = {1}{2}\nb{0} = {1}{3}\nm{0} = {1}maximum(a{0}, b{0})\n", name, half,
                     slice_of(a, n, dim, first, n, 2), slice_of(b, n, dim, 1 - first, n, 2)) +
         fmt::format("p{0} = {1}pad(m{0}, zero), padding={2}\n", name, whole, padding(first)) +
         fmt::format("q{0} = {1}pad(b{0}, low), padding={2}\n", name, whole, padding(1 - first)) +
         fmt::format("{0} = {1}maximum(p{0}, q{0})\n", name, whole);
}

// The body of an entry: a random graph over [n,n] and [n], n even: elementwise ops, row sums and
// their broadcasts, products, transposes, slices that are put together again and pads.
inline std::string random_loop_body(std::mt19937_64& random, int n = 6) {
  const auto below = [&](size_t count) { return size_t(random() % count); };
  const std::string whole = fmt::format("f32[{0},{0}]{{1,0}} ", n),
                    row = fmt::format("f32[{}]{{0}} ", n);
  std::string body =
      "x = " + whole + "parameter(0)\ny = " + whole + "parameter(1)\nv = " + row +
      "parameter(2)\nzero = f32[] constant(0)\nlow = f32[] constant(-8)\nlows = " + whole +
      "broadcast(low), dimensions={}\n";
  std::vector<std::string> full{"x", "y"}, rows{"v"};
  for (int i = 0; i < 18; ++i) {
    const std::string name = fmt::format("n{}", i), a = full[below(full.size())],
                      b = full[below(full.size())];
    const std::string r = rows[below(rows.size())], shape = " = " + whole;
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
        body += "c" + name + shape + "sign(" + a + ")\n" + name + " = " + row + "reduce(c" + name +
                ", zero), dimensions={" + std::to_string(below(2)) + "}, to_apply=sum\n";
        rows.push_back(name);
        continue;
      case 8:
        body += random_roll(random, n, name, a, b);
        break;
      case 9:
        body += random_shift(random, n, name, a);
        break;
      case 10:
        body += random_halves(random, n, name, a, b);
        break;
      default:
        body += name + " = " + row + "add(" + r + ", " + rows[below(rows.size())] + ")\n";
        rows.push_back(name);
        continue;
    }
    full.push_back(name);
  }
  return body + "ROOT r = (" + whole + ", " + whole + ", " + row + ") tuple(" + full.back() + ", " +
         full[below(full.size())] + ", " + rows.back() + ")";
}

// The same over [n,1,n], [n,1] and [n]: chains of reductions of the last dim, of what is computed
// of them, and of readers of both, as softmax, norms and cross entropy are, and what is none.
inline std::string random_rows_body(std::mt19937_64& random, int n) {
  const auto below = [&](size_t count) { return size_t(random() % count); };
  const std::string whole = fmt::format("f32[{0},1,{0}] ", n), one = fmt::format("f32[{},1] ", n),
                    row = fmt::format("f32[{}] ", n);
  std::string body = "x = " + whole + "parameter(0)\ny = " + whole + "parameter(1)\nv = " + row +
                     "parameter(2)\nzero = f32[] constant(0)\nlow = f32[] constant(-8)\n";
  std::vector<std::string> full{"x", "y"}, ones, rows{"v"};
  std::vector<std::string> outputs, types;
  for (int i = 0; i < 16; ++i) {
    const std::string name = fmt::format("n{}", i);
    // The last ones are read most, so that chains are long.
    const auto of = [&](const std::vector<std::string>& list) {
      return list[list.size() - 1 - below(std::min<size_t>(list.size(), 3))];
    };
    const std::string a = of(full), b = of(full), r = of(rows);
    const size_t what = below(9);
    if (what < 3) {
      const char* const ops[] = {"maximum", "subtract", "minimum"};
      body += fmt::format("{} = {}{}({}, {})\n", name, whole, ops[what], a, b);
    } else if (what < 5) {
      body += fmt::format(
          "s{0} = {1}sign({2})\n{0} = {3}reduce(s{0}, {4}), dimensions={{2}}, {5}\n", name, whole,
          a, one, what == 3 ? "zero" : "low", what == 3 ? "to_apply=sum" : "to_apply=most");
      ones.push_back(name);
      types.push_back(one), outputs.push_back(name);
      continue;
    } else if (what == 5 && !ones.empty()) {
      body += fmt::format("{} = {}reshape({})\n", name, row, of(ones));
      rows.push_back(name);
      continue;
    } else if (what == 6) {
      if (below(4) == 0)
        body += fmt::format("{} = {}reverse({}), dimensions={{0}}\n", name, row, r);
      else
        body += fmt::format("{} = {}maximum({}, {})\n", name, row, r, of(rows));
      rows.push_back(name);
      types.push_back(row), outputs.push_back(name);
      continue;
    } else if (what == 7 && !ones.empty()) {
      body += fmt::format(
          "w{0} = {1}broadcast({2}), dimensions={{0,1}}\n{0} = {1}subtract({3}, w{0})\n", name,
          whole, of(ones), a);
    } else {
      body +=
          fmt::format("w{0} = {1}broadcast({2}), dimensions={{{4}}}\n{0} = {1}maximum({3}, w{0})\n",
                      name, whole, r, a, below(4) == 0 ? 2 : 0);
    }
    full.push_back(name);
    if (below(3) == 0) types.push_back(whole), outputs.push_back(name);
  }
  types.push_back(whole), outputs.push_back(full.back());
  return body +
         fmt::format("ROOT r = ({}) tuple({})", fmt::join(types, ", "), fmt::join(outputs, ", "));
}

}  // namespace gspmd
