package core

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// episodes counts the episodes of all drifting environments, so that no two are alike.
var episodes float64

// drifting pays the number of its episode, whatever the seed.
type drifting struct{ pay float64 }

func (*drifting) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (d *drifting) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	episodes++
	d.pay = episodes
	return nil
}

func (d *drifting) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	return envs.Outcome{Reward: d.pay, Terminated: true}, nil
}

func (*drifting) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func init() {
	envs.Register(&envs.Spec{ID: "test/Drifting-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &drifting{}, nil }, nil
	}})
}

// TestVerifyFindsDifferences: eval --verify fails where an episode over the wire is not that in process.
func TestVerifyFindsDifferences(t *testing.T) {
	url := hosttest.Start(t).WS
	args := []string{"eval", "--env", "test/Drifting-v0", "--baseline", "random", "--episodes", "1", "--url", url}
	if out := mustExecute(t, args...); strings.Contains(out, "bit for bit") || !strings.Contains(out, url) {
		t.Errorf("eval without --verify says that returns were compared, or not on which server:\n%s", out)
	}
	_, _, err := execute(t, t.Context(), append(args, "--verify")...)
	if err == nil || !strings.Contains(err.Error(), "returns over the wire [3] differ from those in process [5]") {
		t.Errorf("eval --verify of episodes that pay 3 and then 5, each end beginning another: %v, want that they differ", err)
	}
	args[2] = "classic/CartPole-v1"
	if out := mustExecute(t, append(args, "--verify")...); !strings.Contains(out, "every return is equal to that in process, bit for bit") {
		t.Errorf("eval --verify of equal episodes does not say so:\n%s", out)
	}
}

// TestResumeOfSolved: a training that has reached its threshold makes no further step when resumed.
func TestResumeOfSolved(t *testing.T) {
	folder := t.TempDir()
	args := []string{"train", "--algo", "ppo", "--env", "classic/CartPole-v1", "--seed", "1", "-n", "512", "--params", "n_steps:32", "--params", "n_envs:4",
		"--params", "batch_size:32", "--reward-threshold", "1", "--eval-freq", "128", "--eval-episodes", "2", "--save-freq", "0", "-f", folder, "--json"}
	type result struct {
		Timesteps int    `json:"timesteps"`
		Stopped   bool   `json:"stopped_early"`
		Model     string `json:"model"`
	}
	first := clitest.Decode[result](t, mustExecute(t, args...))
	if first.Timesteps != 128 || !first.Stopped {
		t.Fatalf("%+v, want that it stops with the first evaluation, after 128 steps", first)
	}
	again := clitest.Decode[result](t, mustExecute(t, "train", "--resume", first.Model, "-n", "512", "--reward-threshold", "1", "--json"))
	if again.Timesteps != 128 || !again.Stopped {
		t.Errorf("resumed: %+v, want no step more", again)
	}
}

// TestResumeOnServersIsInexact: a resumed training whose environments are on a server says that it is
// not that of an uninterrupted one; one in this process does not.
func TestResumeOnServersIsInexact(t *testing.T) {
	folder, url := t.TempDir(), hosttest.Start(t).WS
	mustExecute(t, small(folder, "-n", "64", "--json")...)
	model := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors")
	const words = "the result is not that of an uninterrupted training"
	for i, more := range [][]string{nil, {"--url", url}} {
		_, stderr, err := execute(t, t.Context(), append([]string{"train", "--resume", model, "-n", []string{"128", "192"}[i]}, more...)...)
		if err != nil || strings.Contains(stderr, words) != (more != nil) {
			t.Errorf("resumed with %v: %v; want it to say that it is inexact: %v\n%s", more, err, more != nil, stderr)
		}
	}
}

// TestInexactResumeMovesTheBest: a resumed training that is not that of an uninterrupted one moves a best
// model of later steps aside; an exact one, which comes to it again, keeps it.
func TestInexactResumeMovesTheBest(t *testing.T) {
	url := hosttest.Start(t).WS
	for _, more := range [][]string{nil, {"--url", url}} {
		root := t.TempDir()
		mustExecute(t, small(root, "-n", "256", "--json")...)
		folder := filepath.Join(root, "ppo", "k8s-GangWindow-v0_1")
		best := filepath.Join(folder, "best_model.safetensors")
		last, err := os.ReadFile(filepath.Join(folder, "k8s-GangWindow-v0.safetensors")) // of 256 steps
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(best, last, 0o600); err != nil {
			t.Fatal(err)
		}
		mustExecute(t, append([]string{"train", "--resume", filepath.Join(folder, "rl_model_128_steps.safetensors")}, more...)...)
		_, err = os.Stat(filepath.Join(folder, "superseded", "best_model.safetensors"))
		if moved := err == nil; moved != (more != nil) {
			t.Errorf("resumed with %v: the best model of 256 steps is moved aside: %v, want %v", more, moved, more != nil)
		}
	}
}

// TestMonitorHasTheEpisodes: 256 steps of four environments whose episodes take 20 end three in each,
// which monitor.csv lists, and nothing else.
func TestMonitorHasTheEpisodes(t *testing.T) {
	root := t.TempDir()
	mustExecute(t, small(root, "-n", "256", "--json")...)
	text := clitest.Read(t, filepath.Join(root, "ppo", "k8s-GangWindow-v0_1", "monitor.csv"))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2+12 || lines[1] != "r,l,t,timesteps" {
		t.Fatalf("%d lines, want a comment, a header and 12 episodes:\n%s", len(lines), text)
	}
	for i, line := range lines[2:] {
		if cells := strings.Split(line, ","); len(cells) != 4 || cells[1] != "20" || cells[3] != []string{"80", "160", "240"}[i/4] || !strings.HasPrefix(cells[0], "-") {
			t.Errorf("%q, want a negative return and 20 steps that end with 80, 160 or 240", line)
		}
	}
}
