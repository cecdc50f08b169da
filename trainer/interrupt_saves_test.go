package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/models"
)

// countdown is a context that ends when it has been asked left times whether it has ended. Commands
// that ask at each piece of their work are interrupted there, however fast they are.
type countdown struct {
	context.Context
	left atomic.Int64
}

func endsAfter(t *testing.T, asked int64) context.Context {
	t.Helper()
	c := &countdown{Context: t.Context()}
	c.left.Store(asked)
	return c
}

// Err implements [context.Context].
func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// interrupted runs the command line of root until ctx ends it, and returns its error's text, which must be an
// interrupt's and match the pattern, as the pattern's groups, and its output.
func interrupted(t *testing.T, ctx context.Context, root *cobra.Command, pattern string, args ...string) (groups []string, stdout string) {
	t.Helper()
	var out bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := executeRoot(ctx, root)
	if !errors.Is(err, errInterrupted) {
		t.Fatalf("trainer %s: %v, want an interrupt", strings.Join(args, " "), err)
	}
	groups = regexp.MustCompile(pattern).FindStringSubmatch(err.Error())
	if groups == nil || strings.Contains(err.Error(), "context canceled") {
		t.Fatalf("trainer %s: %q, want %s and nothing of a context", strings.Join(args, " "), err, pattern)
	}
	return groups, out.String()
}

// TestInterruptAfterTraining: what was trained is named, whatever comes after it is interrupted.
func TestInterruptAfterTraining(t *testing.T) {
	args := []string{"train", "--algo", "a2c", "--env", "test/Endless-v0", "--env-kwargs", "steps:10", "-n", "64", "--eval-freq", "0", "--eval-episodes", "1", "-f", t.TempDir()}
	for _, tc := range []struct {
		name    string
		more    []string
		steps   int64
		pattern string
	}{
		{"last evaluation", []string{"--eval-env-kwargs", "steps:1000000000"}, 1000, `the training is complete, and its model is (\S+)$`},
		{"comparison", []string{"--compare", "10000", "--eval-env-kwargs", "steps:10000"}, 12_000, `trainer compare --model (\S+) compares it$`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			message, _ := interruptedAfter(t, tc.steps, append(args, tc.more...)...)
			m := regexp.MustCompile(tc.pattern).FindStringSubmatch(message)
			if m == nil {
				t.Fatalf("%q, want %s", message, tc.pattern)
			}
			mustExecute(t, "eval", "--model", m[1], "--episodes", "1", "--env-kwargs", "steps:10")
		})
	}
}

