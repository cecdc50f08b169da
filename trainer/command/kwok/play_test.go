package kwok

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestKwok plays the group of commands on a control plane.
func TestKwok(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	run := func(args ...string) string {
		t.Helper()
		out, stderr, err := execute(t, context.Background(), append([]string{"kwok"}, args...)...)
		if err != nil {
			t.Fatalf("kwok %v: %v\n%s", args, err, stderr)
		}
		return out
	}
	var report kwok.ParityReport
	out := run("parity", "--env", "k8s/PodBalance-v0", "--episodes", "2", "--decisions", "10", "--env-kwargs", "nodes:3", "--kubeconfig", kubeconfig, "--json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Episodes != 2 || report.Decisions != 20 || len(report.Differences) > 0 {
		t.Errorf("parity: %+v, %v; want 2 episodes, 20 decisions and no difference", report, err)
	}
	t.Setenv(kwok.KubeconfigVariable, kubeconfig)
	file := filepath.Join(t.TempDir(), "deployments.csv")
	run("runsim", "--scheduler_name", "default-scheduler", "--interval", "0s", "--node_count", "2", "--cluster_resets", "1", "--out", file)
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "name,pod_count,cpu_request,mem_request,") {
		t.Errorf("runsim wrote %q, %v", text, err)
	}
	// The file plays as an episode.
	run("parity", "--env", "k8s/PodBalanceKwok-v0", "--episodes", "1", "--env-kwargs", "deployments:"+file)
	var nodes []kwok.NodeUsage
	if err := json.Unmarshal([]byte(run("top", "--json")), &nodes); err != nil || len(nodes) != 2 || nodes[0].Allocatable.MilliCPU != 64000 {
		t.Errorf("top: %+v, %v; want runsim's two nodes", nodes, err)
	}
	if out := run("top", "--once"); !strings.Contains(out, "worker-1") || !strings.Contains(out, "0/110") {
		t.Errorf("top --once:\n%s", out)
	}
	run("cleancluster", "--all")
	// Any command takes a twin.
	var scores any
	out, stderr, err := execute(t, context.Background(), "compare", "--env", "k8s/PodBalanceKwok-v0", "--episodes", "2",
		"--baseline", "Greedy", "--env-kwargs", "reset_pods:[6]", "--json")
	if err != nil || json.Unmarshal([]byte(out), &scores) != nil {
		t.Errorf("compare on a twin: %v\n%s%s", err, out, stderr)
	}
}

// TestKwokKilledOverTheWire kills the control plane in mid-episode: a client of the server learns
// UNAVAILABLE, and a reset recovers once there is a control plane again.
func TestKwokKilledOverTheWire(t *testing.T) {
	ctx := t.Context()
	url := hosttest.Start(t).WS // first: it looks for goroutines when the control planes have stopped
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	flags := []string{"--components=kwok", "--kubeconfig=" + kubeconfig}
	first := kwoktest.Start(t, flags...)
	t.Setenv(kwok.KubeconfigVariable, kubeconfig)
	v, err := client.Dial(ctx, url, "k8s/PodBalanceKwok-v0", 1, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	play := func(steps int) {
		t.Helper()
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		for range steps {
			if _, err := v.Step(ctx, []float32{0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	play(2)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err = v.Step(ctx, []float32{0})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != wire.Unavailable || refused.Reason != wire.BackendDown || !errors.Is(err, cluster.ErrUnavailable) {
		t.Fatalf("step without a control plane: %v, want %s (%s)", err, wire.Unavailable, wire.BackendDown)
	}
	kwoktest.Start(t, flags...)
	play(3)
}

func TestKwokWithoutControlPlane(t *testing.T) {
	t.Setenv(kwok.KubeconfigVariable, "")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"parity", "--env", "k8s/PodBalance-v0"}, "trainer kwok up"},
		{[]string{"parity", "--env", "classic/CartPole-v1"}, "has no twin"},
		{[]string{"parity", "--env", "k8s/PodBalance-v0", "--kubeconfig", "no such file"}, "no such file"},
		{[]string{"parity"}, "env"},
		{[]string{"runsim", "--cpu_load", "0"}, "cpu_load is 0"},
		{[]string{"runsim", "--cluster_resets", "0"}, "cluster_resets is 0"},
		{[]string{"top"}, "trainer kwok up"},
		{[]string{"cleancluster"}, "trainer kwok up"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"kwok"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("kwok %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
