package lanes

import (
	"testing"

	"github.com/kubernasium/kubernasium/tools/asmtest"
)

// TestGenerated checks that the assembly is the output of the generator.
func TestGenerated(t *testing.T) { asmtest.Check(t, "lanes", "kernels_amd64.s", "stubs_amd64.go") }