// batchFile writes a batch of 200 containers.
func batchFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batches.csv")
	if err := os.WriteFile(path, []byte("redis,mms,ckm,ycsba,ycsbb,scd,isr\n27,32,12,37,30,34,28\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInterruptLRATrainSub: the training resumes, and of a comparison what was compared is printed.
func TestInterruptLRATrainSub(t *testing.T) {
	folder, table := t.TempDir(), generatedTable(t)
	ctx := cancelWhen(t, func() bool { return withEpisodes(folder) > 0 })
	m, _ := interrupted(t, ctx, newRoot(), `interrupted at (\d+) timesteps; go on with --resume (\S+) of trainer train, and compare its model with --model`,
		"lra", "train-sub", "--node-table", table, "--imitate", "", "--n-timesteps", "1000000000", "-f", folder, "--json")
	f, err := models.ReadFile(m[2])
	if err != nil || strconv.FormatInt(f.Meta.Timesteps, 10) != m[1] {
		t.Fatalf("checkpoint of %d timesteps, %v; want %s", f.Meta.Timesteps, err, m[1])
	}
	more := int(f.Meta.Timesteps) + 1 // one rollout
	resumed := decode[trainResult](t, mustExecute(t, "train", "--resume", m[2], "-n", strconv.Itoa(more), "--json"))
	if resumed.Timesteps < more {
		t.Errorf("the training resumed to %d timesteps, want %d at least", resumed.Timesteps, more)
	}
	const rows = 5
	out := t.TempDir()
	m, text := interrupted(t, endsAfter(t, 3*rows-1), newRoot(), `interrupted: (\d+) of 216 numbers of containers are compared; --model (\S+) compares`,
		"lra", "train-sub", "--node-table", table, "--model", m[2], "--rows", strconv.Itoa(rows), "--out", out, "--json")
	if n := len(decode[lraSubResult](t, text).Counts); n != 2 || m[1] != "2" {
		t.Errorf("%d numbers of containers are printed and %s told of, want the 2 that were compared", n, m[1])
	}
	if n := strings.Count(read(t, filepath.Join(out, "subscheduler.csv")), "\n"); n != 3 {
		t.Errorf("subscheduler.csv has %d lines, want a header and 2", n)
	}
}

// TestInterruptLRATrain: the best placement until then is reported, and the model kept.
func TestInterruptLRATrain(t *testing.T) {
	out := t.TempDir()
	args := []string{"lra", "train-high", "--node-table", generatedTable(t), "--batches", batchFile(t), "--subscheduler", "greedy", "--budget", "1h", "--episodes", "1000000", "--out", out, "--json"}
	m, text := interrupted(t, endsAfter(t, 3), newRoot(), `interrupted after (\d+) of 1000000 episodes: .* the model is in (\S+);`, args...)
	r := decode[lraResult](t, text)
	if fmt.Sprint(r.Episodes) != m[1] || r.Episodes == 0 || r.Throughput <= 0 || m[2] != out {
		t.Errorf("%d episodes, throughput %v, model in %s; want %s episodes and %s", r.Episodes, r.Throughput, m[2], m[1], out)
	}
	if _, err := models.ReadFile(filepath.Join(out, "model.safetensors")); err != nil {
		t.Error(err)
	}
	if _, _, err := execute(t, endsAfter(t, 0), args...); !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), "nothing is saved") {
		t.Errorf("before the first episode: %v, want that nothing is saved", err)
	}
}

// TestInterruptReproduceFGD: lists that were played to the end are in the table and drawn.
func TestInterruptReproduceFGD(t *testing.T) {
	dir, plots := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		fgdNodes:                   "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\n",
		"openb_pod_list_one.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\np,1000,1024,1,500,,LS,Running,0,9,0\n",
		"openb_pod_list_three.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\nq,1000,1024,1,250,,LS,Running,0,9,0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"reproduce", "fgd", "--all", "--data", dir, "--policy", "BestFit", "--plot", plots, "--json"}
	const seeds = 10 // that each list is played with
	_, text := interrupted(t, endsAfter(t, seeds+2), newRoot(), `interrupted: 1 of 2 lists are complete; .*--list`, args...)
	rows, whole := decode[[]fgdRow](t, text), decode[[]fgdRow](t, mustExecute(t, args...))
	if len(rows) != 1 || len(whole) != 2 || rows[0].List != "one" || rows[0].Mean != whole[0].Mean || len(rows[0].Runs) != seeds {
		t.Errorf("%+v, want the first row of %+v", rows, whole)
	}
	if text, _, err := execute(t, endsAfter(t, 2), args...); !errors.Is(err, errInterrupted) || text != "" {
		t.Errorf("in the first list: %v and\n%s\nwant an interrupt and no table", err, text)
	}
}

// TestInterruptForecaster: what the passes have trained is kept, and not in the place of a whole
// training's model.
func TestInterruptForecaster(t *testing.T) {
	folder := t.TempDir()
	c := forecasterConfig{Config: forecast.Defaults(), kwargs: map[string]any{"encoding": "upstream", "safety": "memory", "hold": 30, "steps": 720}, seed: 1, out: filepath.Join(folder, "f.safetensors")}
	c.Episodes, c.Batch, c.Epochs = 2, 2, 1_000_000
	_, err := c.train(endsAfter(t, 1000), "trainer vpa forecaster")
	kept := filepath.Join(folder, "f_interrupted.safetensors")
	if !errors.Is(err, errInterrupted) || !regexp.MustCompile(`after [1-9]\d* of 1000000 passes: .* in `+regexp.QuoteMeta(kept)).MatchString(err.Error()) {
		t.Fatalf("%v, want an interrupt that names %s", err, kept)
	}
	mustExecute(t, "eval", "--model", kept, "--episodes", "1", "--env-kwargs", "steps:720")
	if _, err := os.Stat(c.out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want that it is not written", c.out, err)
	}
}
