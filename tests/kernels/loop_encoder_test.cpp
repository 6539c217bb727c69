#include "kernels/loop_encoder.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "kernels/loop_code_memory.h"

namespace gspmd {
namespace {

using namespace vector_op;

Vec z(int id) { return Vec{static_cast<uint8_t>(id)}; }
MemoryOperand at(Gpr base, int32_t disp) {
  MemoryOperand m;
  m.base = base;
  m.disp = disp;
  return m;
}
MemoryOperand one(Gpr base, int32_t disp) {
  MemoryOperand m = at(base, disp);
  m.broadcast = true;
  return m;
}
MemoryOperand tile(Gpr base, int scale, int32_t disp, Gpr index = Gpr::rcx) {
  MemoryOperand m = at(base, disp);
  m.index = index;
  m.kind = MemoryOperand::at_base_and_index;
  m.scale = static_cast<uint8_t>(scale);
  return m;
}

std::string hex(const std::vector<uint8_t>& bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

struct Row {
  void (*write)(LoopEncoder&);
  const char* bytes;  // what binutils' `as` makes of the text
  const char* text;
};
// clang-format off
const Row kRows[] = {
    {[](LoopEncoder& e) { e.vector(add_ps, z(0), z(9), z(17)); }, "62b1344858c1", "vaddps %zmm17,%zmm9,%zmm0"},
    {[](LoopEncoder& e) { e.vector(mul_ps, z(7), z(20), z(22)); }, "62b15c4059fe", "vmulps %zmm22,%zmm20,%zmm7"},
    {[](LoopEncoder& e) { e.vector(sub_ps, z(14), z(31), z(27)); }, "621104405cf3", "vsubps %zmm27,%zmm31,%zmm14"},
    {[](LoopEncoder& e) { e.vector(min_ps, z(21), z(10), z(0)); }, "62e12c485de8", "vminps %zmm0,%zmm10,%zmm21"},
    {[](LoopEncoder& e) { e.vector(div_ps, z(28), z(21), z(5)); }, "626154405ee5", "vdivps %zmm5,%zmm21,%zmm28"},
    {[](LoopEncoder& e) { e.vector(max_ps, z(3), z(0), z(10)); }, "62d17c485fda", "vmaxps %zmm10,%zmm0,%zmm3"},
    {[](LoopEncoder& e) { e.vector(and_d, z(10), z(11), z(15)); }, "62512548dbd7", "vpandd %zmm15,%zmm11,%zmm10"},
    {[](LoopEncoder& e) { e.vector(or_d, z(17), z(22), z(20)); }, "62a14d40ebcc", "vpord %zmm20,%zmm22,%zmm17"},
    {[](LoopEncoder& e) { e.vector(xor_d, z(24), z(1), z(25)); }, "62017548efc1", "vpxord %zmm25,%zmm1,%zmm24"},
    {[](LoopEncoder& e) { e.vector(add_d, z(31), z(12), z(30)); }, "62011d48fefe", "vpaddd %zmm30,%zmm12,%zmm31"},
    {[](LoopEncoder& e) { e.vector(sub_d, z(6), z(23), z(3)); }, "62f14540faf3", "vpsubd %zmm3,%zmm23,%zmm6"},
    {[](LoopEncoder& e) { e.vector(mul_d, z(13), z(2), z(8)); }, "62526d4840e8", "vpmulld %zmm8,%zmm2,%zmm13"},
    {[](LoopEncoder& e) { e.vector(min_sd, z(20), z(13), z(13)); }, "62c2154839e5", "vpminsd %zmm13,%zmm13,%zmm20"},
    {[](LoopEncoder& e) { e.vector(max_sd, z(27), z(24), z(18)); }, "62223d403dda", "vpmaxsd %zmm18,%zmm24,%zmm27"},
    {[](LoopEncoder& e) { e.vector(min_ud, z(2), z(3), z(23)); }, "62b265483bd7", "vpminud %zmm23,%zmm3,%zmm2"},
    {[](LoopEncoder& e) { e.vector(max_ud, z(9), z(14), z(28)); }, "62120d483fcc", "vpmaxud %zmm28,%zmm14,%zmm9"},
    {[](LoopEncoder& e) { e.vector(shift_left_vd, z(16), z(25), z(1)); }, "62e2354047c1", "vpsllvd %zmm1,%zmm25,%zmm16"},
    {[](LoopEncoder& e) { e.vector(shift_right_vd, z(23), z(4), z(6)); }, "62e25d4845fe", "vpsrlvd %zmm6,%zmm4,%zmm23"},
    {[](LoopEncoder& e) { e.vector(shift_right_arithmetic_vd, z(30), z(15), z(11)); }, "6242054846f3", "vpsravd %zmm11,%zmm15,%zmm30"},
    {[](LoopEncoder& e) { e.vector(fmadd213_ps, z(5), z(26), z(16)); }, "62b22d40a8e8", "vfmadd213ps %zmm16,%zmm26,%zmm5"},
    {[](LoopEncoder& e) { e.vector(fmadd231_ps, z(12), z(5), z(21)); }, "62325548b8e5", "vfmadd231ps %zmm21,%zmm5,%zmm12"},
    {[](LoopEncoder& e) { e.vector(fmsub213_ps, z(19), z(16), z(26)); }, "62827d40aada", "vfmsub213ps %zmm26,%zmm16,%zmm19"},
    {[](LoopEncoder& e) { e.vector(fnmadd231_ps, z(26), z(27), z(31)); }, "62022540bcd7", "vfnmadd231ps %zmm31,%zmm27,%zmm26"},
    {[](LoopEncoder& e) { e.vector(scalef_ps, z(1), z(6), z(4)); }, "62f24d482ccc", "vscalefps %zmm4,%zmm6,%zmm1"},
    {[](LoopEncoder& e) { e.vector(blend_ps, z(8), z(17), z(9)); }, "6252754065c1", "vblendmps %zmm9,%zmm17,%zmm8"},
    {[](LoopEncoder& e) { e.vector(sqrt_ps, z(3), z(20)); }, "62b17c4851dc", "vsqrtps %zmm20,%zmm3"},
    {[](LoopEncoder& e) { e.vector(abs_d, z(12), z(1)); }, "62727d481ee1", "vpabsd %zmm1,%zmm12"},
    {[](LoopEncoder& e) { e.vector(int_to_float, z(21), z(14)); }, "62c17c485bee", "vcvtdq2ps %zmm14,%zmm21"},
    {[](LoopEncoder& e) { e.vector(float_to_int, z(30), z(27)); }, "62017e485bf3", "vcvttps2dq %zmm27,%zmm30"},
    {[](LoopEncoder& e) { e.vector(uint_to_float, z(7), z(8)); }, "62d17f487af8", "vcvtudq2ps %zmm8,%zmm7"},
    {[](LoopEncoder& e) { e.vector(float_to_uint, z(16), z(21)); }, "62a17c4878c5", "vcvttps2udq %zmm21,%zmm16"},
    {[](LoopEncoder& e) { e.vector(move_ps, z(25), z(2)); }, "62617c4828ca", "vmovaps %zmm2,%zmm25"},
    {[](LoopEncoder& e) { e.vector(add_ps, z(1), z(2), z(19), 0, {7, false}); }, "62b16c4f58cb", "vaddps %zmm19,%zmm2,%zmm1{%k7}"},
    {[](LoopEncoder& e) { e.vector(mul_ps, z(30), z(2), z(9), 0, {1, true}); }, "62416cc959f1", "vmulps %zmm9,%zmm2,%zmm30{%k1}{z}"},
    {[](LoopEncoder& e) { e.vector(round_ps, z(4), Vec{}, z(27), 9); }, "62937d4808e309", "vrndscaleps $9,%zmm27,%zmm4"},
    {[](LoopEncoder& e) { e.vector(ternary_d, z(4), z(20), z(27), 0xCA); }, "62935d4025e3ca", "vpternlogd $0xca,%zmm27,%zmm20,%zmm4"},
    {[](LoopEncoder& e) { e.vector(compare_ps, z(1), z(20), z(7), 0x1E); }, "62f15c40c2cf1e", "vcmpps $0x1e,%zmm7,%zmm20,%k1"},
    {[](LoopEncoder& e) { e.vector(compare_d, z(3), z(2), z(27), 6); }, "62936d481fdb06", "vpcmpd $6,%zmm27,%zmm2,%k3"},
    {[](LoopEncoder& e) { e.vector(compare_ud, z(3), z(2), z(27), 5); }, "62936d481edb05", "vpcmpud $5,%zmm27,%zmm2,%k3"},
    {[](LoopEncoder& e) { e.vector(test_d, z(1), z(22), z(22)); }, "62b24d4027ce", "vptestmd %zmm22,%zmm22,%k1"},
    {[](LoopEncoder& e) { e.vector(mask_to_vector, z(25), z(1)); }, "62627e4838c9", "vpmovm2d %k1,%zmm25"},
    {[](LoopEncoder& e) { e.vector(vector_to_mask, z(2), z(25)); }, "62927e4839d1", "vpmovd2m %zmm25,%k2"},
    {[](LoopEncoder& e) { e.vector(shuffle_quarters, z(2), z(25), z(12), 0x4E); }, "62d3354023d44e", "vshuff32x4 $0x4e,%zmm12,%zmm25,%zmm2"},
    {[](LoopEncoder& e) { e.vector(permute_ps, z(2), Vec{}, z(25), 0xB1); }, "62937d4804d1b1", "vpermilps $0xb1,%zmm25,%zmm2"},
    {[](LoopEncoder& e) { e.vector(broadcast_gpr, z(21), Vec{static_cast<uint8_t>(Gpr::rcx)}); }, "62e27d487ce9", "vpbroadcastd %ecx,%zmm21"},
    {[](LoopEncoder& e) { e.vector(broadcast_gpr, z(21), Vec{static_cast<uint8_t>(Gpr::r9)}); }, "62c27d487ce9", "vpbroadcastd %r9d,%zmm21"},
    {[](LoopEncoder& e) { e.shift(left_digit, z(3), z(24), 23); }, "6291654872f017", "vpslld $23,%zmm24,%zmm3"},
    {[](LoopEncoder& e) { e.shift(right_digit, z(19), z(4), 16); }, "62f1654072d410", "vpsrld $16,%zmm4,%zmm19"},
    {[](LoopEncoder& e) { e.shift(right_arithmetic_digit, z(19), z(4), 31); }, "62f1654072e41f", "vpsrad $31,%zmm4,%zmm19"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(3), tile(Gpr::rbx, 4, 0)); }, "62f17c48105c8b00", "vmovups (%rbx,%rcx,4),%zmm3"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(30), tile(Gpr::r13, 4, 192)); }, "62417c4810748d03", "vmovups 192(%r13,%rcx,4),%zmm30"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(30), tile(Gpr::r13, 4, 192), LaneMasking{7, true}); }, "62417ccf10748d03", "vmovups 192(%r13,%rcx,4),%zmm30{%k7}{z}"},
    {[](LoopEncoder& e) { e.vector(store_ps, z(9), tile(Gpr::r12, 4, 64), LaneMasking{7, false}); }, "62517c4f114c8c01", "vmovups %zmm9,64(%r12,%rcx,4){%k7}"},
    {[](LoopEncoder& e) { e.vector(stream_ps, z(9), tile(Gpr::r12, 4, 64)); }, "62517c482b4c8c01", "vmovntps %zmm9,64(%r12,%rcx,4)"},
    {[](LoopEncoder& e) { e.vector(add_ps, z(9), z(17), tile(Gpr::r8, 4, 100)); }, "62517440588c8864000000", "vaddps 100(%r8,%rcx,4),%zmm17,%zmm9"},
    {[](LoopEncoder& e) { e.vector(add_ps, z(9), z(17), tile(Gpr::r8, 4, -8192)); }, "62517440584c8880", "vaddps -8192(%r8,%rcx,4),%zmm17,%zmm9"},
    {[](LoopEncoder& e) { e.vector(add_ps, z(9), z(17), tile(Gpr::r8, 4, 8192)); }, "62517440588c8800200000", "vaddps 8192(%r8,%rcx,4),%zmm17,%zmm9"},
    {[](LoopEncoder& e) { e.vector(widen_bytes, z(9), tile(Gpr::r8, 1, 16)); }, "62527d48314c0801", "vpmovzxbd 16(%r8,%rcx,1),%zmm9"},
    {[](LoopEncoder& e) { e.vector(narrow_to_bytes, z(9), tile(Gpr::r8, 1, 32)); }, "62527e48314c0802", "vpmovdb %zmm9,32(%r8,%rcx,1)"},
    {[](LoopEncoder& e) { e.vector(widen_words, z(9), tile(Gpr::r8, 2, 32)); }, "62527d48334c4801", "vpmovzxwd 32(%r8,%rcx,2),%zmm9"},
    {[](LoopEncoder& e) { e.vector(narrow_to_words, z(9), tile(Gpr::r8, 2, 64), LaneMasking{7, false}); }, "62527e4f334c4802", "vpmovdw %zmm9,64(%r8,%rcx,2){%k7}"},
    {[](LoopEncoder& e) { e.vector(vector_op::half_to_float, z(9), z(2)); }, "62727d4813ca", "vcvtph2ps %ymm2,%zmm9"},
    {[](LoopEncoder& e) { e.vector(vector_op::float_to_half, z(9), Vec{}, z(2), 0); }, "62737d481dca00", "vcvtps2ph $0,%zmm9,%ymm2"},
    {[](LoopEncoder& e) { e.vector(narrow_to_words, z(9), z(2)); }, "62727e4833ca", "vpmovdw %zmm9,%ymm2"},
    {[](LoopEncoder& e) { e.vector(broadcast_ss, z(9), at(Gpr::rsp, 12)); }, "62727d48184c2403", "vbroadcastss 12(%rsp),%zmm9"},
    {[](LoopEncoder& e) { e.vector(broadcast_ss, z(9), at(Gpr::rax, 4000), LaneMasking{2, false}); }, "62727d4a1888a00f0000", "vbroadcastss 4000(%rax),%zmm9{%k2}"},
    {[](LoopEncoder& e) { e.vector(store_ss, z(29), at(Gpr::rax, 4)); }, "62617e08116801", "vmovss %xmm29,4(%rax)"},
    {[](LoopEncoder& e) { e.vector(mul_ps, z(9), z(31), one(Gpr::rsp, 36)); }, "62710450594c2409", "vmulps 36(%rsp){1to16},%zmm31,%zmm9"},
    {[](LoopEncoder& e) { e.vector(compare_ps, z(2), z(31), one(Gpr::r12, 36), 4); }, "62d10450c254240904", "vcmpps $4,36(%r12){1to16},%zmm31,%k2"},
    {[](LoopEncoder& e) { e.load(Gpr::rax, Gpr::rdi, 8); }, "488b4708", "mov 8(%rdi),%rax"},
    {[](LoopEncoder& e) { e.load(Gpr::r9, Gpr::rdi, 800); }, "4c8b8f20030000", "mov 800(%rdi),%r9"},
    {[](LoopEncoder& e) { e.load32(Gpr::rdx, Gpr::rsp, 40); }, "8b542428", "mov 40(%rsp),%edx"},
    {[](LoopEncoder& e) { e.load16(Gpr::r10, Gpr::rax, 4); }, "440fb75004", "movzwl 4(%rax),%r10d"},
    {[](LoopEncoder& e) { e.load8(Gpr::rax, Gpr::r9, 4); }, "410fb64104", "movzbl 4(%r9),%eax"},
    {[](LoopEncoder& e) { e.store32(Gpr::rsp, 400, Gpr::rax); }, "89842490010000", "mov %eax,400(%rsp)"},
    {[](LoopEncoder& e) { e.store16(Gpr::rax, 4, Gpr::r8); }, "6644894004", "mov %r8w,4(%rax)"},
    {[](LoopEncoder& e) { e.store8(Gpr::rax, 4, Gpr::rdx); }, "885004", "mov %dl,4(%rax)"},
    {[](LoopEncoder& e) { e.negate32(Gpr::rax); }, "f7d8", "neg %eax"},
    {[](LoopEncoder& e) { e.spread_carry32(Gpr::r9); }, "4519c9", "sbb %r9d,%r9d"},
    {[](LoopEncoder& e) { e.and32(Gpr::rdx, 1); }, "83e201", "and $1,%edx"},
    {[](LoopEncoder& e) { e.move(Gpr::rbp, Gpr::rsp); }, "4889e5", "mov %rsp,%rbp"},
    {[](LoopEncoder& e) { e.move(Gpr::r12, Gpr::rsi); }, "4989f4", "mov %rsi,%r12"},
    {[](LoopEncoder& e) { e.move_constant(Gpr::rdx, -1); }, "48c7c2ffffffff", "mov $-1,%rdx"},
    {[](LoopEncoder& e) { e.move_constant(Gpr::r14, 7); }, "49c7c607000000", "mov $7,%r14"},
    {[](LoopEncoder& e) { e.clear(Gpr::rcx); }, "31c9", "xor %ecx,%ecx"},
    {[](LoopEncoder& e) { e.clear(Gpr::r11); }, "4531db", "xor %r11d,%r11d"},
    {[](LoopEncoder& e) { e.add(Gpr::rsp, -8192); }, "4881c400e0ffff", "add $-8192,%rsp"},
    {[](LoopEncoder& e) { e.add(Gpr::rcx, 640); }, "4881c180020000", "add $640,%rcx"},
    {[](LoopEncoder& e) { e.add(Gpr::rcx, Gpr::r8); }, "4c01c1", "add %r8,%rcx"},
    {[](LoopEncoder& e) { e.subtract(Gpr::rax, Gpr::rcx); }, "4829c8", "sub %rcx,%rax"},
    {[](LoopEncoder& e) { e.compare(Gpr::rcx, Gpr::rdx); }, "4839d1", "cmp %rdx,%rcx"},
    {[](LoopEncoder& e) { e.compare(Gpr::r9, 1000); }, "4981f9e8030000", "cmp $1000,%r9"},
    {[](LoopEncoder& e) { e.align_stack(); }, "4883e4c0", "and $-64,%rsp"},
    {[](LoopEncoder& e) { e.low_bits(Gpr::rdx, Gpr::rdx, Gpr::rax); }, "c4e2f8f5d2", "bzhi %rax,%rdx,%rdx"},
    {[](LoopEncoder& e) { e.low_bits(Gpr::r9, Gpr::r10, Gpr::r11); }, "c442a0f5ca", "bzhi %r11,%r10,%r9"},
    {[](LoopEncoder& e) { e.shift_right(Gpr::rdx, 16); }, "48c1ea10", "shr $16,%rdx"},
    {[](LoopEncoder& e) { e.mask_from(7, Gpr::rdx); }, "c4e17892fa", "{vex3} kmovw %edx,%k7"},
    {[](LoopEncoder& e) { e.mask_from(2, Gpr::r9); }, "c4c17892d1", "kmovw %r9d,%k2"},
    {[](LoopEncoder& e) { e.word_mask_from(6, Gpr::rdx); }, "c4e17b92f2", "{vex3} kmovd %edx,%k6"},
    {[](LoopEncoder& e) { e.word_mask_from(2, Gpr::r9); }, "c4c17b92d1", "kmovd %r9d,%k2"},
    {[](LoopEncoder& e) { e.vector(move_words, z(9), Vec{}, z(3), 0, {6, true}); }, "6271ffce6fcb", "vmovdqu16 %zmm3,%zmm9{%k6}{z}"},
    {[](LoopEncoder& e) { e.push(Gpr::rbp); }, "55", "push %rbp"},
    {[](LoopEncoder& e) { e.push(Gpr::r12); }, "4154", "push %r12"},
    {[](LoopEncoder& e) { e.pop(Gpr::r15); }, "415f", "pop %r15"},
    {[](LoopEncoder& e) { e.pop(Gpr::rbx); }, "5b", "pop %rbx"},
    {[](LoopEncoder& e) { e.zero_upper(); }, "c5f877", "vzeroupper"},
    {[](LoopEncoder& e) { e.return_(); }, "c3", "ret"},
};

