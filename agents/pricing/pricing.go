// Package pricing compares policies of k8s/LRAPricing-v0 with baselines on equal batches or arrivals.
package pricing

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

const (
	id          = "k8s/LRAPricing-v0"
	placementID = "k8s/LRAPlacement-v0"
)

// A Player plays policies and baselines on the nodes of one table.
type Player struct {
	Table     string // CSV file of the node table
	Nodes     int
	Options   map[string]any // further options of k8s/LRAPricing-v0
	Baselines []string       // of k8s/LRAPricing-v0
	Policies  []string       // names for Open
	Seed      uint64         // of the first episode; the others follow
	Now       func() time.Time

	// Open makes the policy of a name for v. The Player closes the Closer after the episodes.
	Open func(name string, v *envs.Vec) (agents.Policy, io.Closer, error)
}

// Score holds the results of a policy or a baseline.
type Score struct {
	Method         string
	Throughput     []float64 // per container, by episode
	DecisionMicros float64   // per container, mean over episodes
}

// Batches plays each of batches, with the given number of containers each. Baselines come first in the scores.
func (p *Player) Batches(ctx context.Context, batches []lra.Counts, containers int) ([]Score, error) {
	dir, err := os.MkdirTemp("", "lra")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "batches.csv")
	if err := writeBatches(file, batches); err != nil {
		return nil, err
	}
	var all []Score
	for row := range batches {
		kwargs := map[string]any{"table": p.Table, "nodes": p.Nodes, "batches": file, "batch": row}
		scores, err := p.play(ctx, kwargs, 1, containers, p.rivals())
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = make([]Score, len(scores))
		}
		for k, s := range scores {
			all[k].Method = s.Method
			all[k].Throughput = append(all[k].Throughput, s.Throughput...)
			all[k].DecisionMicros += s.DecisionMicros / float64(len(batches))
		}
	}
	return all, nil
}

func writeBatches(path string, batches []lra.Counts) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(files.WriteBatches(f, batches), f.Close())
}

// Arrivals plays n episodes in which the given number of containers arrive, and depart, at a load. The scores are those
// of greedy and least_loaded of k8s/LRAPlacement-v0, then of the baselines and the policies.
func (p *Player) Arrivals(ctx context.Context, n, containers int, load float64) ([]Score, error) {
	kwargs := map[string]any{"table": p.Table, "nodes": p.Nodes, "arrivals": world.ArrivalsOnline, "load": load, "containers": containers}
	return p.play(ctx, kwargs, n, containers, p.rivals(rival{placementID, "greedy"}, rival{placementID, "least_loaded"}))
}

// rival is a baseline of an environment.
type rival struct{ env, baseline string }

// rivals appends the baselines to all.
func (p *Player) rivals(all ...rival) []rival {
	for _, name := range p.Baselines {
		all = append(all, rival{id, name})
	}
	return all
}

// play plays n episodes at once by each rival and each policy.
func (p *Player) play(ctx context.Context, kwargs map[string]any, n, containers int, rivals []rival) ([]Score, error) {
	var all []Score
	decisions := float64(n * containers)
	for _, r := range rivals {
		v, err := envs.Make(r.env, n, envs.VecOptions{Options: p.options(r.env, kwargs), Autoreset: envs.SameStep})
		if err != nil {
			return nil, err
		}
		policy, err := baseline.New(v, r.baseline, p.Seed)
		var s Score
		if err == nil {
			s, err = p.episodes(ctx, r.baseline, v, policy, decisions)
		}
		if err := errors.Join(err, v.Close()); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	v, err := envs.Make(id, n, envs.VecOptions{Options: p.options(id, kwargs), Autoreset: envs.SameStep})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	for _, name := range p.Policies {
		policy, closer, err := p.Open(name, v)
		if err != nil {
			return nil, err
		}
		s, err := p.episodes(ctx, name, v, policy, decisions)
		if err := errors.Join(err, closer.Close()); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// options adds p.Options to kwargs if env is k8s/LRAPricing-v0.
func (p *Player) options(env string, kwargs map[string]any) map[string]any {
	if env != id {
		return kwargs
	}
	all := maps.Clone(p.Options)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, kwargs)
	return all
}

// episodes plays an episode in each environment.
func (p *Player) episodes(ctx context.Context, method string, v *envs.Vec, policy agents.Policy, decisions float64) (Score, error) {
	start := p.Now()
	r, err := evaluation.Play(ctx, v, policy, evaluation.Seeds(p.Seed, v.NumEnvs()))
	if err != nil {
		return Score{}, err
	}
	return Score{method, r.Column(v.Spec().Column("throughput")), p.Now().Sub(start).Seconds() * 1e6 / decisions}, nil
}

// Mean returns the mean of the policies' scores, with the name method.
func Mean(method string, policies []Score) Score {
	m := Score{Method: method, Throughput: make([]float64, len(policies[0].Throughput))}
	for _, p := range policies {
		m.DecisionMicros += p.DecisionMicros / float64(len(policies))
		for k, v := range p.Throughput {
			m.Throughput[k] += v / float64(len(policies))
		}
	}
	return m
}
