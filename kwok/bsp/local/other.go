//go:build !linux

// Package local runs bulk-synchronous jobs as processes of a Linux machine.
package local

import (
	"context"
	"errors"

	"github.com/kubernasium/kubernasium/kwok/bsp"
)

// ErrNotLinux is the error of [Open] on other operating systems.
var ErrNotLinux = errors.New("local: stress-ng under CPU limits needs Linux; --executor kubernetes needs none")

// Open returns ErrNotLinux.
func Open(context.Context, any) (bsp.Executor, error) { return nil, ErrNotLinux }
