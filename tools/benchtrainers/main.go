// Command benchtrainers trains as the trainer does for a given number of steps, and prints its speed as one
// line of JSON. tools/bench_trainers.py runs it and the other libraries.
//
// Usage: go run ./tools/benchtrainers --algo ppo --env classic/CartPole-v1 --steps 100000
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/tools/cputime"
)

// report is the printed document.
type report struct {
	Steps   int     `json:"steps"`
	Updates int     `json:"updates,omitempty"`
	Wall    float64 `json:"wall_s"`
	CPU     float64 `json:"cpu_s"`
	Return  float64 `json:"return,omitempty"` // mean of the last 100 episodes
	Kernels string  `json:"kernels"`
}

func main() {
	algo := flag.String("algo", "ppo", strings.Join(algorithms.Names(nil), ", ")+"; or \"update\", a PPO update of the network alone")
	env := flag.String("env", "classic/CartPole-v1", "id, or "+wideID)
	config := flag.String("config", "{}", "hyperparameters as JSON, over Stable-Baselines3's defaults")
	kwargs := flag.String("env-kwargs", "{}", "options of the environment as JSON")
	nEnvs := flag.Int("n-envs", 8, "environments")
	steps := flag.Int("steps", 100_000, "environment steps, or updates")
	batch := flag.Int("batch", 64, "rows of an update, with --algo update")
	seconds := flag.Float64("seconds", 0, "train, instead of --steps, for whole rollouts until so many seconds have passed since the end of the first, which is not measured")
	save := flag.String("save", "", "checkpoint to write at the end, for two builds to be compared; steps must fill whole rollouts")
	profile := flag.String("cpuprofile", "", "file for a profile of the processor time")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "benchtrainers:", err)
			os.Exit(1)
		}
	}
	r, err := run(*algo, *env, *config, *kwargs, *nEnvs, *steps, *batch, *seconds, *save)
	pprof.StopCPUProfile()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchtrainers:", err)
		os.Exit(1)
	}
}

func run(algo, id, config, kwargs string, nEnvs, steps, batch int, seconds float64, save string) (report, error) {
	if algo == "update" {
		return updates(steps, batch)
	}
	envs.Register(wide())
	spec, err := envs.Lookup(id)
	if err != nil {
		return report{}, err
	}
	var options map[string]any
	if err := json.Unmarshal([]byte(kwargs), &options); err != nil {
		return report{}, fmt.Errorf("env-kwargs: %w", err)
	}
	v, err := envs.NewVec(spec, nEnvs, envs.VecOptions{Options: options, Autoreset: envs.SameStep})
	if err != nil {
		return report{}, err
	}
	defer v.Close()
	if seconds > 0 {
		steps = math.MaxInt32 // total steps of a schedule
	}
	obs, act := v.Spaces()
	info := agents.EnvInfo{ID: id, Kwargs: options, Obs: obs, Act: act, NumEnvs: nEnvs}
	l, net, err := newLearner(algo, config, info, steps)
	if err != nil {
		return report{}, err
	}
	if t := net.Team(); t.Workers() > 1 {
		v.Share(t) // as the trainer does
		t.Stay()
	}
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: new(uint64(1))})
	if err != nil {
		return report{}, err
	}
	actions := make([]float32, nEnvs*act.Size())
	r := report{Kernels: net.Kernels()}
	var returns lastReturns
	begun, cpu := time.Now(), cputime.Used().Seconds()
	measured := seconds == 0
	for r.Steps < steps {
		if err := l.Act(b, actions); err != nil {
			return r, err
		}
		if b, err = v.Step(context.Background(), actions); err != nil {
			return r, err
		}
		if err := l.Observe(b); err != nil {
			return r, err
		}
		metrics, err := l.Update()
		if err != nil {
			return r, err
		}
		r.Steps += nEnvs
		returns.add(b)
		if seconds > 0 && metrics != nil {
			if !measured {
				measured, r.Steps, begun, cpu = true, 0, time.Now(), cputime.Used().Seconds()
			} else if time.Since(begun).Seconds() >= seconds {
				break
			}
		}
	}
	r.Wall, r.CPU, r.Return = time.Since(begun).Seconds(), cputime.Used().Seconds()-cpu, returns.mean()
	if save != "" {
		err = models.WriteFileAtomic(save, l.Save)
	}
	return r, err
}

// lastReturns holds the returns of the last 100 episodes.
type lastReturns struct {
	ring [100]float64
	n    int // number of episodes so far
}

// add adds the episodes that ended in a step.
func (l *lastReturns) add(b *envs.Batch) {
	for i, end := range b.Terminated {
		if end || b.Truncated[i] {
			l.ring[l.n%len(l.ring)] = b.EpisodeReturn[i]
			l.n++
		}
	}
}

// mean returns their mean, or 0 if no episode has ended.
func (l *lastReturns) mean() float64 {
	kept := l.ring[:min(l.n, len(l.ring))]
	if len(kept) == 0 {
		return 0
	}
	return floats.Sum(kept) / float64(len(kept))
}

// newLearner returns a learner whose network may use all CPUs, and the last of its networks.
func newLearner(algo, config string, env agents.EnvInfo, steps int) (agents.Learner, *fused.Network, error) {
	a, err := algorithms.Get(algo)
	if err != nil {
		return nil, nil, err
	}
	cfg := a.Defaults()
	if err := json.Unmarshal([]byte(config), cfg); err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	var last *fused.Network
	l, err := a.New(cfg, steps, env, func(spec models.Spec) (models.Network, error) {
		net, err := fused.New(spec, rand.New(pcg.New(1)))
		if err != nil {
			return nil, err
		}
		net.SetWorkers(runtime.GOMAXPROCS(0))
		last = net
		return net, nil
	}, 1)
	return l, last, err
}
