package hierarchical

import "github.com/kubernasium/kubernasium/envs/lra/world"

// Options are the options of k8s/LRAHierarchical-v0.
type Options struct {
	Table           string `opt:"table,file" doc:"CSV file of the node table that sub-schedulers and observations know; empty generates one"`
	world.Instances `opt:",squash"`
	Nodes           int    `opt:"nodes" valid:"54,100000" doc:"number of nodes, in sub-clusters of 27"`
	Containers      int    `opt:"containers" valid:"1,1e6" doc:"containers of a drawn batch"`
	Order           string `opt:"order" valid:"apps|shuffled" doc:"apps or shuffled: the order in which a batch is divided"`
	world.Goal      `opt:",squash"`
	Reward          string `opt:"reward" valid:"dense|terminal" doc:"terminal: all at the end; or dense: the sub-cluster is filled anew after each choice"`
	SubScheduler    string `opt:"subscheduler,file" words:"greedy greedy_local_search round_robin least_loaded milp" doc:"what fills a sub-cluster: greedy, greedy_local_search, round_robin, least_loaded, milp, or an NPZ file of the published networks"`
	Tree            bool   `opt:"tree" doc:"choose among three at a time, down a tree, instead of among all sub-clusters"`
}

// DefaultOptions returns the defaults of k8s/LRAHierarchical-v0.
func DefaultOptions() Options {
	o := world.DefaultOptions()
	return Options{
		Instances: o.Instances, Nodes: o.Nodes, Containers: o.Containers, Order: o.Order, Goal: o.Goal,
		Reward: world.RewardTerminal, SubScheduler: "greedy",
	}
}

// common returns the options of package world.
func (o *Options) common() world.Options {
	w := world.DefaultOptions()
	w.Table, w.Instances, w.Nodes, w.Containers, w.Order = o.Table, o.Instances, o.Nodes, o.Containers, o.Order
	w.Goal, w.Reward = o.Goal, o.Reward
	return w
}
