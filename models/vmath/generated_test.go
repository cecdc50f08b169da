package vmath

import (
	"testing"

	"github.com/kubernasium/kubernasium/tools/asmtest"
)

// The assembly and its stubs are those that the generator writes.
func TestGenerated(t *testing.T) { asmtest.Check(t, "vmath", "exp_amd64.s", "exp_amd64.go") }
