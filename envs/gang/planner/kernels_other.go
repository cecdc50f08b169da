//go:build !amd64 || purego

package planner

const hasKernels = false

func tabulate([]float64, []float64, float64) { panic("unreachable: there are no kernels") }

func configureLanes(_, _, _ []float64, _, _, _, _ int) { panic("unreachable: there are no kernels") }

func configureFirst(_, _, _ []float64, _, _, _, _ int) { panic("unreachable: there are no kernels") }
