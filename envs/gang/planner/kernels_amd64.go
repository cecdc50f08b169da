//go:build amd64 && !purego

package planner

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs stubs_amd64.go -pkg planner

var hasKernels = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ

// tabulate sets dst, whole vectors, to cubics in u: see [profile.Columns].
func tabulate(dst, coef []float64, u float64) { tabulateAVX512(&dst[0], &coef[0], len(dst), u) }

// configureLanes hands out increments for a window, in an area of the state.
func configureLanes(state, discount, table []float64, stride, last, window, increments int) {
	configureAVX512(&state[0], &discount[0], &table[0], stride, last, window, increments)
}

// configureFirst does the same for window 1, or for windows 1 to 3, in their areas.
func configureFirst(state, discount, table []float64, stride, last, windows, increments int) {
	kernel := configure1AVX512
	if windows == 3 {
		kernel = configure123AVX512
	}
	kernel(&state[0], &discount[0], &table[0], stride, last, windows, increments)
}
