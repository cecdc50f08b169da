package vpa

import (
	"errors"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// TestNodeOfSharedOptions: a node's size is 0, which stands for one by demand, or at least 1: less than a millicore or a
// byte would be no size at all.
func TestNodeOfSharedOptions(t *testing.T) {
	for size, ok := range map[float64]bool{0: true, 0.5: false, 1e-9: false, -1: false, 1: true, 64000: true, 2e9: false} {
		for _, set := range []func(o *SharedOptions){func(o *SharedOptions) { o.NodeCPU = size }, func(o *SharedOptions) { o.NodeMemory = size }} {
			o := DefaultSharedOptions()
			set(&o)
			if err := o.check(); errors.Is(err, envs.ErrInvalidOption) == ok {
				t.Errorf("node of %v: %v", size, err)
			}
		}
	}
}
