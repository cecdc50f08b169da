package online

import (
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// Options are the options of k8s/LRAOnline-v0.
type Options struct {
	Table            string  `opt:"table,file" doc:"CSV file of the node table that observations and the index know; empty generates one"`
	ScoreTable       string  `opt:"score_table,file" doc:"CSV file of the node table that rewards are by; empty is table"`
	TableSeed        int     `opt:"table_seed" valid:"0,9007199254740992" doc:"random seed of the generated table; 0 is the law as fitted to the published profile"`
	Split            string  `opt:"split" valid:"train|heldout" doc:"train, or heldout: arrivals that training does not see"`
	Nodes            int     `opt:"nodes" valid:"1,100000" doc:"number of nodes"`
	Containers       int     `opt:"containers" valid:"1,1e6" doc:"placements of an episode"`
	Load             float64 `opt:"load" valid:"0.01,1" doc:"share of the slots that is in use on average"`
	Reward           string  `opt:"reward" valid:"dense|terminal|gap" doc:"dense; terminal: all at the end of the episode; or gap: dense, less what the running containers are worth by the linear bound of the mean mix"`
	prices.Constants `opt:",squash"`
}

// DefaultOptions returns the defaults: 6000 placements on 81 nodes at load 0.9, with the index at [prices.TunedGenerated].
func DefaultOptions() Options {
	return Options{Split: world.SplitTrain, Nodes: 81, Containers: 6000, Load: 0.9, Reward: world.RewardDense, Constants: prices.Of(prices.TunedGenerated)}
}

// common returns the options of package world.
func (o *Options) common() world.Options {
	w := world.DefaultOptions()
	w.Table, w.ScoreTable, w.TableSeed, w.Split = o.Table, o.ScoreTable, o.TableSeed, o.Split
	w.Nodes, w.Containers, w.Load, w.Reward, w.Arrivals = o.Nodes, o.Containers, o.Load, o.Reward, world.ArrivalsOnline
	return w
}
