package pricing

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// Options are the options of k8s/LRAPricing-v0.
type Options struct {
	Table           string `opt:"table,file" doc:"CSV file of the node table that prices are set against; empty generates one"`
	world.Instances `opt:",squash"`
	Nodes           int     `opt:"nodes" valid:"1,100000" doc:"number of nodes"`
	Containers      int     `opt:"containers" valid:"1,1e6" doc:"containers of a drawn batch; with online arrivals, placements of an episode"`
	MinContainers   int     `opt:"min_containers" valid:"0,1e6" doc:"fewest containers of a drawn batch, where its size is drawn too; 0 is containers"`
	Arrivals        string  `opt:"arrivals" valid:"batch|online" doc:"batch, or online: containers come and go"`
	Load            float64 `opt:"load" valid:"0.01,1" doc:"share of the slots that is in use on average with online arrivals"`
	Reward          string  `opt:"reward" valid:"dense|terminal|gap" doc:"dense; terminal: all at the end of the episode; or gap, with online arrivals: dense, less what the running containers are worth by the linear bound of the mean mix"`
	Period          int     `opt:"period" valid:"0,1e6" doc:"nodes that are filled, or online containers that are placed, at the same prices; 0 is 1 node or 200 containers"`
	Scale           float64 `opt:"scale" valid:"0.001,100" doc:"throughput of a container that an action of 1 adds to a price"`
	Base            string  `opt:"base" valid:"mean_values|duals" doc:"with a batch, the prices at an action of 0: mean_values, or duals of the linear program of what is left"`
	Finish          int     `opt:"finish" valid:"0,1e6" doc:"with a batch, the last nodes, which the integer program fills together; 0 is none"`
}

// DefaultOptions returns the defaults of k8s/LRAPricing-v0.
func DefaultOptions() Options {
	o := world.DefaultOptions()
	return Options{Instances: o.Instances, Nodes: o.Nodes, Containers: 600, Arrivals: o.Arrivals, Load: o.Load, Reward: o.Reward, Scale: prices.DefaultUnit, Base: prices.MeanValues}
}

// common returns the options of package world.
func (o *Options) common() world.Options {
	w := world.DefaultOptions()
	w.Table, w.Instances, w.Nodes, w.Containers, w.MinContainers = o.Table, o.Instances, o.Nodes, o.Containers, o.MinContainers
	w.Arrivals, w.Load, w.Reward = o.Arrivals, o.Load, o.Reward
	return w
}

// check checks the options that package world does not have.
func (o *Options) check() error {
	if o.Arrivals == world.ArrivalsOnline && (o.Finish > 0 || o.Base == prices.Duals) {
		return fmt.Errorf("%w: finish and base duals are of batch arrivals only", envs.ErrInvalidOption)
	}
	return envs.CheckOptions(o)
}
