package placement

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// Values of the option full.
const (
	FullMask  = "mask"  // full nodes are masked out
	FullRemap = "remap" // full nodes look like others, and choosing one leads to that other
)

// Options are the options of k8s/LRAPlacement-v0 and k8s/LRASubcluster-v0.
type Options struct {
	world.Options `opt:",squash"`
	Full          string `opt:"full" valid:"mask|remap" doc:"mask, or remap: full nodes look like others and choices of them lead there, as in the earlier project"`
}

// DefaultOptions returns the defaults of k8s/LRAPlacement-v0.
func DefaultOptions() Options { return Options{Options: world.DefaultOptions(), Full: FullMask} }

// DefaultSubclusterOptions returns the defaults of k8s/LRASubcluster-v0.
func DefaultSubclusterOptions() Options {
	o := DefaultOptions()
	o.Nodes, o.Containers = subcluster.Nodes, 70
	return o
}

// check checks full and the options that it excludes.
func (o *Options) check() error {
	if err := envs.CheckOptions(o); err != nil {
		return err
	}
	if o.Full == FullRemap && (len(o.Restrict) > 0 || o.Spread > 0 || len(o.Classes) > 0) {
		return fmt.Errorf("%w: full:remap knows neither restrict nor spread nor classes", envs.ErrInvalidOption)
	}
	return nil
}
