#include "gspmd/api/debug.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "api/support.h"
#include "gspmd/api/shard_map.h"
#include "gspmd/ir/text.h"

using namespace gspmd;
using namespace gspmd::test;

namespace debug_test {
namespace {

// The lines printed while f runs, sorted where devices print them.
template <class F>
std::vector<std::string> printed(F f, bool sorted = false) {
  std::vector<std::string> lines;
  const auto before = debug_output([&](const std::string& line) { lines.push_back(line); });
  f();
  debug_output(before);
  if (sorted) std::sort(lines.begin(), lines.end());
  return lines;
}

using Lines = std::vector<std::string>;

const Mesh kMesh{{"x", 2}, {"y", 2}};
const Array kX = Array::of<float>({3}, {1, 2, 3});

// What running fn(kX) prints, the same by the reference interpreter, on one device and on a mesh.
template <class Fn>
Lines lines_of(Fn fn) {
  const Lines reference = printed([&] { reference_results(fn, kX); });
  for (const Mesh& mesh : {Mesh(), kMesh}) {
    auto step = compile(fn, {.mesh = mesh}, kX);
    INFO(step.text());
    CHECK(printed([&] { step(kX); }) == reference);
  }
  // Printed and read back.
  const auto read = parse_module(trace(fn, kX).text());
  CHECK(printed([&] { compile(*read, {.mesh = kMesh})({kX}); }) == reference);
  return reference;
}

}  // namespace

TEST_CASE("debug_print prints whole values once, whatever reads them", "[debug]") {
  CHECK(lines_of([](Tensor x) {
          debug_print("x {} twice {:.2f}", x, x * 2.);
          debug_print("say \"{}\" | \\ {{}}\n and {}", 7, x < 2.);
          return x;
        }) == Lines{"x [1, 2, 3] twice [2.00, 4.00, 6.00]",
                    "say \"7\" | \\ {}\n and [true, false, false]"});
  const Array whole = random_array({DType::f64, {4, 3}}, 3);
  const Lines many = printed([&] {
    reference_results(
        [](Tensor x) {
          debug_print("{}", iota({DType::s32, {40, 50}}, 1));
          debug_print("{} {}", complex(x, -x), max(x));
          return x;
        },
        Array::of<float>({1}, {1.5}));
  });
  CHECK(many[0].rfind("[[0, 1, 2, ..., 47, 48, 49], [0, 1, 2, ..., 47", 0) == 0);
  CHECK(many[1] == "[1.5 + -1.5i] 1.5");
}

TEST_CASE("debug_print says each step of loops and the branches that are taken", "[debug]") {
  CHECK(lines_of([](Tensor x) {
          const auto body = [](Tensor total, Tensor value) {
            debug_print("at {}", value);
            cond(
                value > 1.5,
                [](Tensor v) {
                  debug_print("large {}", v);
                  return v;
                },
                [](Tensor v) {
                  debug_print("small {}", v);
                  return v;
                },
                value);
            return std::pair{total + value, Nothing{}};
          };
          scan(body, sum(x), x);  // nobody reads what it gives
          return x;
        }) == Lines{"at 1", "small 1", "at 2", "large 2", "at 3", "large 3"});
}

TEST_CASE("debug_print speaks once in what is differentiated, made again or batched", "[debug]") {
  const auto noisy = [](Tensor x) {
    debug_print("f {}", x);
    const auto body = [](Tensor total, Tensor value) {
      debug_print("step {}", value);
      const auto squared = [](Tensor v) {
        debug_print("square {}", v);
        return v * v;
      };
      return std::pair{total + checkpoint(squared)(value), Nothing{}};
    };
    return scan(body, sum(x) * 0., x).first;
  };
  const Lines all{"f [1, 2, 3]", "step 1", "square 1", "step 2", "square 2", "step 3", "square 3"};
  CHECK(lines_of(noisy) == all);
  CHECK(lines_of(grad(noisy)) == all);
  CHECK(lines_of(value_and_grad(noisy)) == all);
  CHECK(lines_of([&](Tensor x) {
          return grad([&](Tensor t) { return sum(grad(noisy)(t)); })(x);
        }) == all);
  CHECK(lines_of([&](Tensor x) { return jvp(noisy, std::tuple{x}, std::tuple{x}).second; }) == all);
  const auto branch = [](Tensor x) {
    return sum(cond(
        sum(x) > 0.,
        [](Tensor v) {
          debug_print("yes");
          return sin(v);
        },
        [](Tensor v) {
          debug_print("no");
          return v;
        },
        checkpoint(
            [](Tensor v) {
              debug_print("once");
              return exp(v);
            },
            CheckpointPolicy::everything())(x)));
  };
  Lines taken = lines_of(grad(branch));  // in any order: neither reads the other
  std::sort(taken.begin(), taken.end());
  CHECK(taken == Lines{"once", "yes"});
  CHECK(lines_of([](Tensor x) {
          return vmap([](Tensor v) {
            debug_print("v {} and {}", v, 1.5);
            return v * 2.;
          })(x);
        }) == Lines{"v [1, 2, 3] and 1.5"});
}

TEST_CASE("debug_print on every device says its part and its coordinates", "[debug]") {
  const auto parts = [](Tensor x) {
    debug_print({.every_device = true}, "x {}", mesh_split(x, kMesh, {"x"}));
    return x;
  };
  auto step = compile(parts, {.mesh = kMesh}, kX);
  CHECK(printed([&] { step(kX); }, true) ==
        Lines{"device 0 (x=0,y=0): x [1, 2]", "device 1 (x=0,y=1): x [1, 2]",
              "device 2 (x=1,y=0): x [3]", "device 3 (x=1,y=1): x [3]"});
  const auto inside = [](Tensor x) {
    return shard_map(
        [](Tensor part) {
          debug_print("{} at {}", part, axis_index("y"));
          return part;
        },
        kMesh, {{"x"}}, {"x"})(concatenate({x, x}, 0));
  };
  const Lines expected{"device 0 (x=0,y=0): [1, 2, 3] at 0", "device 1 (x=0,y=1): [1, 2, 3] at 1",
                       "device 2 (x=1,y=0): [1, 2, 3] at 0", "device 3 (x=1,y=1): [1, 2, 3] at 1"};
  auto manual = compile(inside, {.mesh = kMesh}, kX);
  CHECK(printed([&] { manual(kX); }, true) == expected);
  CHECK(printed([&] { reference_results(inside, kX); }, true) == expected);
}

TEST_CASE("looking on changes neither layouts nor collectives", "[debug]") {
  const auto program = [](bool look) {
    return compile(
               [=](Tensor x, Tensor w) {
                 const Tensor y = matmul(mesh_split(x, kMesh, {"x", _}), w);
                 if (look) debug_check(y < 1e9, "large {}", y);
                 if (look) debug_print({.every_device = true}, "{}", y);
                 return tanh(y);
               },
               {.mesh = kMesh}, Shape(DType::f32, {4, 6}), Shape(DType::f32, {6, 8}))
        .stats()
        .collective_count;
  };
  CHECK(program(true) == program(false));
}

TEST_CASE("debug_check ends the run with the line, the device and the text", "[debug]") {
  Site line;
  const auto checked = [&](Tensor x) {
    line = Site::here(), debug_check(mesh_split(x, kMesh, {"x"}) < 2.5, "x is {}", x);
    return x;
  };
  {
    auto step = compile(checked, {.mesh = kMesh}, kX);
    CHECK_NOTHROW(step(Array::of<float>({3}, {1, 2, 2})));
    const std::string message = message_of<ExecutionError>([&] { step(kX); });
    INFO(message);
    CHECK(message.find("debug_check: x is [") != std::string::npos);
    CHECK(message.find("(x=1,y=") != std::string::npos);
    CHECK(message.find(at_line(line.file, line.line)) != std::string::npos);
  }
  CHECK_THROWS_AS(reference_results(checked, kX), ExecutionError);
  const auto in_loop = grad([](Tensor x) {
    const auto body = [](Tensor total, Tensor v) {
      debug_check(v < 2.5, "v = {:.1f}", v);
      return std::pair{total + sin(v), Nothing{}};
    };
    return scan(body, sum(x) * 0., x).first;
  });
  auto step = compile(in_loop, {.mesh = kMesh}, kX);
  CHECK_THROWS_WITH(step(kX), Catch::Contains("v = 3.0"));
}

TEST_CASE("debug calls name wrong texts, conditions and places", "[debug][error]") {
  trace(
      [](Tensor x) {
        GSPMD_REQUIRE_ERROR("debug_print: the text \"{} {}\" does not fit 1 values",
                            debug_print("{} {}", x));
        GSPMD_REQUIRE_ERROR("does not fit 1 values", debug_print("{:.2d}", x));
        GSPMD_REQUIRE_ERROR("debug_print: the text \"x\" has no field for the last of 1 values",
                            debug_print("x", x));
        GSPMD_REQUIRE_ERROR("debug_check: the text \"{}\" has no field for the last of 2 values",
                            debug_check(x < 1, "{}", x, 2));
        debug_print("{1} {0}", x, 2);
        const char* const null = nullptr;
        GSPMD_REQUIRE_ERROR("debug_print: the text \"\" has no field", debug_print(null, x));
        GSPMD_REQUIRE_ERROR("debug_check: needs pred values", debug_check(x, "x"));
        GSPMD_REQUIRE_ERROR("the condition 1 is a C++ number", debug_check(true, "x"));
        return x;
      },
      kX);
  CHECK_THROWS_WITH(debug_print("x"), Catch::Contains("called outside a trace"));
  CHECK_THROWS_WITH(parse_module("HloModule m\nENTRY e { ROOT p = pred[] custom-call(), "
                                 "custom_call_target=\"gspmd.debug_print\" }"),
                    Catch::Contains("backend_config none"));
}

TEST_CASE("check_numbers names the first operation, line, device and element", "[debug]") {
  Site line;
  const auto fn = [&](Tensor x) {
    const Tensor split = mesh_split(x, kMesh, {"x"});
    line = Site::here();
    const Tensor y = log(split - 2.) * 2.;
    return sum(sqrt(y)) + sum(exp(y));
  };
  const CompileOptions options{.mesh = kMesh, .check_numbers = true};
  auto step = compile(fn, options, kX);
  CHECK(step(Array::of<float>({3}, {4, 5, 6})).item() > 0);
  const auto of = [&](const Array& x) { return message_of<ExecutionError>([&] { step(x); }); };
  const std::string infinite = of(Array::of<float>({3}, {4, 5, 2}));
  INFO(infinite);
  CHECK(
      infinite.find("check_numbers: log \"log\" makes -inf at [2] of finite numbers, on device") !=
      std::string::npos);
  CHECK(infinite.find("(x=1,y=") != std::string::npos);
  CHECK(infinite.find(at_line(line.file, line.line + 1)) != std::string::npos);
  CHECK(of(Array::of<float>({3}, {1, 5, 6})).find("makes nan at [0]") != std::string::npos);
  // What comes in is not made here, and masks may be infinite.
  const auto masked = [](Tensor x) {
    const Tensor scores = where(x < 2., -std::numeric_limits<double>::infinity(), x);
    return sum(softmax(scores)) + max(scores);
  };
  CHECK(compile(masked, options, kX)(kX).item() == 4);
  CHECK_NOTHROW(step(Array::of<float>({3}, {4, 5, std::nanf("")})));
}

TEST_CASE("check_numbers looks into loops, branches, gradients and manual code", "[debug]") {
  const CompileOptions options{.mesh = kMesh, .check_numbers = true};
  const auto in_loop = grad([](Tensor x) {
    const auto body = [](Tensor total, Tensor v) {
      return std::pair{
          total + cond(
                      v > 2., [](Tensor u) { return sqrt(u - 3.); }, [](Tensor u) { return u; }, v),
          Nothing{}};
    };
    return scan(body, sum(x) * 0., x).first;
  });
  auto step = compile(in_loop, options, kX);
  CHECK_NOTHROW(step(Array::of<float>({3}, {1, 2, 3.5})));
  CHECK_THROWS_WITH(step(kX), Catch::Contains("makes inf of finite numbers"));
  const auto manual =
      shard_map([](Tensor t) { return 1. / (t - psum(t, "x") / 2.); }, kMesh, {{"x"}}, {"x"});
  auto region = compile(manual, options, Shape(DType::f32, {4}));
  CHECK_NOTHROW(region(Array::of<float>({4}, {1, 2, 3, 4})));
  CHECK_THROWS_WITH(region(Array::of<float>({4}, {1, 2, 3, 2})),
                    Catch::Contains("makes inf at [1] of finite numbers, on device"));
}

TEST_CASE("GSPMD_TRACE=verbose says each operation with time and shapes", "[debug]") {
  auto step = compile(
      [&](Tensor x) {
        const Tensor y = tanh(mesh_split(x, kMesh, {"x"}));
        return scan(
                   [](Tensor c, Tensor v) {
                     return std::pair{c * v, Nothing{}};
                   },
                   sum(y), y)
            .first;
      },
      {.mesh = kMesh}, kX);
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int before = dup(2);
  dup2(fileno(file), 2);
  setenv("GSPMD_TRACE", "verbose", 1);
  step(kX);
  unsetenv("GSPMD_TRACE");
  dup2(before, 2);
  close(before);
  std::rewind(file);
  Lines lines;
  char text[1000];
  while (std::fgets(text, sizeof(text), file) != nullptr) lines.emplace_back(text);
  std::fclose(file);
  const auto count = [&](const std::string& part) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& said) {
      return said.find(part) != std::string::npos && said.find(" us  ") != std::string::npos;
    });
  };
  CHECK(count("device 3") > 0);
  CHECK(count(" f32[2]") > 0);
  CHECK(count("all-reduce f32[] of f32[]") == 4);
  CHECK(count("while (") == 4);
  CHECK(count("(debug_test.cpp:") > 0);
  step(kX);  // says nothing
}

