//go:build !amd64 || purego

package vmath

func kernels() []kernel { return nil }

func prefetch(*byte, int) {}
