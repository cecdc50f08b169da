//go:build !amd64 || purego

package lanes

func supported() int { return none }

func stepAVX2(_, _ *float64, _ int) { panic("unreachable: there are no kernels") }

func stepAVX512(_, _ *float64, _ int) { panic("unreachable: there are no kernels") }