TEST_CASE("debug calls where some axes are manual, and batched ones", "[debug]") {
  const auto partly = [](Tensor x) {
    return shard_map(
        [](Tensor part) {
          const Tensor y = mesh_split(part * 2., kMesh, {"y"});
          debug_print("y {}", y);
          debug_check(y < 7., "y is {}", y);
          return y;
        },
        kMesh, {{"x"}}, {"x"}, {"x"})(concatenate({x, x * 0.}, 0));
  };
  auto step = compile(partly, {.mesh = kMesh}, Shape(DType::f32, {2}));
  CHECK(printed(
            [&] {
              step(Array::of<float>({2}, {1, 2}));
            },
            true) == Lines{"device 0 (x=0,y=0): y [2]", "device 1 (x=0,y=1): y [4]",
                           "device 2 (x=1,y=0): y [0]", "device 3 (x=1,y=1): y [0]"});
  printed([&] {
    CHECK_THROWS_WITH(step(Array::of<float>({2}, {1, 4})),
                      Catch::Contains("y is [8]") && Catch::Contains("device 1 (x=0,y=1)"));
  });
  const auto batched = vmap([](Tensor v) {
    debug_check(v < 3., "v is {}", v);
    return v;
  });
  CHECK_THROWS_WITH(compile(batched, {.mesh = kMesh}, kX)(kX),
                    Catch::Contains("v is") && Catch::Contains("false at [2]"));
}

