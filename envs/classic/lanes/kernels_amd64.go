//go:build amd64 && !purego

package lanes

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs stubs_amd64.go -pkg lanes

func supported() int {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return none
	case !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512DQ:
		return avx2
	}
	return avx512
}
