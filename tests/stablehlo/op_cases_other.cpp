#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {

namespace {

const std::string kAdd =
    "f { x = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT z = f32[] add(x, y) }";
const std::string kRegion =
    "({^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%z = stablehlo.add %x, %y : "
    "tensor<f32>\nstablehlo.return %z : tensor<f32>})";
const std::string kImplicit = ", frontend_attributes={mlir.implicit=\"true\"}";

const std::vector<OpCase> kOtherCases = {
    {"while", "%a: tensor<i32>, %n: tensor<i32>", "tensor<i32>",
     "%r = stablehlo.while(%i = %a) : tensor<i32>\n cond {\n%c = stablehlo.compare LT, %i, %n : "
     "(tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n} do {\n%j = "
     "stablehlo.add %i, %i : tensor<i32>\nstablehlo.return %j : tensor<i32>\n}",
     "%r = \"stablehlo.while\"(%a) ({^bb0(%i: tensor<i32>):\n%c = stablehlo.compare LT, %i, %n : "
     "(tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n}, {^bb0(%k: "
     "tensor<i32>):\n%j = stablehlo.add %k, %k : tensor<i32>\nstablehlo.return %j : "
     "tensor<i32>\n}) : (tensor<i32>) -> tensor<i32>",
     "t = (s32[], s32[]) tuple(a, n)" + kImplicit +
         "\nw = (s32[], s32[]) while(t), condition=c, body=b, "
         "frontend_attributes={mlir.captures=\"1\"}\nROOT r = s32[] get-tuple-element(w), "
         "index=0",
     "c { s = (s32[], s32[]) parameter(0)\ni = s32[] get-tuple-element(s), index=0\nn = s32[] "
     "get-tuple-element(s), index=1\nROOT l = pred[] compare(i, n), direction=LT }\n"
     "b { s = (s32[], s32[]) parameter(0)\nn = s32[] get-tuple-element(s), index=1\ni = s32[] "
     "get-tuple-element(s), index=0\nj = s32[] add(i, i)\nROOT t = (s32[], s32[]) tuple(j, n) }"},
    {"if", "%p: tensor<i1>, %a: tensor<2xf32>", "tensor<2xf32>", "",
     "%r = \"stablehlo.if\"(%p) ({\n%n = stablehlo.negate %a : tensor<2xf32>\nstablehlo.return "
     "%n : tensor<2xf32>\n}, {\nstablehlo.return %a : tensor<2xf32>\n}) : (tensor<i1>) -> "
     "tensor<2xf32>",
     "ROOT r = f32[2] conditional(p, a, a), true_computation=t, false_computation=f",
     "t { a = f32[2] parameter(0)\nROOT n = f32[2] negate(a) }\nf { ROOT a = f32[2] parameter(0) "
     "}"},
    {"case", "%p: tensor<i32>", "tensor<f32>", "",
     "%r = \"stablehlo.case\"(%p) ({\n%c = stablehlo.constant dense<1.0> : "
     "tensor<f32>\nstablehlo.return %c : tensor<f32>\n}) : (tensor<i32>) -> tensor<f32>",
     "e = () tuple()" + kImplicit + "\nROOT r = f32[] conditional(p, e), branch_computations={t}",
     "t { e = () parameter(0)\nROOT c = f32[] constant(1) }"},
    {"optimization_barrier", "%a: tensor<2xf32>, %b: tensor<3xf32>", "tensor<3xf32>",
     "%q, %r = stablehlo.optimization_barrier %a, %b : tensor<2xf32>, tensor<3xf32>",
     "%q, %r = \"stablehlo.optimization_barrier\"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> "
     "(tensor<2xf32>, tensor<3xf32>)",
     "t = (f32[2], f32[3]) tuple(a, b)" + kImplicit +
         "\no = (f32[2], f32[3]) opt-barrier(t)\nROOT r = f32[3] get-tuple-element(o), index=1"},
    {"custom_call", "%a: tensor<2x3xf32>", "tensor<2x3xf32>",
     "%r = stablehlo.custom_call @foo(%a) {api_version = 2 : i32, backend_config = "
     "\"x=\\22y\\22\", has_side_effect = true, operand_layouts = [dense<[0, 1]> : "
     "tensor<2xindex>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
     "%r = \"stablehlo.custom_call\"(%a) <{api_version = 2 : i32, backend_config = "
     "\"x=\\22y\\22\", call_target_name = \"foo\", has_side_effect = true, operand_layouts = "
     "[dense<[0, 1]> : tensor<2xindex>]}> : (tensor<2x3xf32>) -> tensor<2x3xf32>",
     "ROOT r = f32[2,3] custom-call(a), custom_call_target=\"foo\", "
     "api_version=API_VERSION_STATUS_RETURNING, backend_config=\"x=\\\"y\\\"\", "
     "custom_call_has_side_effect=true, operand_layout_constraints={f32[2,3]{0,1}}"},
    {"all_gather", "%a: tensor<2x3xf32>", "tensor<2x6xf32>", "",
     "%r = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 1 : i64, channel_handle = "
     "#stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> "
     ": tensor<2x2xi64>, use_global_device_ids}> : (tensor<2x3xf32>) -> tensor<2x6xf32>",
     "ROOT r = f32[2,6] all-gather(a), channel_id=1, replica_groups={{0,2},{1,3}}, "
     "dimensions={1}, use_global_device_ids=true"},
    {"all_reduce over axes of a mesh", "%a: tensor<4xf32>", "tensor<4xf32>", "",
     "%r = \"stablehlo.all_reduce\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, "
     "type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes "
     "= [#stablehlo.mesh_axis<name = \"x\", size = 2>, <name = \"y\", size = 4>]>, axes = "
     "[#stablehlo.axis_ref<name = \"y\", sub_axis_info = (1)2>]>, use_global_device_ids}> " +
         kRegion + " : (tensor<4xf32>) -> tensor<4xf32>",
     "ROOT r = f32[4] all-reduce(a), channel_id=1, replica_groups=[4,2]<=[2,2,2]T(0,2,1), "
     "use_global_device_ids=true, to_apply=f",
     kAdd},
    {"reduce_scatter", "%a: tensor<4xf32>", "tensor<2xf32>", "",
     "%r = \"stablehlo.reduce_scatter\"(%a) <{replica_groups = dense<[[0, 1]]> : "
     "tensor<1x2xi64>, scatter_dimension = 0 : i64}> " +
         kRegion + " : (tensor<4xf32>) -> tensor<2xf32>",
     "ROOT r = f32[2] reduce-scatter(a), replica_groups={{0,1}}, dimensions={0}, to_apply=f", kAdd},
    {"all_to_all", "%a: tensor<4x2xf32>", "tensor<2x4xf32>", "",
     "%r = \"stablehlo.all_to_all\"(%a) <{concat_dimension = 1 : i64, replica_groups = "
     "dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : "
     "(tensor<4x2xf32>) -> tensor<2x4xf32>",
     "p = f32[2,2,2] reshape(a)" + kImplicit + "\nq = f32[2,2,2] transpose(p), dimensions={1,0,2}" +
         kImplicit + "\ns = f32[2,4] reshape(q)" + kImplicit +
         "\nROOT r = f32[2,4] all-to-all(s), replica_groups={{0,1}}, dimensions={1}"},
    {"collective_permute", "%a: tensor<2xf32>", "tensor<2xf32>", "",
     "%r = \"stablehlo.collective_permute\"(%a) <{channel_handle = "
     "#stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<[[0, 1], [1, "
     "2]]> : tensor<2x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>",
     "ROOT r = f32[2] collective-permute(a), channel_id=3, source_target_pairs={{0,1},{1,2}}"},
    {"collective_broadcast", "%a: tensor<2xf32>", "tensor<2xf32>", "",
     "%r = \"stablehlo.collective_broadcast\"(%a) <{replica_groups = dense<[[0, 1, 2], [3, 4, "
     "-1]]> : tensor<2x3xi64>}> : (tensor<2xf32>) -> tensor<2xf32>",
     "ROOT r = f32[2] collective-broadcast(a), replica_groups={{0,1,2},{3,4}}"},
    {"collective_reduce", "%a: tensor<4xf32>", "tensor<4xf32>", "",
     "%r = \"stablehlo.collective_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : "
     "tensor<1x2xi64>}> " +
         kRegion + " : (tensor<4xf32>) -> tensor<4xf32>",
     "ROOT r = f32[4] all-reduce(a), replica_groups={{0,1}}, to_apply=f", kAdd},
    {"cross-replica-sum", "%a: tensor<4xf32>", "tensor<4xf32>", "",
     "%r = \"stablehlo.cross-replica-sum\"(%a) <{replica_groups = dense<[[0, 1]]> : "
     "tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>",
     "ROOT r = f32[4] all-reduce(a), replica_groups={{0,1}}, to_apply=f", kAdd},
    {"partition_id", "", "tensor<ui32>", "%r = stablehlo.partition_id : tensor<ui32>",
     "%r = \"stablehlo.partition_id\"() : () -> tensor<ui32>", "ROOT r = u32[] partition-id()"},
    {"replica_id", "", "tensor<ui32>", "%r = stablehlo.replica_id : tensor<ui32>",
     "%r = \"stablehlo.replica_id\"() : () -> tensor<ui32>", "ROOT r = u32[] replica-id()"},
    {"after_all", "%a: !stablehlo.token, %b: !stablehlo.token", "!stablehlo.token",
     "%r = stablehlo.after_all %a, %b : !stablehlo.token",
     "%r = \"stablehlo.after_all\"(%a, %b) : (!stablehlo.token, !stablehlo.token) -> "
     "!stablehlo.token",
     "ROOT r = token[] after-all(a, b)"},
    {"create_token", "", "!stablehlo.token", "%r = stablehlo.create_token : !stablehlo.token",
     "%r = \"stablehlo.create_token\"() : () -> !stablehlo.token", "ROOT r = token[] after-all()"},
    {"infeed", "%t: !stablehlo.token", "tensor<2xf32>", "",
     "%r, %u = \"stablehlo.infeed\"(%t) <{infeed_config = \"q\", layout = [[0]]}> : "
     "(!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)",
     "i = ((f32[2]), token[]) infeed(t), infeed_config=\"q\"\nv = (f32[2]) get-tuple-element(i), "
     "index=0\nROOT r = f32[2] get-tuple-element(v), index=0\nu = token[] get-tuple-element(i), "
     "index=1"},
    {"outfeed", "%a: tensor<2xf32>, %t: !stablehlo.token", "!stablehlo.token", "",
     "%r = \"stablehlo.outfeed\"(%a, %t) <{outfeed_config = \"\"}> : (tensor<2xf32>, "
     "!stablehlo.token) -> !stablehlo.token",
     "ROOT r = token[] outfeed(a, t)"},
    {"send", "%a: tensor<2xf32>, %t: !stablehlo.token", "!stablehlo.token", "",
     "%r = \"stablehlo.send\"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, "
     "type = 2>, is_host_transfer = true}> : (tensor<2xf32>, !stablehlo.token) -> "
     "!stablehlo.token",
     "s = (f32[2], u32[], token[]) send(a, t), channel_id=5, is_host_transfer=true\nROOT r = "
     "token[] send-done(s), channel_id=5, is_host_transfer=true"},
    {"recv", "%t: !stablehlo.token", "tensor<2xf32>", "",
     "%r, %u = \"stablehlo.recv\"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 5, "
     "type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<2xf32>, "
     "!stablehlo.token)",
     "s = (f32[2], u32[], token[]) recv(t), channel_id=5, is_host_transfer=true\nd = (f32[2], "
     "token[]) recv-done(s), channel_id=5, is_host_transfer=true\nROOT r = f32[2] "
     "get-tuple-element(d), index=0\nu = token[] get-tuple-element(d), index=1"},
    {"rng", "%a: tensor<f32>, %b: tensor<f32>", "tensor<3xf32>",
     "%s = stablehlo.constant dense<3> : tensor<1xi64>\n%r = stablehlo.rng %a, %b, %s, "
     "distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>",
     "%s = stablehlo.constant dense<3> : tensor<1xi64>\n%r = \"stablehlo.rng\"(%a, %b, %s) "
     "<{rng_distribution = #stablehlo<rng_distribution NORMAL>}> : (tensor<f32>, tensor<f32>, "
     "tensor<1xi64>) -> tensor<3xf32>",
     "s = s64[1] constant({3})" + kImplicit +
         "\nROOT r = f32[3] rng(a, b), distribution=rng_normal"},
    {"rng_bit_generator", "%s: tensor<2xui64>", "tensor<8xui32>",
     "%q, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> "
     "(tensor<2xui64>, tensor<8xui32>)",
     "%q, %r = \"stablehlo.rng_bit_generator\"(%s) <{rng_algorithm = #stablehlo<rng_algorithm "
     "THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)",
     "t = (u64[2], u32[8]) rng-bit-generator(s), algorithm=rng_three_fry\nROOT r = u32[8] "
     "get-tuple-element(t), index=1"},
    {"chlo.erf", "%a: tensor<2xf32>", "tensor<2xf32>",
     "%r = chlo.erf %a : tensor<2xf32> -> tensor<2xf32>",
     "%r = \"chlo.erf\"(%a) : (tensor<2xf32>) -> tensor<2xf32>", "ROOT r = f32[2] erf(a)"},
    {"chlo.top_k", "%a: tensor<9xf32>", "tensor<3xi32>",
     "%v, %r = chlo.top_k(%a, k = 3) : tensor<9xf32> -> (tensor<3xf32>, tensor<3xi32>)",
     "%v, %r = \"chlo.top_k\"(%a) <{k = 3 : i64}> : (tensor<9xf32>) -> (tensor<3xf32>, "
     "tensor<3xi32>)",
     "t = (f32[3], s32[3]) topk(a), k=3, largest=true\nROOT r = s32[3] get-tuple-element(t), "
     "index=1"},
    {"chlo.broadcast_add", "%a: tensor<2x1xf32>, %b: tensor<3xf32>", "tensor<2x3xf32>",
     "%r = chlo.broadcast_add %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
     "%r = \"chlo.broadcast_add\"(%a, %b) : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
     "s = f32[2] reshape(a), frontend_attributes={mlir.implicit=\"0 -2\"}\n"
     "x = f32[2,3] broadcast(s), dimensions={0}\ny = f32[2,3] broadcast(b), "
     "dimensions={1}\nROOT r = f32[2,3] add(x, y)"},
};

}  // namespace

std::vector<OpCase> other_cases() { return kOtherCases; }

}  // namespace gspmd::stablehlo