const Row kVexRows[] = {
    {[](LoopEncoder& e) { e.vector(add_ps, z(0), z(1), z(2)); }, "c5f458c2", "vaddps %ymm2,%ymm1,%ymm0"},
    {[](LoopEncoder& e) { e.vector(mul_ps, z(9), z(10), z(3)); }, "c52c59cb", "vmulps %ymm3,%ymm10,%ymm9"},
    {[](LoopEncoder& e) { e.vector(sub_ps, z(3), z(10), z(15)); }, "c4c12c5cdf", "vsubps %ymm15,%ymm10,%ymm3"},
    {[](LoopEncoder& e) { e.vector(div_ps, z(12), z(15), z(8)); }, "c441045ee0", "vdivps %ymm8,%ymm15,%ymm12"},
    {[](LoopEncoder& e) { e.vector(max_ps, z(1), z(14), z(6)); }, "c58c5fce", "vmaxps %ymm6,%ymm14,%ymm1"},
    {[](LoopEncoder& e) { e.vector(and_d, z(4), z(5), z(6)); }, "c5d5dbe6", "vpand %ymm6,%ymm5,%ymm4"},
    {[](LoopEncoder& e) { e.vector(or_d, z(4), z(5), z(13)); }, "c4c155ebe5", "vpor %ymm13,%ymm5,%ymm4"},
    {[](LoopEncoder& e) { e.vector(xor_d, z(15), z(15), z(15)); }, "c44105efff", "vpxor %ymm15,%ymm15,%ymm15"},
    {[](LoopEncoder& e) { e.vector(add_d, z(7), z(8), z(9)); }, "c4c13dfef9", "vpaddd %ymm9,%ymm8,%ymm7"},
    {[](LoopEncoder& e) { e.vector(sub_d, z(8), z(7), z(1)); }, "c545fac1", "vpsubd %ymm1,%ymm7,%ymm8"},
    {[](LoopEncoder& e) { e.vector(mul_d, z(13), z(2), z(8)); }, "c4426d40e8", "vpmulld %ymm8,%ymm2,%ymm13"},
    {[](LoopEncoder& e) { e.vector(min_sd, z(3), z(13), z(13)); }, "c4c21539dd", "vpminsd %ymm13,%ymm13,%ymm3"},
    {[](LoopEncoder& e) { e.vector(max_ud, z(9), z(14), z(12)); }, "c4420d3fcc", "vpmaxud %ymm12,%ymm14,%ymm9"},
    {[](LoopEncoder& e) { e.vector(abs_d, z(12), z(1)); }, "c4627d1ee1", "vpabsd %ymm1,%ymm12"},
    {[](LoopEncoder& e) { e.vector(shift_left_vd, z(6), z(5), z(4)); }, "c4e25547f4", "vpsllvd %ymm4,%ymm5,%ymm6"},
    {[](LoopEncoder& e) { e.vector(shift_right_vd, z(6), z(5), z(14)); }, "c4c25545f6", "vpsrlvd %ymm14,%ymm5,%ymm6"},
    {[](LoopEncoder& e) { e.vector(shift_right_arithmetic_vd, z(10), z(15), z(11)); }, "c4420546d3", "vpsravd %ymm11,%ymm15,%ymm10"},
    {[](LoopEncoder& e) { e.vector(fmadd213_ps, z(5), z(6), z(7)); }, "c4e24da8ef", "vfmadd213ps %ymm7,%ymm6,%ymm5"},
    {[](LoopEncoder& e) { e.vector(fmsub213_ps, z(9), z(6), z(12)); }, "c4424daacc", "vfmsub213ps %ymm12,%ymm6,%ymm9"},
    {[](LoopEncoder& e) { e.vector(fnmadd231_ps, z(10), z(11), z(15)); }, "c44225bcd7", "vfnmadd231ps %ymm15,%ymm11,%ymm10"},
    {[](LoopEncoder& e) { e.vector(sqrt_ps, z(3), z(12)); }, "c4c17c51dc", "vsqrtps %ymm12,%ymm3"},
    {[](LoopEncoder& e) { e.vector(round_ps, z(4), Vec{}, z(11), 9); }, "c4c37d08e309", "vroundps $9,%ymm11,%ymm4"},
    {[](LoopEncoder& e) { e.vector(int_to_float, z(2), z(14)); }, "c4c17c5bd6", "vcvtdq2ps %ymm14,%ymm2"},
    {[](LoopEncoder& e) { e.vector(float_to_int, z(10), z(7)); }, "c57e5bd7", "vcvttps2dq %ymm7,%ymm10"},
    {[](LoopEncoder& e) { e.vector(move_ps, z(9), z(2)); }, "c57c28ca", "vmovaps %ymm2,%ymm9"},
    {[](LoopEncoder& e) { e.vector(compare_ps, z(1), z(2), z(7), 0x1E); }, "c5ecc2cf1e", "vcmpps $0x1e,%ymm7,%ymm2,%ymm1"},
    {[](LoopEncoder& e) { e.vector(equal_d, z(1), z(12), z(7)); }, "c59d76cf", "vpcmpeqd %ymm7,%ymm12,%ymm1"},
    {[](LoopEncoder& e) { e.vector(greater_d, z(11), z(2), z(7)); }, "c56d66df", "vpcmpgtd %ymm7,%ymm2,%ymm11"},
    {[](LoopEncoder& e) { e.vector(blend_mask, z(1), z(2), z(3), 4 << 4); }, "c4e36d4acb40", "vblendvps %ymm4,%ymm3,%ymm2,%ymm1"},
    {[](LoopEncoder& e) { e.vector(blend_mask, z(9), z(12), z(13), 15 << 4); }, "c4431d4acdf0", "vblendvps %ymm15,%ymm13,%ymm12,%ymm9"},
    {[](LoopEncoder& e) { e.vector(swap_halves, z(9), z(2), z(13), 1); }, "c4436d06cd01", "vperm2f128 $1,%ymm13,%ymm2,%ymm9"},
    {[](LoopEncoder& e) { e.vector(upper_half, z(9), Vec{}, z(2), 1); }, "c4637d19ca01", "vextractf128 $1,%ymm9,%xmm2"},
    {[](LoopEncoder& e) { e.vector(permute_ps, z(2), Vec{}, z(9), 0xB1); }, "c4c37d04d1b1", "vpermilps $0xb1,%ymm9,%ymm2"},
    {[](LoopEncoder& e) { e.vector(broadcast_ss, z(2), z(9)); }, "c4c27d18d1", "vbroadcastss %xmm9,%ymm2"},
    {[](LoopEncoder& e) { e.vector(broadcast_d, z(15), z(15)); }, "c4427d58ff", "vpbroadcastd %xmm15,%ymm15"},
    {[](LoopEncoder& e) { e.vector(from_gpr, z(15), Vec{static_cast<uint8_t>(Gpr::rax)}); }, "c5796ef8", "vmovd %eax,%xmm15"},
    {[](LoopEncoder& e) { e.vector(from_gpr, z(1), Vec{static_cast<uint8_t>(Gpr::r9)}); }, "c4c1796ec9", "vmovd %r9d,%xmm1"},
    {[](LoopEncoder& e) { e.vector(pack_words, z(1), z(2), z(13)); }, "c4c2692bcd", "vpackusdw %xmm13,%xmm2,%xmm1"},
    {[](LoopEncoder& e) { e.vector(pack_bytes, z(1), z(2), z(3)); }, "c5e967cb", "vpackuswb %xmm3,%xmm2,%xmm1"},
    {[](LoopEncoder& e) { e.vector(clear_128, z(8), z(8), z(8)); }, "c44139efc0", "vpxor %xmm8,%xmm8,%xmm8"},
    {[](LoopEncoder& e) { e.vector(shift_bytes, Vec{bytes_left_digit}, z(3), z(12), 2); }, "c4c16173fc02", "vpslldq $2,%xmm12,%xmm3"},
    {[](LoopEncoder& e) { e.vector(shift_bytes, Vec{bytes_right_digit}, z(13), z(2), 1); }, "c59173da01", "vpsrldq $1,%xmm2,%xmm13"},
    {[](LoopEncoder& e) { e.shift(left_digit, z(3), z(14), 23); }, "c4c16572f617", "vpslld $23,%ymm14,%ymm3"},
    {[](LoopEncoder& e) { e.shift(right_arithmetic_digit, z(9), z(4), 31); }, "c5b572e41f", "vpsrad $31,%ymm4,%ymm9"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(3), tile(Gpr::rbx, 4, 0)); }, "c5fc105c8b00", "{disp8} vmovups 0(%rbx,%rcx,4),%ymm3"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(13), tile(Gpr::r13, 4, 96)); }, "c4417c106c8d60", "vmovups 96(%r13,%rcx,4),%ymm13"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(13), tile(Gpr::r13, 4, 128)); }, "c4417c10ac8d80000000", "vmovups 128(%r13,%rcx,4),%ymm13"},
    {[](LoopEncoder& e) { e.vector(store_ps, z(9), tile(Gpr::r12, 4, 64)); }, "c4417c114c8c40", "vmovups %ymm9,64(%r12,%rcx,4)"},
    {[](LoopEncoder& e) { e.vector(load_where, z(9), z(15), tile(Gpr::r12, 4, 64)); }, "c442052c4c8c40", "vmaskmovps 64(%r12,%rcx,4),%ymm15,%ymm9"},
    {[](LoopEncoder& e) { e.vector(store_where, z(1), z(15), tile(Gpr::rbx, 4, 64)); }, "c4e2052e4c8b40", "vmaskmovps %ymm1,%ymm15,64(%rbx,%rcx,4)"},
    {[](LoopEncoder& e) { e.vector(add_ps, z(9), z(7), tile(Gpr::r8, 4, 100)); }, "c44144584c8864", "vaddps 100(%r8,%rcx,4),%ymm7,%ymm9"},
    {[](LoopEncoder& e) { e.vector(add_ps, z(9), z(7), tile(Gpr::rbx, 4, -8192)); }, "c544588c8b00e0ffff", "vaddps -8192(%rbx,%rcx,4),%ymm7,%ymm9"},
    {[](LoopEncoder& e) { e.vector(blend_words, z(9), z(7), at(Gpr::rsp, 64), 0x55); }, "c463450e4c244055", "vpblendw $0x55,64(%rsp),%ymm7,%ymm9"},
    {[](LoopEncoder& e) { e.vector(blend_words, z(1), z(12), z(13), 0x55); }, "c4c31d0ecd55", "vpblendw $0x55,%ymm13,%ymm12,%ymm1"},
    {[](LoopEncoder& e) { e.vector(blend_mask, z(9), z(7), at(Gpr::rsp, 64), 3 << 4); }, "c463454a4c244030", "vblendvps %ymm3,64(%rsp),%ymm7,%ymm9"},
    {[](LoopEncoder& e) { e.vector(widen_bytes, z(9), tile(Gpr::r8, 1, 16)); }, "c4427d314c0810", "vpmovzxbd 16(%r8,%rcx,1),%ymm9"},
    {[](LoopEncoder& e) { e.vector(widen_words, z(9), tile(Gpr::r8, 2, 32)); }, "c4427d334c4820", "vpmovzxwd 32(%r8,%rcx,2),%ymm9"},
    {[](LoopEncoder& e) { e.vector(widen_words, z(9), z(2)); }, "c4627d33ca", "vpmovzxwd %xmm2,%ymm9"},
    {[](LoopEncoder& e) { e.vector(vector_op::half_to_float, z(9), z(2)); }, "c4627d13ca", "vcvtph2ps %xmm2,%ymm9"},
    {[](LoopEncoder& e) { e.vector(vector_op::float_to_half, z(9), Vec{}, z(2), 0); }, "c4637d1dca00", "vcvtps2ph $0,%ymm9,%xmm2"},
    {[](LoopEncoder& e) { e.vector(store_128, z(9), tile(Gpr::r8, 2, 32)); }, "c44178114c4820", "vmovups %xmm9,32(%r8,%rcx,2)"},
    {[](LoopEncoder& e) { e.vector(store_64, z(9), tile(Gpr::r8, 1, 8)); }, "c44179d64c0808", "vmovq %xmm9,8(%r8,%rcx,1)"},
    {[](LoopEncoder& e) { e.vector(insert_byte, z(9), z(9), tile(Gpr::r8, 1, -1, Gpr::rdx), 0); }, "c44331204c10ff00", "vpinsrb $0,-1(%r8,%rdx,1),%xmm9,%xmm9"},
    {[](LoopEncoder& e) { e.vector(insert_word, z(1), z(1), tile(Gpr::rbx, 2, -2, Gpr::rdx), 0); }, "c5f1c44c53fe00", "vpinsrw $0,-2(%rbx,%rdx,2),%xmm1,%xmm1"},
    {[](LoopEncoder& e) { e.vector(extract_byte, z(9), Vec{}, tile(Gpr::r8, 1, 4, Gpr::rdx), 0); }, "c44379144c100400", "vpextrb $0,%xmm9,4(%r8,%rdx,1)"},
    {[](LoopEncoder& e) { e.vector(extract_word, z(1), Vec{}, tile(Gpr::rbx, 2, 4, Gpr::rdx), 0); }, "c4e379154c530400", "vpextrw $0,%xmm1,4(%rbx,%rdx,2)"},
    {[](LoopEncoder& e) { e.vector(broadcast_ss, z(9), at(Gpr::rsp, 12)); }, "c4627d184c240c", "vbroadcastss 12(%rsp),%ymm9"},
    {[](LoopEncoder& e) { e.vector(store_ss, z(9), at(Gpr::rax, 4)); }, "c57a114804", "vmovss %xmm9,4(%rax)"},
    {[](LoopEncoder& e) { e.vector(load_ps, z(9), tile(Gpr::rsp, 4, 512, Gpr::r15)); }, "c4217c108cbc00020000", "vmovups 512(%rsp,%r15,4),%ymm9"},
    {[](LoopEncoder& e) { e.prefetch(tile(Gpr::rbx, 4, 64)); }, "0f184c8b40", "prefetcht0 64(%rbx,%rcx,4)"},
    {[](LoopEncoder& e) { e.prefetch(tile(Gpr::r12, 2, 4096, Gpr::r15)); }, "430f188c7c00100000", "prefetcht0 4096(%r12,%r15,2)"},
    {[](LoopEncoder& e) { e.prefetch(at(Gpr::r9, 4096)); }, "410f188900100000", "prefetcht0 4096(%r9)"},
};
// clang-format on

}  // namespace

