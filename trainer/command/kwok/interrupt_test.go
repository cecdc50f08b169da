package kwok

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/trace"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// interruptWhen runs a command whose context ends in the middle, when the pods on the control plane are as wanted. It
// returns what the command prints.
func interruptWhen(t *testing.T, kubeconfig string, met func([]corev1.Pod) bool, args ...string) (stdout string, err error) {
	t.Helper()
	client, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	ctx := clitest.CancelWhen(t, func() bool {
		pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		return err == nil && met(pods.Items)
	})
	stdout, stderr, err := execute(t, ctx, append(args, "--kubeconfig", kubeconfig)...)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Errorf("%v: %v, want ErrInterrupted, the error of status 130\n%s", args, err, stderr)
	}
	return stdout, err
}

// TestKwokInterruptedParity: parity prints the episodes that it has compared, and which seed is next.
func TestKwokInterruptedParity(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	last := 0
	fewer := func(pods []corev1.Pod) bool { // than before: an episode is compared, and the next one begins
		before := last
		last = len(pods)
		return last < before
	}
	out, err := interruptWhen(t, kubeconfig, fewer, "kwok", "parity", "--env", "k8s/PodBalance-v0", "--episodes", "100000", "--seed", "40", "--decisions", "5",
		"--env-kwargs", "nodes:3", "--json")
	var r kwok.ParityReport
	if e := json.Unmarshal([]byte(out), &r); e != nil || r.Episodes < 1 || r.Decisions < 5*r.Episodes || len(r.Differences) > 0 {
		t.Fatalf("%+v, %v; want one episode or more, without a difference", r, e)
	}
	if want := fmt.Sprintf("%d of 100000 episodes are compared; the same command starts over, and --seed %d plays", r.Episodes, 40+r.Episodes); !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// cancelAt cancels a context when a text is written for the last time of so many.
type cancelAt struct {
	text   string
	times  int
	cancel context.CancelFunc
}

func (c *cancelAt) Write(p []byte) (int, error) {
	if n := strings.Count(string(p), c.text); n > 0 {
		if c.times -= n; c.times <= 0 {
			c.cancel()
		}
	}
	return len(p), nil
}

// TestKwokInterruptedQuality: quality prints the ways by which the episode has been placed.
func TestKwokInterruptedQuality(t *testing.T) {
	kwoktest.Start(t) // skips without a control plane
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs([]string{"kwok", "quality", "--policy", "Greedy", "--policy", "RoundRobin", "--policy", "Random", "--env-kwargs", "pods:mixed", "--json"})
	cmd.SetOut(&out)
	cmd.SetErr(&cancelAt{"plugin Greedy", 1, cancel})
	err := cli.Execute(ctx, cmd)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Fatalf("%v, want ErrInterrupted, the error of status 130", err)
	}
	var rows []qualityRow
	if e := json.Unmarshal(out.Bytes(), &rows); e != nil {
		t.Fatalf("%v\n%s", e, &out)
	}
	if want := fmt.Sprintf("%d of 7 ways have placed the episode", len(rows)); !strings.Contains(err.Error(), want) || len(rows) < 2 || len(rows) > 6 {
		t.Errorf("%v, want %q, and some ways of 7", err, want)
	}
}

// TestKwokInterruptedRunSim: runsim writes the deployments that were placed, and cleancluster deletes them.
func TestKwokInterruptedRunSim(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	file := filepath.Join(t.TempDir(), "deployments.csv")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs([]string{"kwok", "runsim", "--scheduler_name", "default-scheduler", "--interval", "100ms", "--node_count", "2",
		"--cluster_resets", "100000", "--out", file, "--kubeconfig", kubeconfig, "--json"})
	cmd.SetOut(&out)
	cmd.SetErr(&cancelAt{" pods placed after ", 3, cancel})
	err := cli.Execute(ctx, cmd)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Fatalf("%v, want ErrInterrupted, the error of status 130", err)
	}
	var all []kwok.SimDeployment
	if e := json.Unmarshal(out.Bytes(), &all); e != nil || len(all) < 2 {
		t.Fatalf("%d deployments, %v; want 2 or more", len(all), e)
	}
	text, e := os.ReadFile(file)
	if lines := strings.Count(string(text), "\n"); e != nil || lines != len(all)+1 {
		t.Errorf("%s has %d lines, %v; want a header and %d deployments", file, lines, e, len(all))
	}
	if want := fmt.Sprintf("%d deployments are reported; `kwok cleancluster --namespace default`", len(all)); !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v, want %q", err, want)
	}
	mustExecute(t, "kwok", "cleancluster", "--kubeconfig", kubeconfig)
	mustExecute(t, "kwok", "runsim", "--scheduler_name", "default-scheduler", "--interval", "0s", "--node_count", "2", "--cluster_resets", "1", "--kubeconfig", kubeconfig)
}

// TestKwokTopEnds: an interrupt is how one ends top, and no error.
func TestKwokTopEnds(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, _, err := execute(t, ctx, "kwok", "top", "--every", "1ns", "--kubeconfig", kubeconfig)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestKwokRecordEnds: an interrupt is how one ends a recording. What was recorded is whole.
func TestKwokRecordEnds(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	mustExecute(t, "kwok", "replay", writeTrace(t, small), "--speed", "max", "--kubeconfig", kubeconfig)
	file := filepath.Join(t.TempDir(), "out.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs([]string{"kwok", "record", "--out", file, "--kubeconfig", kubeconfig, "--json"})
	cmd.SetOut(&out)
	cmd.SetErr(&cancelAt{"Ctrl-C ends it", 1, cancel})
	if err := cli.Execute(ctx, cmd); err != nil {
		t.Fatal(err)
	}
	got, err := clustertrace.Load(file) // without ErrCut
	if err != nil {
		t.Fatal(err)
	}
	if r := clitest.Decode[recorded](t, out.String()); len(got.Nodes) != 2 || len(got.Pods) != 1 || r.Events < 3 || r.File != file {
		t.Errorf("%+v with %d nodes and %d pods, want the two nodes and the pod that runs", r, len(got.Nodes), len(got.Pods))
	}
}

// TestKwokInterruptedReplay: replay prints what has been replayed.
func TestKwokInterruptedReplay(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	bound := func(pods []corev1.Pod) bool { // the second pod, after both were created
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == "ends" && p.Spec.NodeName != "" })
	}
	out, err := interruptWhen(t, kubeconfig, bound, "kwok", "replay", writeTrace(t, small), "--speed", "0.001", "--json") // "ends" would take 2,000 s
	r := clitest.Decode[trace.Report](t, out)
	if r.Nodes != 2 || r.Pods != 2 || r.Finished != 0 || !strings.Contains(fmt.Sprint(err), "what was replayed is on the control plane") {
		t.Errorf("%+v, %v; want two nodes and two pods, none finished", r, err)
	}
}
