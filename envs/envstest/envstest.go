// Package envstest holds the shared code of the tests of environments: stepping, baselines, golden files and the public
// data. Tests of other packages read and write their files by it too.
package envstest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// Spec returns a registered specification.
func Spec(tb testing.TB, id string) *envs.Spec {
	tb.Helper()
	s, err := envs.Lookup(id)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Open returns n environments, which are closed with the test.
func Open(tb testing.TB, id string, n int, opts envs.VecOptions) *envs.Vec {
	tb.Helper()
	v, err := envs.NewVec(Spec(tb, id), n, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { v.Close() })
	return v
}

// CheckInvalid opens a specification with invalid options; the error must contain want.
func CheckInvalid(tb testing.TB, id string, opts map[string]any, want string) {
	tb.Helper()
	if _, err := Spec(tb, id).Open(opts); !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), want) {
		tb.Errorf("Open(%v): %v, want ErrInvalidOption with %q", opts, err, want)
	}
}

// Reset starts episodes from a seed.
func Reset(tb testing.TB, v *envs.Vec, seed uint64) *envs.Batch {
	tb.Helper()
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Step takes a step with the actions of all environments, one after another.
func Step(tb testing.TB, v *envs.Vec, actions ...float32) *envs.Batch {
	tb.Helper()
	b, err := v.Step(context.Background(), actions)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Column returns a diagnostic of environment 0 by its name.
func Column(tb testing.TB, v *envs.Vec, b *envs.Batch, name string) float64 {
	tb.Helper()
	i := v.Spec().Column(name)
	if i < 0 {
		tb.Fatalf("no column %q", name)
	}
	return b.Info[i]
}

// Policy returns a baseline of environment 0.
func Policy(tb testing.TB, v *envs.Vec, name string) envs.Policy {
	tb.Helper()
	return PolicyOf(tb, v.Spec(), v.Env(0).Task(), name)
}

// PolicyOf returns a baseline of a task.
func PolicyOf(tb testing.TB, spec *envs.Spec, task envs.Task, name string) envs.Policy {
	tb.Helper()
	base, err := spec.Baseline(name)
	if err != nil {
		tb.Fatal(err)
	}
	policy, err := base.New(task)
	if err != nil {
		tb.Fatal(err)
	}
	return policy
}

// Play plays an episode of one environment by a policy and returns its last batch. The policy must not choose a masked
// action.
func Play(tb testing.TB, v *envs.Vec, policy envs.Policy, seed uint64) *envs.Batch {
	tb.Helper()
	b := Reset(tb, v, seed)
	_, act := v.Spaces()
	action := make([]float32, act.Size())
	for i := 0; i == 0 || !b.Done(0); i++ {
		if err := policy(tb.Context(), v.Env(0).State(), i == 0, action); err != nil {
			tb.Fatal(err)
		}
		if b = Step(tb, v, action...); b.Invalid[0] {
			tb.Fatalf("step %d: action %v is masked out", i, action)
		}
	}
	return b
}

// EveryThird skips case i of a table with -short, unless i is a multiple of three.
func EveryThird(t *testing.T, i int) {
	t.Helper()
	if testing.Short() && i%3 > 0 {
		t.Skip("one of two cases in three; run without -short")
	}
}

// Golden compares a text with testdata/name.golden, which -update rewrites.
func Golden(tb testing.TB, name, got string) {
	tb.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		Write(tb, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%v: run with -update to write it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Read returns the contents of a file.
func Read(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// Write writes a file and makes the folders above it.
func Write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// TempFile writes a file in the test's temporary folder and returns its path.
func TempFile(tb testing.TB, name, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	Write(tb, path, text)
	return path
}

// Data returns the named folder of the public data, or skips the test if the folder lacks the file.
func Data(tb testing.TB, folder, file string) string {
	tb.Helper()
	root := os.Getenv("KUBERNASIUM_DATA")
	if root == "" {
		root = filepath.Join(repository(tb), "..", "shared", "data") // beside the repository's root
	}
	dir := filepath.Join(root, folder)
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		tb.Skipf("%v: set KUBERNASIUM_DATA to the folder that holds %s/ to enable this test", err, folder)
	}
	return dir
}

// repository returns the folder of go.mod, above that in which the test runs.
func repository(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			tb.Fatal("no go.mod above the test")
		}
	}
}

// Sampled plays an episode of sampled actions and returns it as lines of text for [Golden].
func Sampled(tb testing.TB, v *envs.Vec, seed uint64) string {
	tb.Helper()
	b := Reset(tb, v, seed)
	_, act := v.Spaces()
	var text strings.Builder
	rng, action := rand.New(rand.NewPCG(7, 7)), make([]float32, act.Size())
	for done := false; !done; {
		fmt.Fprint(&text, "observation")
		for _, x := range b.Obs {
			fmt.Fprintf(&text, " %.4g", x)
		}
		act.Sample(rng, b.Mask[:space.MaskSize(act)], action)
		b = Step(tb, v, action...)
		fmt.Fprint(&text, "\naction")
		for _, x := range action {
			fmt.Fprintf(&text, " %v", x)
		}
		fmt.Fprintf(&text, " reward %.6f\n", b.Reward[0])
		done = b.Done(0)
	}
	fmt.Fprintf(&text, "info %.6f\n", b.FinalInfo)
	return text.String()
}

// BenchmarkStep plays sampled actions with 8 environments in one goroutine and reports placements per second. A
// placement takes levels actions.
func BenchmarkStep(b *testing.B, id string, opts map[string]any, levels int) {
	b.Helper()
	const n = 8
	ctx := b.Context()
	v, err := envs.NewVec(Spec(b, id), n, envs.VecOptions{Options: opts, Autoreset: envs.SameStep, Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		b.Fatal(err)
	}
	_, act := v.Spaces()
	rng := rand.New(rand.NewPCG(1, 2))
	actions := make([]float32, 1000*n)
	for i := range actions {
		act.Sample(rng, nil, actions[i:i+1])
	}
	i := 0
	step := func() {
		if _, err := v.Step(ctx, actions[i*n:(i+1)*n]); err != nil {
			b.Fatal(err)
		}
		i = (i + 1) % 1000
	}
	for range 2000 { // until all slices have grown
		step()
	}
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(n*float64(b.N)/float64(levels)/b.Elapsed().Seconds(), "placements/s")
}
