//go:build !linux

package main

func power(p *probe) { p.skipped = "needs Linux" }
