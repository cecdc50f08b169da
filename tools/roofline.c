// What one core can do, and the time of another library's matrix products. tools/bench_gemm.py compiles
// this to a library and loads it.

#include <stdint.h>
#include <string.h>
#include <time.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

#define TWELVE(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11)
#define CLOBBERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
#ifdef __AVX512F__
#define LANES 16
#define VECTOR "zmm"
#else
#define LANES 8
#define VECTOR "ymm"
#endif
#define ZERO(i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n"
#define FMA(i) "vfmadd231ps %%" VECTOR "12, %%" VECTOR "13, %%" VECTOR #i "\n"
#define ADD(i) "vaddps " #i "*4*%c2(%1), %%" VECTOR #i ", %%" VECTOR #i "\n"

// fma_peak returns the GFLOP/s of twelve independent chains of fused multiply-adds of registers.
double fma_peak(void) {
	const long n = 1000000;
	long i = n;
	double begun = now();
	asm volatile(TWELVE(ZERO) ZERO(12) ZERO(13) "1:\n" TWELVE(FMA) "dec %0\njnz 1b\nvzeroupper" : "+r"(i) : : CLOBBERS, "xmm12", "xmm13");
	return 12.0 * n * LANES * 2 / (now() - begun) * 1e-9;
}

// read_rate returns the GB/s at which vectors of an array are read, again and again for some 20 ms.
double read_rate(const float *x, long bytes) {
	const long block = 12 * LANES * 4;
	double begun = now(), seconds, read = 0;
	do {
		long i = bytes / block;
		const float *p = x;
		asm volatile("1:\n" TWELVE(ADD) "add %3, %1\ndec %0\njnz 1b\nvzeroupper" : "+r"(i), "+r"(p) : "i"(LANES), "i"(12 * LANES * 4) : CLOBBERS, "memory");
		read += bytes / block * block;
		seconds = now() - begun;
	} while (seconds < 0.02);
	return read / seconds * 1e-9;
}

// Fortran's sgemm. Its integers may have 32 bits, which are the low half of these.
typedef void (*sgemm)(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const float *, const float *,
	const int64_t *, const float *, const int64_t *, const float *, float *, const int64_t *);

// sgemm_time returns the seconds of one of n calls that set c, m×n by columns, to a·b.
double sgemm_time(sgemm f, int calls, char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
	int64_t ldb, float *c, int64_t ldc) {
	const float one = 1, zero = 0;
	double begun = now();
	for (int i = 0; i < calls; i++)
		f(&ta, &tb, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &ldc);
	return (now() - begun) / calls;
}