TEST_CASE("cross_entropy finds labels that are no class where it is asked to", "[debug]") {
  const Array logits = random_array({DType::f32, {4, 3}}, 2);
  const auto loss = [](bool check) {
    return [=](Tensor x, Tensor labels) {
      return grad([&](Tensor t) {
        return cross_entropy(t, mesh_split(labels, kMesh, {"x"}), {.check_labels = check});
      })(x);
    };
  };
  const auto labels = [](std::vector<int32_t> all) { return Array::of<int32_t>({4}, all); };
  auto checked = compile(loss(true), {.mesh = kMesh}, logits, labels({0, 1, 2, 0}));
  CHECK_NOTHROW(checked(logits, labels({0, 1, 2, 0})));
  for (const int wrong : {3, -1})
    CHECK_THROWS_WITH(checked(logits, labels({0, 1, 2, wrong})),
                      Catch::Contains("a label is not one of the 3 classes, 0 to 2") &&
                          Catch::Contains("at [3], on device") &&
                          Catch::Contains("debug_test.cpp"));
  auto unchecked = compile(loss(false), {.mesh = kMesh}, logits, labels({0, 1, 2, 0}));
  CHECK_NOTHROW(unchecked(logits, labels({0, 1, 2, 3})));
}

}  // namespace debug_test
