package client_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// rowBytes is everything in a step about row i.
func rowBytes(b *envs.Batch, i int) []byte {
	n := len(b.Reward)
	at := func(k int) (from, to int) { return i * k / n, (i + 1) * k / n }
	o, p := at(len(b.Obs))
	m, q := at(len(b.Mask))
	f, g := at(len(b.Info))
	text := fmt.Append(nil, b.Obs[o:p], b.Mask[m:q], b.Info[f:g], b.Reward[i], b.Terminated[i], b.Truncated[i], b.Invalid[i], b.EpisodeReturn[i], b.EpisodeLength[i])
	if b.FinalObs != nil && b.Done(i) {
		text = fmt.Append(text, b.FinalObs[o:p], b.FinalMask[m:q], b.FinalInfo[f:g])
	}
	return text
}

// TestSendRecv: the hash of each row's trajectory is that of lock-step in this process, whatever is sent and received when.
func TestSendRecv(t *testing.T) {
	const n, steps = 4, 60
	s := hosttest.Start(t)
	seed := uint64(11)
	for _, id := range []string{"classic/CartPole-v1", "k8s/GangWindow-v0"} {
		for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
			options := map[string]any{}
			if id == "k8s/GangWindow-v0" {
				options["steps"] = 10
			}
			lock := local(t, id, n, envs.VecOptions{Autoreset: mode, Options: options})
			v := dial(t, s.WS, id, n, client.Options{Autoreset: mode, Options: options})
			var want, got [n][]byte
			add := func(hashes *[n][]byte, i int, b *envs.Batch, row int) {
				h := sha256.Sum256(append(hashes[i], rowBytes(b, row)...))
				hashes[i] = h[:]
			}
			action := func(i, k int) float32 { return float32((i + k*k) / 3 % 2) }
			if _, err := lock.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
				t.Fatal(err)
			}
			for k := range steps {
				b, err := lock.Step(ctx, []float32{action(0, k), action(1, k), action(2, k), action(3, k)})
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					add(&want, i, b, i)
				}
			}
			rng, taken, idle, pending := rand.New(rand.NewPCG(1, 2)), [n]int{}, []int{0, 1, 2, 3}, 0
			for {
				var rows []int
				var actions []float32
				for _, i := range idle {
					if taken[i] < steps && (len(rows)+pending == 0 || rng.IntN(2) == 0) {
						rows, actions = append(rows, i), append(actions, action(i, taken[i]))
						taken[i]++
					}
				}
				idle = slices.DeleteFunc(idle, func(i int) bool { return slices.Contains(rows, i) })
				if pending += len(rows); pending == 0 {
					break
				}
				if err := v.Send(ctx, rows, actions); err != nil {
					t.Fatal(err)
				}
				done, b, err := v.Recv(ctx, 1, 1+rng.IntN(n))
				if err != nil {
					t.Fatal(err)
				}
				for j, i := range done {
					add(&got, i, b, j)
				}
				idle, pending = append(idle, done...), pending-len(done)
			}
			for i := range n {
				if string(want[i]) != string(got[i]) {
					t.Errorf("%s, %v: the hash of row %d is %x, want %x", id, mode, i, got[i], want[i])
				}
			}
			if _, _, err := v.Recv(ctx, 1, 1); !errors.Is(err, envs.ErrNotSent) {
				t.Errorf("Recv of nothing: %v, want ErrNotSent", err)
			}
			if err := v.Send(ctx, []int{2}, []float32{0}); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Step(ctx, make([]float32, n)); !errors.Is(err, envs.ErrPending) {
				t.Errorf("Step while a step is pending: %v, want ErrPending", err)
			}
			if err := v.Send(ctx, []int{2}, []float32{0}); !errors.Is(err, envs.ErrPending) {
				t.Errorf("Send to a pending row: %v, want ErrPending", err)
			}
		}
	}
}

// TestObsKeys: the parts that were asked for are those of whole observations.
func TestObsKeys(t *testing.T) {
	s := hosttest.Start(t)
	whole := dial(t, s.WS, "k8s/PodBalance-v0", 2, client.Options{})
	obs, _ := whole.Spaces()
	d := obs.Describe()
	part := dial(t, s.WS, "k8s/PodBalance-v0", 2, client.Options{ObsKeys: d.Keys[1:2]})
	got, _ := part.Spaces()
	if k := got.Describe().Keys; !slices.Equal(k, d.Keys[1:2]) {
		t.Fatalf("parts %v, want %v", k, d.Keys[1:2])
	}
	seed := uint64(3)
	a, err := whole.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	b, err := part.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	size := func(k int) int {
		n := 1
		for _, side := range d.Parts[k].Shape {
			n *= side
		}
		return n
	}
	for i := range 2 {
		row := a.Obs[i*obs.Size()+size(0):][:size(1)]
		if !slices.Equal(b.Obs[i*size(1):(i+1)*size(1)], row) {
			t.Errorf("row %d: %v, want %v", i, b.Obs, row)
		}
	}
	if _, err := client.Dial(ctx, s.WS, "k8s/PodBalance-v0", 2, client.Options{ObsKeys: []string{"none"}}); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("a part that does not exist: %v, want ErrInvalidOption", err)
	}
	for name, opts := range map[string]client.Options{"parts": {ObsKeys: []string{"x"}}, "failures": {EnvError: true}} {
		if _, err := client.Dial(ctx, serve(t, nil), "test/Two-v0", 2, opts); !errors.Is(err, client.ErrUnsupported) {
			t.Errorf("%s at a server of 1.1: %v, want ErrUnsupported", name, err)
		}
	}
}

// TestEnvError: the row of an environment that failed is flagged for the caller.
func TestEnvError(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.ReportCauses = true })
	v := dial(t, s.WS, "test/Moody-v0", 2, client.Options{EnvError: true, Options: map[string]any{"moody": true}})
	w := dial(t, s.WS, "test/Moody-v0", 1, client.Options{EnvError: true, Options: map[string]any{"moody": true}})
	j, err := client.Join(v, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	for k, actions := range [][]float32{{0, 0, 1}, {0, 1, 0}, {0, 0, 0}} {
		b, err := j.Step(ctx, actions)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range actions {
			if failed := b.Failed[i]; (failed != nil) != (a == 1) || b.Truncated[i] != (a == 1) || a == 1 && !strings.Contains(failed.Error(), "a bad mood") {
				t.Errorf("step %d, row %d: failure %v, truncated %v, action %v", k, i, failed, b.Truncated[i], a)
			}
		}
	}
}

// moody fails by action 1, if its option says so.
type moody struct {
	Moody bool `opt:"moody" doc:"fail by action 1"`
}

func (moody) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (moody) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (y moody) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	if y.Moody && action[0] == 1 {
		panic("a bad mood")
	}
	return envs.Outcome{}, nil
}

func (moody) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func (y moody) Clone(*rand.Rand) envs.Task { return y }

func init() {
	envs.Register(&envs.Spec{ID: "test/Moody-v0", Options: &moody{}, Open: func(opts map[string]any) (envs.Maker, error) {
		var y moody
		if err := envs.DecodeOptions(opts, &y); err != nil {
			return nil, err
		}
		return func() (envs.Task, error) { return y, nil }, nil
	}})
}
