// Included before <hwy/foreach_target.h>: which instruction sets kernels are compiled for. Each
// costs its full compile time; the ones left out differ little for these loops, or are of other
// machines than the one that builds (GSPMD_NATIVE).
#ifndef GSPMD_UNUSED_TARGETS
#define GSPMD_UNUSED_TARGETS 0
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | GSPMD_UNUSED_TARGETS)
#endif

// No dependence between iterations, although input and output may be the same memory.
#ifndef GSPMD_IVDEP
#if defined(__clang__)
#define GSPMD_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define GSPMD_IVDEP _Pragma("GCC ivdep")
#endif
#endif

// Into whoever calls it. Sanitizers add so much to each copy that files of kernels took minutes to
// compile: there the compiler chooses.
#ifndef GSPMD_INLINE
#ifdef GSPMD_SANITIZED
#define GSPMD_INLINE inline
#else
#define GSPMD_INLINE HWY_INLINE
#endif
#endif
