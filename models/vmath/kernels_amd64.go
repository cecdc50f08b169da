//go:build amd64 && !purego

package vmath

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asm -out exp_amd64.s -stubs exp_amd64.go -pkg vmath

// kernels returns the kernels that this CPU can run, the fastest first.
func kernels() []kernel {
	var ks []kernel
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2 {
			ks = append(ks, kernel{"avx512", shiftedExpAVX512, logAVX512})
		}
		ks = append(ks, kernel{"avx2", shiftedExpAVX2, logAVX2})
	}
	return ks
}
