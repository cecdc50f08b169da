package fused

import (
	"testing"

	"github.com/kubernasium/kubernasium/tools/asmtest"
)

// The assembly and its stubs are those that the generator writes.
func TestGenerated(t *testing.T) { asmtest.Check(t, "fused", "kernels_amd64.s", "stubs_amd64.go") }
