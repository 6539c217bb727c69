// What a whole run promises: order, names, provenance, size.

#include <chrono>

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::string origin_text(const Module& module, const std::string& name) {
  std::string text;
  for (const Origin& o : find_node(module, name)->origins)
    text += fmt::format("{}dim {} ({},{}) {}{}{}", text.empty() ? "" : "; ", o.dim, o.digit.size,
                        o.digit.stride, o.annotation, o.via.empty() ? "" : " via ", o.via);
  return text;
}

std::string layer(int64_t i, const std::string& in, const std::string& out) {
  return fmt::format(R"(w{0} = f32[1024,1024] parameter({1})
 d{0} = f32[1024,1024] dot({2}, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 t{0} = f32[1024,1024] tanh(d{0})
 {3} = f32[1024,1024] add(t{0}, {2})
 )",
                     i, i + 1, in, out);
}

}  // namespace

TEST_CASE("propagate: levels keep a broadcast from deciding before the ops around it") {
  // Alone, the broadcast would be split on dim 0; its reader knows better, and is not disturbed by
  // it.
  const char* const body = R"(k = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8,8] broadcast(k), dimensions={0}
 x = f32[8,8] parameter(1), sharding={devices=[1,4]<=[4]}
 y = f32[8,8] add(b, x)
 ROOT out = f32[8,8] copy(y))";
  CHECK(completes(body, "b") == "{devices=[1,4]<=[4]}");
  CHECK(completes(body, "y") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: a broadcast takes no layout from its readers before level 2") {
  // Else it would hand one reader's layout to the other before the product has spoken.
  const char* const body = R"(k = f32[] constant(2)
 b = f32[8,8] broadcast(k), dimensions={}
 u = f32[8,8] copy(b), sharding={devices=[4,1]<=[4]}
 x = f32[8,4] iota(), iota_dimension=0
 w = f32[4,8] parameter(0), sharding={devices=[1,4]<=[4]}
 d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 y = f32[8,8] add(b, d)
 ROOT out = (f32[8,8], f32[8,8]) tuple(u, y))";
  CHECK(completes(body, "d") == "{devices=[1,4]<=[4]}");
  CHECK(completes(body, "y") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: a layout gives way to one with more tiles only where that refines it") {
  // The product comes with four columns, where rows came first.
  const auto body = [](const char* op) {
    return fmt::format(R"(a = f32[8,8] iota(), iota_dimension=0
 x = f32[8,4] iota(), iota_dimension=0
 w = f32[4,8] parameter(0), sharding={{devices=[1,4]<=[4]}}
 d = f32[8,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 s = f32[8,8] slice(d), slice={{[0:8], [0:8]}}
 y = f32[8,8] {}
 c = f32[8,8] copy(y), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
 e = f32[8,8] tanh(c)
 ROOT out = f32[8,8] copy(e))",
                       op);
  };
  CHECK(completes(body("add(a, d)"), "y") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(body("add(a, s)"), "y") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  // With one operand and one reader, another layout costs one reshard at most.
  CHECK(completes(body("slice(s), slice={[0:8], [0:8]}"), "y") == "{devices=[1,4]<=[4]}");
  CHECK(completes(body("concatenate(s), dimensions={0}"), "y") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: partial sums are nobody else's") {
  const char* const body =
      R"(a = f32[8] parameter(0), sharding={devices=[2,2]<=[4] last_tile_dims={unreduced}}
 o = f32[8] opt-barrier(a)
 t = (f32[8], f32[8]) tuple(o, a)
 b = f32[8] tanh(a)
 ROOT out = ((f32[8], f32[8]), f32[8]) tuple(t, b))";
  const std::string halves = "{devices=[2,2]<=[4] last_tile_dim_replicate}";
  CHECK(completes(body, "o") == halves);
  CHECK(completes(body, "b") == halves);
  CHECK(completes(body, "t") == "{" + halves + ", " + halves + "}");
}

TEST_CASE("propagate: annotations and the way of each digit are known") {
  const auto module = completed(
      R"(x = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 w = f32[4,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 t = f32[8,6] tanh(y)
 r = f32[2,2,2,6] reshape(t)
 ROOT out = f32[2,2,2,6] copy(r))");
  CHECK(origin_text(*module, "x") == "dim 0 (2,2) x");
  CHECK(origin_text(*module, "y") == "dim 0 (2,2) x via x; dim 1 (2,1) w via w");
  CHECK(origin_text(*module, "t") == "dim 0 (2,2) x via y; dim 1 (2,1) w via y");
  CHECK(origin_text(*module, "r") == "dim 0 (2,2) x via t; dim 3 (2,1) w via t");
  const auto annotated = completed(R"(a = f32[8] iota(), iota_dimension=0
 b = f32[8] tanh(a)
 s = f32[8] custom-call(b), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
 u = (f32[8], f32[8]) tuple(a, s)
 o = (f32[8], f32[8]) opt-barrier(u)
 ROOT out = f32[8] get-tuple-element(o), index=1)");
  CHECK(origin_text(*annotated, "s") == "dim 0 (4,1) s");
  CHECK(origin_text(*annotated, "b") == "dim 0 (4,1) s via s");
  CHECK(origin_text(*annotated, "a") == "dim 0 (4,1) s via b");
  CHECK(origin_text(*annotated, "u") == "dim 0 (4,1) s via a; dim 0 (4,1) s via s");
  CHECK(origin_text(*annotated, "o") == "dim 0 (4,1) s via u; dim 0 (4,1) s via u");
  // A digit that was split is still the same annotation's; one that only the other operand knows
  // too.
  const auto parts = completed(R"(a = f32[24] parameter(0), sharding={devices=[8]<=[8]}
 r = f32[4,6] reshape(a)
 ROOT out = f32[4,6] copy(r))");
  CHECK(origin_text(*parts, "r") == "dim 0 (4,2) a via a; dim 1 (2,1) a via a");
}

TEST_CASE("propagate: names do not matter") {
  const std::string body = R"(A = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
 B = f32[4,8] parameter(1), sharding={devices=[1,4]<=[4]}
 C = f32[8,8] dot(A, B), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 D = f32[8,8] transpose(C), dimensions={1,0}
 E = f32[8,8] add(C, D)
 ROOT F = f32[8,8] copy(E))";
  const auto renamed = [&](const std::string& names) {
    std::string text;
    for (const char c : body)
      if (c >= 'A' && c <= 'F' && text.size() > 0 && (text.back() == ' ' || text.back() == '('))
        text += std::string("n") + names[static_cast<size_t>(c - 'A')];
      else if (text.empty())
        text += std::string("n") + names[0];
      else
        text += c;
    return text;
  };
  const auto shardings = [&](const std::string& names) {
    const auto module = completed(renamed(names));
    std::vector<std::string> result;
    for (const auto& node : module->entry()->nodes())
      result.push_back(node->sharding ? to_string_v2(*node->sharding) : "none");
    return result;
  };
  CHECK(shardings("abcdef") == shardings("fedcba"));
  CHECK(shardings("abcdef") == shardings("zbyaxc"));
}

