//go:build !amd64 || purego

package team

func pause() {}
