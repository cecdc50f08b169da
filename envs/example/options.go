package example

import "github.com/kubernasium/kubernasium/envs"

// Options are the options of example/Packing-v0.
type Options struct {
	Nodes int `opt:"nodes" valid:"1,1000" doc:"number of nodes"`
	Pods  int `opt:"pods" valid:"1,100000" doc:"number of pods of an episode"`
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options { return Options{Nodes: 6, Pods: 16} }

// check returns the options, or an error that wraps envs.ErrInvalidOption.
func check(o Options) (Options, error) {
	return o, envs.CheckOptions(&o)
}
