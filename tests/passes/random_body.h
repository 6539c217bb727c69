#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

namespace gspmd {

// The body of an entry: a random graph over [6,6] and [6]: elementwise ops, row sums and their
// broadcasts, products, transposes.
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
    switch (below(9)) {
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