TEST_CASE("propagate: the result says whether anything changed") {
  auto module = parse_module(R"(HloModule m
ENTRY main { a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] tanh(a)
 ROOT out = f32[8] copy(b) })");
  CHECK(propagate(*module));
  CHECK_FALSE(propagate(*module));
  auto plain = parse_module(R"(HloModule m
ENTRY main { a = f32[8] parameter(0)
 ROOT out = f32[8] copy(a) })");
  CHECK_FALSE(propagate(*plain, open_boundary()));
}

TEST_CASE("propagate: 65,536 devices take no longer than 8") {
  const auto seconds = [](const std::string& batch, const std::string& model) {
    std::string body = fmt::format("h0 = f32[1024,1024] parameter(0), sharding={}\n ", batch);
    for (int64_t i = 0; i < 100; ++i)
      body += layer(i, fmt::format("h{}", i), fmt::format("h{}", i + 1));
    body += fmt::format("s = f32[1024,1024] copy(h100), sharding={}\n ", model);
    body += "ROOT out = f32[1024,1024] copy(s)";
    auto module = parse_module("HloModule m\nENTRY main {\n" + body + "\n}");
    const auto start = std::chrono::steady_clock::now();
    propagate(*module, open_boundary());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CHECK(find_node(*module, "h50")->sharding->num_tiles() > 4);
    return took.count();
  };
  CHECK(seconds("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[2,4]<=[8]}") < 2);
  CHECK(seconds("{devices=[256,1,256]<=[65536] last_tile_dim_replicate}",
                "{devices=[256,256]<=[65536]}") < 2);
}
