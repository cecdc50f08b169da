package run_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kubernasium/kubernasium/models/team"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestThreadsGiveEqualModels: --n-threads reaches the network, whose goroutines, if there are several, step the
// environments too, and changes no byte of a model.
func TestThreadsGiveEqualModels(t *testing.T) {
	const env = "classic/CartPole-v1"
	var want []byte
	for _, threads := range []int{1, 2, 8, 0} {
		c := run.Config{Algo: "ppo", Env: env, EvalEpisodes: 1, LogFolder: t.TempDir(), NThreads: threads, Quiet: true}
		spec, _, err := complete(t, &c, map[string]any{"n_timesteps": 2048})
		if err != nil {
			t.Fatal(err)
		}
		r, err := run.New(t.Context(), spec, c, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		workers := threads
		if threads == 0 {
			workers = runtime.GOMAXPROCS(0)
		}
		tm := team.Of(r.Learner.Nets[0])
		if got := tm.Workers(); got != workers {
			t.Errorf("NThreads %d: %d workers, want %d", threads, got, workers)
		}
		if got, want := tm.Stays(), workers > 1; got != want {
			t.Errorf("NThreads %d: the workers step the environments: %v, want %v", threads, got, want)
		}
		if err := r.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(r.Folder, run.EnvName(env)+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if threads == 1 {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("NThreads %d writes another model than 1", threads)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
