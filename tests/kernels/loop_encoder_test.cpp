#include "kernels/loop_encoder.h"

#include <catch2/catch.hpp>

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
MemoryOperand tile(Gpr base, int scale, int32_t disp) {
  MemoryOperand m = at(base, disp);
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
    {[](LoopEncoder& e) { e.push(Gpr::rbp); }, "55", "push %rbp"},
    {[](LoopEncoder& e) { e.push(Gpr::r12); }, "4154", "push %r12"},
    {[](LoopEncoder& e) { e.pop(Gpr::r15); }, "415f", "pop %r15"},
    {[](LoopEncoder& e) { e.pop(Gpr::rbx); }, "5b", "pop %rbx"},
    {[](LoopEncoder& e) { e.zero_upper(); }, "c5f877", "vzeroupper"},
    {[](LoopEncoder& e) { e.return_(); }, "c3", "ret"},
};
// clang-format on

}  // namespace

TEST_CASE("encoder: instructions are the bytes that an assembler gives", "[loop]") {
  for (const Row& row : kRows) {
    LoopEncoder e;
    row.write(e);
    const size_t size = e.size();
    INFO(row.text);
    CHECK(hex(e.finish(), size) == row.bytes);
  }
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
