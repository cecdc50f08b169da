//go:build amd64 && !purego

package planner

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs stubs_amd64.go -pkg planner

var (
	hasAVX512  = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ
	hasKernels = hasAVX512 || cpu.X86.HasAVX2
)

// tabulate sets dst, whole vectors, to cubics in u: see [profile.Columns].
func tabulate(dst, coef []float64, u float64) {
	if hasAVX512 {
		tabulateAVX512(&dst[0], &coef[0], len(dst), u)
	} else {
		tabulateAVX2(&dst[0], &coef[0], len(dst), u)
	}
}

// configureLanes hands out increments for a window, in an area of the state.
func configureLanes(state, discount, table []float64, stride, last, window, increments int) {
	kernel := configureAVX2
	if hasAVX512 {
		kernel = configureAVX512
	}
	kernel(&state[0], &discount[0], &table[0], stride, last, window, increments)
}

// configureFirst does the same for window 1, or for windows 1 to 3, in their areas.
func configureFirst(state, discount, table []float64, stride, last, windows, increments int) {
	kernel := configure1AVX2
	switch {
	case hasAVX512 && windows == 3:
		kernel = configure123AVX512
	case hasAVX512:
		kernel = configure1AVX512
	case windows == 3:
		kernel = configure123AVX2
	}
	kernel(&state[0], &discount[0], &table[0], stride, last, windows, increments)
}
