#include "gspmd/passes/fuse/fuse.h"

#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "load.h"
#include "passes/random_body.h"

namespace gspmd::fuse_test {
namespace {

const char* const kHeader = R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
)";

std::unique_ptr<Module> entry(const std::string& body) {
  return parse_module(fmt::format("{}ENTRY e {{\n{}\n}}\n", kHeader, body));
}

// What runs: one line per node of the entry that is no parameter, tuple or element, fusions with
// the opcodes inside.
std::vector<std::string> steps(const Module& module) {
  std::vector<std::string> out;
  for (const auto& node : module.entry()->nodes()) {
    if (node->is(Opcode::parameter) || node->is(Opcode::tuple) ||
        node->is(Opcode::get_tuple_element))
      continue;
    std::string line(opcode_name(node->opcode()));
    if (node->is(Opcode::fusion)) {
      std::vector<std::string> inside;
      for (const auto& inner : node->called[0]->nodes()) {
        if (!inner->is(Opcode::parameter)) inside.emplace_back(opcode_name(inner->opcode()));
      }
      line = *node->attrs.fusion_kind + ": " + fmt::format("{}", fmt::join(inside, " "));
    }
    out.push_back(line);
  }
  return out;
}

std::vector<std::string> fused(const std::string& body) {
  const auto module = entry(body);
  fuse(*module);
  verify_module(*module);
  CHECK_FALSE(fuse(*module));
  return steps(*module);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("fuse: a chain with broadcasts and scalar constants is one loop", "[fuse]") {
  CHECK(fused(R"(
    x = f32[4,8]{1,0} parameter(0)
    b = f32[8]{0} parameter(1)
    two = f32[] constant(2)
    twos = f32[4,8]{1,0} broadcast(two), dimensions={}
    bb = f32[4,8]{1,0} broadcast(b), dimensions={1}
    y = f32[4,8]{1,0} multiply(x, twos)
    ROOT z = f32[4,8]{1,0} add(y, bb))") ==
        Lines{"kLoop: constant broadcast multiply broadcast add"});
}

TEST_CASE("fuse: a value that others read too becomes a second result", "[fuse]") {
  CHECK(fused(R"(
    x = f32[8,8]{1,0} parameter(0)
    y = f32[8,8]{1,0} add(x, x)
    d = f32[8,8]{1,0} dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    z = f32[8,8]{1,0} negate(y)
    ROOT r = (f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(z, d))") ==
        Lines{"kLoop: add negate tuple", "dot"});
}

TEST_CASE("fuse: no path leaves a fusion and comes back", "[fuse]") {
  CHECK(fused(R"(
    x = f32[8,8]{1,0} parameter(0)
    y = f32[8,8]{1,0} exponential(x)
    d = f32[8,8]{1,0} dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT z = f32[8,8]{1,0} add(y, d))") == Lines{"exponential", "dot", "add"});
}

TEST_CASE("fuse: reductions of a loop's values join it, what follows them does not", "[fuse]") {
  CHECK(fused(R"(
    x = f32[4,7]{1,0} parameter(0)
    zero = f32[] constant(0)
    y = f32[4,7]{1,0} multiply(x, x)
    s = f32[4]{0} reduce(y, zero), dimensions={1}, to_apply=sum
    q = f32[4]{0} rsqrt(s)
    qb = f32[4,7]{1,0} broadcast(q), dimensions={0}
    ROOT z = f32[4,7]{1,0} multiply(x, qb))") ==
        Lines{"kInput: multiply constant reduce", "rsqrt", "kLoop: broadcast multiply"});
}

// x / sum(x), of n rows; the sum is read as row `dim` of the result says.
std::vector<std::string> shares(int rows, int row, int dim) {
  return fused(fmt::format(R"(
    x = f32[{0},{1}] parameter(0)
    zero = f32[] constant(0)
    s = f32[{0}] reduce(x, zero), dimensions={{1}}, to_apply=sum
    q = f32[{0}] rsqrt(s)
    qb = f32[{0},{1}] broadcast(q), dimensions={{{2}}}
    ROOT z = f32[{0},{1}] multiply(x, qb))",
                           rows, row, dim));
}

TEST_CASE("fuse: reductions of rows and what reads them with the rows are one loop", "[fuse]") {
  const Lines one{"kInput: constant reduce rsqrt broadcast multiply"};
  const Lines several{"constant", "reduce", "rsqrt", "kLoop: broadcast multiply"};
  CHECK(shares(100, 8, 0) == one);
  CHECK(shares(3, 16384, 0) == one);
  CHECK(shares(100, 7, 0) == several);    // too short to be gone through row by row
  CHECK(shares(3, 16385, 0) == several);  // too long to be kept
  CHECK(shares(64, 64, 0) == one);
  CHECK(shares(64, 64, 1) == several);  // of column j what is of row j
}

TEST_CASE("fuse: softmax and its cross entropy with the gradient are one loop", "[fuse]") {
  CHECK(fused(R"(
    x = f32[8,16,512] parameter(0)
    labels = s32[8,16] parameter(1)
    given = f32[8,16] parameter(2)
    zero = f32[] constant(0)
    low = f32[] constant(-inf)
    m = f32[8,16] reduce(x, low), dimensions={2}, to_apply=most
    mb = f32[8,16,512] broadcast(m), dimensions={0,1}
    d = f32[8,16,512] subtract(x, mb)
    e = f32[8,16,512] exponential(d)
    s = f32[8,16] reduce(e, zero), dimensions={2}, to_apply=sum
    l = f32[8,16] log(s)
    at = s32[8,16,512] iota(), iota_dimension=2
    lb = s32[8,16,512] broadcast(labels), dimensions={0,1}
    is = pred[8,16,512] compare(at, lb), direction=EQ
    zeros = f32[8,16,512] broadcast(zero), dimensions={}
    picked = f32[8,16,512] select(is, d, zeros)
    p = f32[8,16] reduce(picked, zero), dimensions={2}, to_apply=sum
    loss = f32[8,16] subtract(l, p)
    n = f32[8,16] negate(given)
    g = f32[8,16] divide(given, s)
    gb = f32[8,16,512] broadcast(g), dimensions={0,1}
    nb = f32[8,16,512] broadcast(n), dimensions={0,1}
    own = f32[8,16,512] select(is, nb, zeros)
    all = f32[8,16,512] multiply(gb, e)
    dx = f32[8,16,512] add(own, all)
    ROOT r = (f32[8,16], f32[8,16,512]) tuple(loss, dx))")
            .size() == 2);  // and the loss, which only rows make
}

TEST_CASE("fuse: norms whose means keep a dim of size 1 are one loop", "[fuse]") {
  CHECK(fused(R"(
    x = f32[32,128] parameter(0)
    w = f32[128] parameter(1)
    zero = f32[] constant(0)
    count = f32[] constant(128)
    counts = f32[32,1] broadcast(count), dimensions={}
    s = f32[32] reduce(x, zero), dimensions={1}, to_apply=sum
    s1 = f32[32,1] reshape(s)
    mean = f32[32,1] divide(s1, counts)
    mean0 = f32[32] reshape(mean)
    mb = f32[32,128] broadcast(mean0), dimensions={0}
    c = f32[32,128] subtract(x, mb)
    c2 = f32[32,128] multiply(c, c)
    v = f32[32] reduce(c2, zero), dimensions={1}, to_apply=sum
    v1 = f32[32,1] reshape(v)
    var = f32[32,1] divide(v1, counts)
    r1 = f32[32,1] rsqrt(var)
    r0 = f32[32] reshape(r1)
    rb = f32[32,128] broadcast(r0), dimensions={0}
    y = f32[32,128] multiply(c, rb)
    wb = f32[32,128] broadcast(w), dimensions={1}
    z = f32[32,128] multiply(y, wb)
    ROOT t = (f32[32,128], f32[32,1]) tuple(z, r1))")
            .size() == 1);
}

TEST_CASE("fuse: a cheap value is computed again rather than kept for a later loop", "[fuse]") {
  CHECK(fused(R"(
    x = f32[64,64]{1,0} parameter(0)
    w = f32[64,64]{1,0} parameter(1)
    y = f32[64,64]{1,0} tanh(x)
    y2 = f32[64,64]{1,0} multiply(y, y)
    d = f32[64,64]{1,0} dot(y2, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    e = f32[64,64]{1,0} multiply(d, y)
    ROOT z = f32[64,64]{1,0} add(e, x))") ==
        Lines{"kLoop: tanh multiply", "dot", "kLoop: tanh multiply add"});
}

TEST_CASE("fuse: a value that needs two more arrays is kept", "[fuse]") {
  CHECK(fused(R"(
    x = f32[64,64]{1,0} parameter(0)
    u = f32[64,64]{1,0} parameter(1)
    w = f32[64,64]{1,0} parameter(2)
    y = f32[64,64]{1,0} add(x, u)
    y2 = f32[64,64]{1,0} multiply(y, y)
    d = f32[64,64]{1,0} dot(y2, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT e = f32[64,64]{1,0} multiply(d, y))") ==
        Lines{"kLoop: add multiply tuple", "dot", "multiply"});
}

TEST_CASE("fuse: a value is computed again from one that is kept anyway", "[fuse]") {
  CHECK(fused(R"(
    x = f32[64,64]{1,0} parameter(0)
    u = f32[64,64]{1,0} parameter(1)
    w = f32[64,64]{1,0} parameter(2)
    y = f32[64,64]{1,0} add(x, u)
    z = f32[64,64]{1,0} multiply(y, y)
    d = f32[64,64]{1,0} dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT e = f32[64,64]{1,0} multiply(d, z))") ==
        Lines{"kLoop: add", "dot", "kLoop: multiply multiply"});
}

TEST_CASE("fuse: transposes around a product become its strides", "[fuse]") {
  CHECK(fused(R"(
    x = f32[2,6,3,4]{3,2,1,0} parameter(0)
    w = f32[2,3,4,5]{3,2,1,0} parameter(1)
    xt = f32[2,3,6,4]{3,2,1,0} transpose(x), dimensions={0,2,1,3}
    d = f32[2,3,6,5]{3,2,1,0} dot(xt, w), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
    ROOT t = f32[2,6,3,5]{3,2,1,0} transpose(d), dimensions={0,2,1,3})") ==
        Lines{"kOutput: transpose dot transpose"});
}

TEST_CASE("fuse: a transpose that others read stays", "[fuse]") {
  CHECK(fused(R"(
    x = f32[6,4]{1,0} parameter(0)
    xt = f32[4,6]{1,0} transpose(x), dimensions={1,0}
    d = f32[4,4]{1,0} dot(xt, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT r = (f32[4,6]{1,0}, f32[4,4]{1,0}) tuple(xt, d))") == Lines{"transpose", "dot"});
}

TEST_CASE("fuse: products of two floating types have operands of one", "[fuse]") {
  // An interpreter has no need of it; a kernel has, and gives the same bits.
  const auto steps_of = [](const char* x, const char* y, const char* result) {
    const auto module = entry(fmt::format(R"(
    x = {}[8,4]{{1,0}} parameter(0)
    y = {}[4,6]{{1,0}} parameter(1)
    ROOT d = {}[8,6]{{1,0}} dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}})",
                                          x, y, result));
    std::vector<Value> inputs;
    for (const Node* parameter : module->entry()->parameters()) {
      Array array(parameter->shape);
      for (int64_t i = 0; i < array.size(); ++i) array.set(i, 1.0 / static_cast<double>(i + 3));
      inputs.push_back({array, {}, false});
    }
    const Array wanted = leaves(evaluate(*module, inputs))[0];
    fuse(*module);
    verify_module(*module);
    CHECK(bitwise_equal(leaves(evaluate(*module, inputs))[0], wanted));
    return steps(*module);
  };
  CHECK(steps_of("f32", "bf16", "f32") == Lines{"convert", "dot"});
  CHECK(steps_of("f16", "bf16", "bf16") == Lines{"convert", "convert", "dot", "convert"});
  CHECK(steps_of("f64", "f32", "f64") == Lines{"convert", "dot"});
  CHECK(steps_of("bf16", "bf16", "f32") == Lines{"dot"});
}

TEST_CASE("fuse: pads whose elements stand in turn are one pass with their sum", "[fuse]") {
  const auto sum_of = [](const char* x_padding, const char* y_padding) {
    return fused(fmt::format(R"(
    x = f32[4,3]{{1,0}} parameter(0)
    y = f32[4,2]{{1,0}} parameter(1)
    z = f32[] constant(0)
    p = f32[4,5]{{1,0}} pad(x, z), padding={}
    q = f32[4,5]{{1,0}} pad(y, z), padding={}
    s = f32[4,5]{{1,0}} add(q, p)
    ROOT t = (f32[4,5]{{1,0}}) tuple(s))",
                             x_padding, y_padding));
  };
  CHECK(sum_of("0_0x0_0_1", "0_0x1_1_1") == Lines{"kCustom: constant pad pad add"});
  // The second one does not begin behind the first.
  CHECK(sum_of("0_0x0_0_1", "0_0x0_2_1") == Lines{"kLoop: constant pad pad add"});
}

TEST_CASE("fuse: a loop reads slices where they lie and writes concatenations piece by piece",
          "[fuse]") {
  CHECK(fused(R"(
    x = f32[4,6]{1,0} parameter(0)
    c = f32[6]{0} parameter(1)
    cs = f32[4,6]{1,0} broadcast(c), dimensions={1}
    a = f32[4,3]{1,0} slice(x), slice={[0:4], [0:3]}
    b = f32[4,3]{1,0} slice(x), slice={[0:4], [3:6]}
    n = f32[4,3]{1,0} negate(b)
    turned = f32[4,6]{1,0} concatenate(n, a), dimensions={1}
    s = f32[4,6]{1,0} multiply(turned, cs)
    ROOT r = f32[4,6]{1,0} add(x, s))") ==
        Lines{"kLoop: slice negate slice concatenate broadcast multiply add"});
  // What only slices read is computed where they are.
  CHECK(fused(R"(
    x = bf16[4,6]{1,0} parameter(0)
    w = f32[4,6]{1,0} convert(x)
    a = f32[4,3]{1,0} slice(w), slice={[0:4], [0:3]}
    b = f32[4,3]{1,0} slice(w), slice={[0:4], [3:6]}
    ROOT r = f32[4,3]{1,0} multiply(a, b))") == Lines{"kLoop: convert slice slice multiply"});
}

TEST_CASE("fuse: a wider type that slices and others read is made where it is read", "[fuse]") {
  const auto rotary = [](const char* stored) {
    return fmt::format(R"(
    x = {0}[4,6]{{1,0}} parameter(0)
    c = f32[4,6]{{1,0}} parameter(1)
    w = f32[4,6]{{1,0}} convert(x)
    a = f32[4,3]{{1,0}} slice(w), slice={{[0:4], [0:3]}}
    b = f32[4,3]{{1,0}} slice(w), slice={{[0:4], [3:6]}}
    m = f32[4,3]{{1,0}} negate(b)
    t = f32[4,6]{{1,0}} concatenate(m, a), dimensions={{1}}
    y = f32[4,6]{{1,0}} multiply(w, c)
    z = f32[4,6]{{1,0}} add(y, t)
    ROOT r = {0}[4,6]{{1,0}} convert(z))",
                       stored);
  };
  const Lines one{"kLoop: convert slice negate slice concatenate multiply add convert"};
  CHECK(fused(rotary("bf16")) == one);
  CHECK(fused(rotary("f16")) == one);
  // As wide before as behind.
  CHECK(fused(rotary("s32")).size() == 2);
}

TEST_CASE("fuse: what a loop reads at other places is in memory before it", "[fuse]") {
  CHECK(fused(R"(
    x = f32[4,6]{1,0} parameter(0)
    y = f32[4,6]{1,0} parameter(1)
    p = f32[4,6]{1,0} multiply(x, y)
    a = f32[4,2]{1,0} slice(p), slice={[0:4], [0:2]}
    b = f32[4,4]{1,0} slice(p), slice={[0:4], [2:6]}
    rolled = f32[4,6]{1,0} concatenate(b, a), dimensions={1}
    ROOT r = f32[4,6]{1,0} subtract(p, rolled))") ==
        Lines{"multiply", "kLoop: slice slice concatenate subtract"});
  // Read in place too.
  CHECK(fused(R"(
    x = f32[4,6]{1,0} parameter(0)
    p = f32[4,6]{1,0} negate(x)
    first = f32[4,1]{1,0} slice(p), slice={[0:4], [0:1]}
    row = f32[4]{0} reshape(first)
    rows = f32[4,6]{1,0} broadcast(row), dimensions={0}
    ROOT r = f32[4,6]{1,0} subtract(p, rows))") ==
        Lines{"negate", "kLoop: slice reshape broadcast subtract"});
  // A reduction is in no pieces.
  CHECK(fused(R"(
    x = f32[4,6]{1,0} parameter(0)
    zero = f32[] constant(0)
    moved = f32[4,6]{1,0} pad(x, zero), padding=1_-1x0_0
    d = f32[4,6]{1,0} subtract(x, moved)
    ROOT r = f32[4]{0} reduce(d, zero), dimensions={1}, to_apply=sum)") ==
        Lines{"constant", "kLoop: constant pad subtract", "reduce"});
}

TEST_CASE("fuse: bodies of loops are fused", "[fuse]") {
  const auto module = parse_module(std::string(kHeader) + R"(
body {
  s = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8]{0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8]{0} add(x, x)
  z = f32[8]{0} negate(y)
  ROOT r = (s32[], f32[8]{0}) tuple(j, z)
}
condition {
  s = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT p = pred[] compare(i, ten), direction=LT
}
ENTRY e {
  s = (s32[], f32[8]{0}) parameter(0)
  ROOT w = (s32[], f32[8]{0}) while(s), condition=condition, body=body
}
)");
  CHECK(fuse(*module));
  verify_module(*module);
  int fusions = 0;
  for (const auto& node : module->entry()->root()->called[1]->nodes())
    fusions += node->is(Opcode::fusion);
  CHECK(fusions == 1);
}

// The results of a random graph before and behind fusing, on small integers.
void expect_same_when_fused(const std::string& body, std::mt19937_64& random) {
  const auto module = entry(body);
  std::vector<Value> arguments;
  for (const Node* parameter : module->entry()->parameters()) {
    Array array(parameter->shape);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, double(int(random() % 9) - 4));
    arguments.push_back({array, {}, false});
  }
  const std::vector<Array> wanted = leaves(evaluate(*module, arguments));
  fuse(*module);
  INFO(to_text(*module));
  verify_module(*module);
  const std::vector<Array> got = leaves(evaluate(*module, arguments));
  for (size_t i = 0; i < wanted.size(); ++i) REQUIRE(bitwise_equal(got[i], wanted[i]));
}

TEST_CASE("fuse: random graphs compute the same", "[fuse]") {
  for (int64_t seed = 1; seed <= random_load(400); ++seed) {
    std::mt19937_64 random(seed);
    INFO("seed " << seed);
    expect_same_when_fused(random_loop_body(random), random);
  }
}

// The loop of g1 and g2 reads s and comes before `turned`, which what reads s reads too.
TEST_CASE("fuse: rows are not joined with what needs others of their readers", "[fuse]") {
  std::mt19937_64 random(1);
  expect_same_when_fused(R"(
    x = f32[8,8] parameter(0)
    v = f32[8] parameter(1)
    zero = f32[] constant(0)
    g1 = f32[8] negate(v)
    turned = f32[8] reverse(g1), dimensions={0}
    s = f32[8] reduce(x, zero), dimensions={1}, to_apply=sum
    g2 = f32[8] add(g1, s)
    sb = f32[8,8] broadcast(s), dimensions={0}
    tb = f32[8,8] broadcast(turned), dimensions={0}
    y = f32[8,8] subtract(x, sb)
    z = f32[8,8] subtract(y, tb)
    ROOT r = (f32[8], f32[8,8]) tuple(g2, z))",
                         random);
}

