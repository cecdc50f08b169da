package kwok

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/trace"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// small is a recording of a cluster of two nodes: a pod that finishes and one that stays.
const small = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"alpha","milli_cpu":8000,"memory_bytes":34359738368,"pods":110}}
{"k":"node","node":{"name":"beta","milli_cpu":8000,"memory_bytes":34359738368,"pods":110}}
{"k":"template","template":{"namespace":"default","milli_cpu":1000,"memory_bytes":1073741824}}
{"k":"pod","name":"stays"}
{"k":"bind"}
{"k":"pod","name":"ends"}
{"k":"bind","p":1,"n":1}
{"k":"run","p":1}
{"k":"finish","t":2000,"p":1,"phase":"Succeeded"}
{"k":"end","t":1000}
`

// TestKwokRecordAndReplay replays a recording, records the control plane anonymized, and continues that.
func TestKwokRecordAndReplay(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig // with kube-scheduler
	dir := t.TempDir()
	file, out := filepath.Join(dir, "small.jsonl"), filepath.Join(dir, "hidden.jsonl")
	envstest.Write(t, file, small)
	r := clitest.Decode[trace.Report](t, mustExecute(t, "kwok", "replay", file, "--speed", "10", "--kubeconfig", kubeconfig, "--json"))
	if r.Nodes != 2 || r.Pods != 2 || r.Bound != 2 || r.Finished != 1 || r.Skipped != 0 || r.Seconds < 0.3 || r.Seconds > 20 {
		t.Errorf("%+v, want two nodes and two pods, bound, one finished, in 0.3 s and a little", r)
	}
	mustExecute(t, "kwok", "record", "--out", out, "--anonymize", "--for", "1s", "--kubeconfig", kubeconfig)
	if info, err := os.Stat(out + saltSuffix); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("salt: %v, %v, want a file for its owner alone", info, err)
	}
	if _, _, err := execute(t, t.Context(), "kwok", "record", "--out", out, "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "--append continues it") {
		t.Errorf("record into a file that is there: %v", err)
	}
	mustExecute(t, "kwok", "record", "--out", out, "--append", "--for", "1s", "--kubeconfig", kubeconfig)
	text := envstest.Read(t, out)
	for _, name := range []string{"alpha", "beta", "stays", "ends"} {
		if strings.Contains(text, name) {
			t.Errorf("the anonymized recording has %s", name)
		}
	}
	got, err := clustertrace.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	// The pod that had finished before takes nothing and is not recorded.
	if len(got.Nodes) != 2 || len(got.Pods) != 1 || got.Pods[0].Started == clustertrace.Never || len(got.Gaps) != 1 || !got.Header.Anonymized {
		t.Errorf("%d nodes, %d pods, %d gaps, want two nodes, one running pod and a gap", len(got.Nodes), len(got.Pods), len(got.Gaps))
	}
}

// TestKwokReplayForScheduler lets kube-scheduler place the recorded pods.
func TestKwokReplayForScheduler(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	file, out := filepath.Join(t.TempDir(), "small.jsonl"), filepath.Join(t.TempDir(), "again.jsonl")
	envstest.Write(t, file, small)
	if _, _, err := execute(t, t.Context(), "kwok", "replay", file, "--speed", "max", "--scheduler-name", "default-scheduler", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "needs a speed") {
		t.Errorf("for a scheduler at once: %v, want an error", err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	begun, recorded := make(chan struct{}), make(chan error, 1)
	stderr := clitest.NewUntilText("Ctrl-C ends it", sync.OnceFunc(func() { close(begun) }))
	cmd := root()
	cmd.SetArgs([]string{"kwok", "record", "--out", out, "--kubeconfig", kubeconfig})
	cmd.SetOut(io.Discard)
	cmd.SetErr(stderr)
	go func() {
		err := cli.Execute(ctx, cmd)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, stderr)
		}
		recorded <- err
	}()
	select {
	case <-begun:
	case err := <-recorded:
		t.Fatal(err)
	}
	mustExecute(t, "kwok", "replay", file, "--scheduler-name", "default-scheduler", "--kubeconfig", kubeconfig)
	waitFor(t, "both pods have nodes in the recording, and one has ended", func() bool {
		sofar, err := clustertrace.Load(out)
		if sofar == nil || !errors.Is(err, clustertrace.ErrCut) {
			return false
		}
		placed, ended := 0, false
		for _, p := range sofar.Pods {
			if p.Node >= 0 {
				placed++
			}
			ended = ended || p.Name == "ends" && p.Finished != clustertrace.Never
		}
		return placed == 2 && ended
	})
	interrupt()
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	got, err := clustertrace.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[int32]bool{}
	for _, p := range got.Pods {
		nodes[p.Node] = true
		if p.Name == "ends" && (p.Finished == clustertrace.Never || (p.Finished-p.Started).Seconds() < 1 || (p.Finished-p.Started).Seconds() > 5) {
			t.Errorf("ends ran from %v to %v, want about 2 s as in the recording", p.Started, p.Finished)
		}
	}
	if len(got.Pods) != 2 || len(nodes) != 2 || nodes[-1] {
		t.Errorf("%d pods on nodes %v, want kube-scheduler to put one on each", len(got.Pods), nodes)
	}
}

func TestReplayRefusesSpeed(t *testing.T) {
	for _, speed := range []string{"0", "-1", "NaN", "fast"} {
		if _, _, err := execute(t, t.Context(), "kwok", "replay", "none", "--speed", speed); err == nil || !strings.Contains(err.Error(), "want max or a number above 0") {
			t.Errorf("--speed %s: %v", speed, err)
		}
	}
}
