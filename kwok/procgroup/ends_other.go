//go:build unix && !linux

package procgroup

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