TEST_CASE("encoder: instructions are the bytes that an assembler gives", "[loop]") {
  const auto check = [](const Row& row, VectorForm form) {
    LoopEncoder e(form);
    row.write(e);
    const size_t size = e.size();
    INFO(row.text);
    CHECK(hex(e.finish(), size) == row.bytes);
  };
  for (const Row& row : kRows) check(row, VectorForm::evex);
  for (const Row& row : kVexRows) check(row, VectorForm::vex);
}

TEST_CASE("encoder: constants of VEX stand there for every lane", "[loop]") {
  LoopEncoder e(VectorForm::vex);
  e.vector(add_ps, z(1), z(2), e.constant(0x3f800000u));
  e.vector(compare_ps, z(1), z(2), e.constant(0x40000000u), 4);
  e.vector(add_ps, z(1), z(2), e.constant(0x3f800000u));
  std::array<uint32_t, 16> counting;
  std::iota(counting.begin(), counting.end(), 0u);
  e.vector(add_d, z(1), z(2), e.constant(counting));
  const size_t size = e.size();
  const std::vector<uint8_t> code = e.finish();
  REQUIRE(size == 33);
  CHECK(hex(code, size) ==
        "c5ec580d38000000"
        "c5ecc20d4f00000004"
        "c5ec580d27000000"
        "c5edfe0d5f000000");
  REQUIRE(code.size() == 64 + 96);
  std::string want;
  for (int i = 0; i < 8; ++i) want += "0000803f";
  for (int i = 0; i < 8; ++i) want += "00000040";
  for (int i = 0; i < 8; ++i) want += fmt::format("{:02x}000000", i);
  CHECK(hex({code.begin() + 64, code.end()}, 96) == want);
}

