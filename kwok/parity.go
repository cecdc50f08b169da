package kwok

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// ParityConfig holds the arguments of [Parity].
type ParityConfig struct {
	Env       string         // id of the environment or of its twin
	Episodes  int            // number of seeds, from Seed on
	Decisions int            // of each episode, at most
	Seed      uint64         // of the first episode
	Options   map[string]any // of the environment
	Server    Options        // of the twin
}

// ParityReport is the result of [Parity].
type ParityReport struct {
	Env         string       `json:"env"`
	Twin        string       `json:"twin"`
	Episodes    int          `json:"episodes"`
	Decisions   int          `json:"decisions"`   // number played
	Pods        int          `json:"pods"`        // number created
	Differences []Difference `json:"differences"` // empty: the backends agree
	Seconds     float64      `json:"seconds"`     // on the API server
}

// Difference is a difference between the backends after a decision.
type Difference struct {
	Episode  int    `json:"episode"`
	Decision int    `json:"decision"` // 0 is the reset
	What     string `json:"what"`     // state, observation, mask, reward, end or info
	Detail   string `json:"detail"`   // in memory, and on the API server
}

// Parity plays random permitted actions in an environment, in memory and on an API server, and compares both
// after every decision. An episode ends at its first difference. If ctx ends, Parity returns the report so far
// with the error.
func Parity(ctx context.Context, c ParityConfig) (*ParityReport, error) {
	original, twin, err := Original(c.Env)
	if err != nil {
		return nil, err
	}
	server := maps.Clone(c.Options)
	if server == nil {
		server = map[string]any{}
	}
	server["kubeconfig"], server["allow_real_nodes"] = c.Server.Kubeconfig, c.Server.AllowRealNodes
	p := parity{ParityReport: ParityReport{Env: original.ID, Twin: twin.ID, Differences: []Difference{}}}
	if p.sim, err = envs.NewVec(original, 1, envs.VecOptions{Options: c.Options, Autoreset: envs.Disabled}); err != nil {
		return nil, err
	}
	defer p.sim.Close()
	if p.kwok, err = envs.NewVec(twin, 1, envs.VecOptions{Options: server, Autoreset: envs.Disabled}); err != nil {
		return nil, err
	}
	for e := range c.Episodes {
		if err := p.episode(ctx, c.Seed+uint64(e), c.Decisions); err != nil {
			_ = p.kwok.Close() // report the first error
			return &p.ParityReport, fmt.Errorf("episode %d: %w", e, err)
		}
		p.Episodes++
	}
	return &p.ParityReport, p.kwok.Close()
}

// parity is the state of a call of Parity.
type parity struct {
	ParityReport
	sim, kwok *envs.Vec
}

func (p *parity) episode(ctx context.Context, seed uint64, decisions int) error {
	a, err := p.sim.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		return err
	}
	b, err := p.timed(func() (*envs.Batch, error) { return p.kwok.Reset(ctx, envs.VecResetOptions{Seed: &seed}) })
	if err != nil {
		return err
	}
	_, act := p.sim.Spaces()
	action, rng := make([]float32, act.Size()), rand.New(rand.NewPCG(seed, 0))
	defer func() { p.Pods += len(p.kwok.Env(0).State().Pods) }()
	for d := 0; ; d++ {
		same := p.compare(d, a, b)
		if !same || d == decisions || a.Done(0) {
			return nil
		}
		p.Decisions++
		act.Sample(rng, a.Mask[:space.MaskSize(act)], action)
		if a, err = p.sim.Step(ctx, action); err != nil {
			return err
		}
		if b, err = p.timed(func() (*envs.Batch, error) { return p.kwok.Step(ctx, action) }); err != nil {
			return fmt.Errorf("decision %d: %w", d, err)
		}
	}
}

func (p *parity) timed(f func() (*envs.Batch, error)) (*envs.Batch, error) {
	begin := time.Now()
	defer func() { p.Seconds += time.Since(begin).Seconds() }()
	return f()
}

// compare compares both sides after decision d, records the differences, and reports whether there are none.
func (p *parity) compare(d int, a, b *envs.Batch) bool {
	before := len(p.Differences)
	differ := func(what, detail string) {
		p.Differences = append(p.Differences, Difference{p.Episodes, d, what, detail})
	}
	if s, t := p.sim.Env(0).State(), p.kwok.Env(0).State(); !s.Equal(t) {
		differ("state", cluster.Diff(s, t))
	}
	for _, x := range []struct {
		what  string
		equal bool
		a, b  any
	}{
		{"observation", slices.Equal(a.Obs, b.Obs), a.Obs, b.Obs},
		{"mask", slices.Equal(a.Mask, b.Mask), a.Mask, b.Mask},
		{"reward", a.Reward[0] == b.Reward[0], a.Reward[0], b.Reward[0]},
		{"end", a.Terminated[0] == b.Terminated[0] && a.Truncated[0] == b.Truncated[0],
			[]bool{a.Terminated[0], a.Truncated[0]}, []bool{b.Terminated[0], b.Truncated[0]}},
		{"info", slices.Equal(a.Info, b.Info), a.Info, b.Info},
	} {
		if !x.equal {
			differ(x.what, fmt.Sprintf("%v in memory, %v on the API server", x.a, x.b))
		}
	}
	return len(p.Differences) == before
}