TEST_CASE("fuse: random graphs over rows that are read once compute the same", "[fuse]") {
  for (int64_t seed = 1; seed <= random_load(600); ++seed) {
    std::mt19937_64 random(seed);
    INFO("seed " << seed);
    expect_same_when_fused(
        seed % 4 == 0 ? random_loop_body(random, 8) : random_rows_body(random, 8), random);
  }
}

TEST_CASE("fuse: large products without a reduction between them stay apart", "[fuse]") {
  const auto kinds = [](int64_t inner, int64_t wide, bool softmax) {
    const std::string space = "f32[512,256]{1,0}";
    std::string body = fmt::format(R"(
    x = f32[512,{0}]{{1,0}} parameter(0)
    w = f32[{0},256]{{1,0}} parameter(1)
    v = f32[256,{1}]{{1,0}} parameter(2)
    h = {2} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    g = {2} tanh(h)
)",
                                   inner, wide, space);
    if (softmax)
      body += fmt::format(R"(
    zero = f32[] constant(0)
    t = f32[512]{{0}} reduce(g, zero), dimensions={{1}}, to_apply=sum
    ts = {0} broadcast(t), dimensions={{0}}
    a = {0} divide(g, ts)
)",
                          space);
    body += fmt::format(
        "ROOT y = f32[512,{}]{{1,0}} dot({}, v), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n",
        wide, softmax ? "a" : "g");
    return std::ssize(fused(body));  // 1: a fusion of rows
  };
  CHECK(kinds(128, 128, false) == 1);
  CHECK(kinds(136, 128, false) == 3);
  CHECK(kinds(128, 136, false) == 3);
  CHECK(kinds(512, 512, true) == 1);
}

}  // namespace gspmd::fuse_test