TEST_CASE("encoder: jumps and constants are found, also by instructions with a count behind",
          "[loop]") {
  LoopEncoder e;
  const auto start = e.new_label(), end = e.new_label();
  e.bind(start);
  e.jump(Jump::less, end);                                       // 6 bytes, to 33
  e.vector(add_ps, z(1), z(2), e.constant(0x3f800000u));         // 10 bytes, of 64
  e.vector(compare_ps, z(1), z(2), e.constant(0x40000000u), 4);  // 11 bytes, of 68
  e.vector(add_ps, z(1), z(2), e.constant(0x3f800000u));         // 10 bytes, of 64
  e.bind(end);
  e.jump(start);
  const size_t size = e.size();
  const std::vector<uint8_t> code = e.finish();
  REQUIRE(size == 42);
  CHECK(hex(code, size) ==
        "0f8c1f000000"
        "62f16c58580d30000000"
        "62f16c58c20d2900000004"
        "62f16c58580d1b000000"
        "e9d6ffffff");
  REQUIRE(code.size() == 72);
  CHECK(hex({code.begin() + 64, code.end()}, 8) == "0000803f00000040");
}

TEST_CASE("encoder: code in executable memory runs", "[loop]") {
#if defined(__x86_64__)
  LoopEncoder e;  // of (rdi, rsi): how often rsi can be taken from rdi
  const auto loop = e.new_label(), done = e.new_label();
  e.clear(Gpr::rax);
  e.bind(loop);
  e.compare(Gpr::rdi, Gpr::rsi);
  e.jump(Jump::less, done);
  e.subtract(Gpr::rdi, Gpr::rsi);
  e.add(Gpr::rax, 1);
  e.jump(loop);
  e.bind(done);
  e.return_();
  const std::shared_ptr<const CodeMemory> memory = CodeMemory::make(e.finish());
  REQUIRE(memory != nullptr);
  const auto quotient =
      reinterpret_cast<int64_t (*)(int64_t, int64_t)>(reinterpret_cast<uintptr_t>(memory->at(0)));
  CHECK(quotient(100, 7) == 14);
#endif
}

}  // namespace gspmd
