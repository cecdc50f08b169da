package lra

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// batchFile writes a batch of 200 containers.
func batchFile(t *testing.T) string {
	t.Helper()
	return envstest.TempFile(t, "batches.csv", "redis,mms,ckm,ycsba,ycsbb,scd,isr\n27,32,12,37,30,34,28\n")
}

// TestInterruptLRATrainSub: the training resumes, and of a comparison what was compared is printed.
func TestInterruptLRATrainSub(t *testing.T) {
	folder, table := t.TempDir(), generatedTable(t)
	ctx := clitest.CancelWhen(t, func() bool { return clitest.WithEpisodes(folder) > 0 })
	m, _ := root.Interrupted(t, ctx, `interrupted at (\d+) timesteps; go on with --resume (\S+) of trainer train, and compare its model with --model`,
		"lra", "train-sub", "--node-table", table, "--imitate", "", "--n-timesteps", "1000000000", "-f", folder, "--json")
	f, err := models.ReadFile(m[2])
	if err != nil || strconv.FormatInt(f.Meta.Timesteps, 10) != m[1] {
		t.Fatalf("checkpoint of %d timesteps, %v; want %s", f.Meta.Timesteps, err, m[1])
	}
	more := int(f.Meta.Timesteps) + 1 // one rollout
	resumed := clitest.Decode[run.Result](t, mustExecute(t, "train", "--resume", m[2], "-n", strconv.Itoa(more), "--json"))
	if resumed.Timesteps < more {
		t.Errorf("the training resumed to %d timesteps, want %d at least", resumed.Timesteps, more)
	}
	const rows = 5
	out := t.TempDir()
	m, text := root.Interrupted(t, clitest.EndsAfter(t, 3*rows-1), `interrupted: (\d+) of 216 numbers of containers are compared; --model (\S+) compares`,
		"lra", "train-sub", "--node-table", table, "--model", m[2], "--rows", strconv.Itoa(rows), "--out", out, "--json")
	if n := len(clitest.Decode[lraSubResult](t, text).Counts); n != 2 || m[1] != "2" {
		t.Errorf("%d numbers of containers are printed and %s told of, want the 2 that were compared", n, m[1])
	}
	if n := strings.Count(envstest.Read(t, filepath.Join(out, "subscheduler.csv")), "\n"); n != 3 {
		t.Errorf("subscheduler.csv has %d lines, want a header and 2", n)
	}
}

// TestInterruptLRATrain: the best placement until then is reported, and the model kept.
func TestInterruptLRATrain(t *testing.T) {
	out := t.TempDir()
	args := []string{"lra", "train-high", "--node-table", generatedTable(t), "--batches", batchFile(t), "--subscheduler", "greedy", "--budget", "1h", "--episodes", "1000000", "--out", out, "--json"}
	m, text := root.Interrupted(t, clitest.EndsAfter(t, 3), `interrupted after (\d+) of 1000000 episodes: .* the model is in (\S+);`, args...)
	r := clitest.Decode[lraResult](t, text)
	if fmt.Sprint(r.Episodes) != m[1] || r.Episodes == 0 || r.Throughput <= 0 || m[2] != out {
		t.Errorf("%d episodes, throughput %v, model in %s; want %s episodes and %s", r.Episodes, r.Throughput, m[2], m[1], out)
	}
	if _, err := models.ReadFile(filepath.Join(out, "model.safetensors")); err != nil {
		t.Error(err)
	}
	if _, _, err := execute(t, clitest.EndsAfter(t, 0), args...); !errors.Is(err, cli.ErrInterrupted) || !strings.Contains(err.Error(), "nothing is saved") {
		t.Errorf("before the first episode: %v, want that nothing is saved", err)
	}
}
