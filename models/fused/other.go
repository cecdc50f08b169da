//go:build !amd64 || purego

package fused

// variants returns the kernels that this CPU can run, the fastest first.
func variants() []variant { return []variant{{"gonum", gonumKernels{}}} }
