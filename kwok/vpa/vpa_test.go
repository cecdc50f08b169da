package vpa_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	patience = time.Minute // of a wait, on a busy machine
)

var ctx = context.Background()

// monday is a whole number of half-lives after 1970, so that weights decay as from instant 0 on.
var monday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

// prepare returns how to reach the shared control plane, on which metrics and definitions are
// served.
func prepare(t *testing.T) *rest.Config {
	t.Helper()
	rc, err := kwok.RESTConfig(ctx, kwok.Options{Kubeconfig: kubeconfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := vpa.Install(ctx, rc); err != nil {
		t.Fatal(err)
	}
	s, err := metricsapi.Start(ctx, metricsapi.Config{REST: rc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return rc
}

func kubeconfig(t *testing.T) string {
	t.Helper()
	return kwoktest.Shared(t, "--admission=MutatingAdmissionWebhook").Kubeconfig
}

// upstreamConfig returns how to run upstream's updater, and with admission its admission controller.
func upstreamConfig(t *testing.T, namespace string, admission bool) vpa.UpstreamConfig {
	t.Helper()
	if os.Getenv(vpa.UpstreamEnv) == "" {
		t.Skipf("needs upstream's updater: `make test-kwok` builds it and runs this; or set %s to its binary", vpa.UpstreamEnv)
	}
	return vpa.UpstreamConfig{Kubeconfig: kubeconfig(t), Namespace: namespace, Updater: true, Admission: admission, MinReplicas: 2}
}

// baseline returns the models of a baseline.
func baseline(t *testing.T, name string) func() (vpa.Model, error) {
	t.Helper()
	spec, err := envs.Lookup("k8s/VerticalPodAutoscaler-v0")
	if err != nil {
		t.Fatal(err)
	}
	open, err := vpa.OpenBaseline(spec, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// usage is what pods use: it triples every fourth step, from 100 m and 300 MiB.
func usage(n int) []cluster.Resources {
	all := make([]cluster.Resources, n)
	level := int64(1)
	for i := range all {
		if i%4 == 3 {
			level *= 3
		}
		all[i] = cluster.Resources{MilliCPU: 100*level + int64(i%3)*10, MemoryBytes: (300*level + int64(i%2)*5) * mib}
	}
	return all
}

// inMemory plays the same usage as an episode in memory, and returns what the pods request after
// each step, and the counts of evictions and of resizes.
func inMemory(t *testing.T, used []cluster.Resources, opts map[string]any) (requests [][]string, evictions, resizes int) {
	t.Helper()
	var text strings.Builder
	text.WriteString("time_s,cpu_m,mem_b\n")
	for i, u := range append(used, used[len(used)-1]) { // the last is not looked at
		fmt.Fprintf(&text, "%d,%d,%d\n", 60*i, u.MilliCPU, u.MemoryBytes)
	}
	path := envstest.TempFile(t, "usage.csv", text.String())
	all := map[string]any{
		"data": path, "split": "all", "steps": len(used), "history_h": 0, "initial_low": 1, "initial_high": 1, "startup_s": 0,
		"limit_ratio_cpu": 8, "limit_ratio_memory": 8, "pod_spread": 0,
	}
	maps.Copy(all, opts)
	spec, err := envs.Lookup("k8s/VerticalPodAutoscaler-v0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: all, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(ctx, envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := spec.Baseline("upstream")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := base.New(v.Env(0).Task())
	if err != nil {
		t.Fatal(err)
	}
	action := make([]float32, 8)
	for !b.Done(0) {
		if err := rule(ctx, v.Env(0).State(), b.Begins(0), action); err != nil {
			t.Fatal(err)
		}
		if b, err = v.Step(ctx, action); err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, p := range v.Env(0).State().Pods {
			if p.Phase == cluster.Running {
				now = append(now, fmt.Sprint(p.Requests, p.Limits))
			}
		}
		slices.Sort(now)
		requests = append(requests, now)
	}
	return requests, int(b.Info[spec.Column("evictions")]), int(b.Info[spec.Column("resizes")])
}

// TestLoopEqualsMemory plays usage on a Deployment: metrics.k8s.io has it, the recommender named
// by the autoscaler writes status, and upstream's updater resizes or evicts, whose replacements upstream's admission
// controller gives the target. Status is, to the last integer, what upstream's algorithm gives for these
// samples, and the pods request after each step what those of the episode in memory request.
func TestLoopEqualsMemory(t *testing.T) {
	rc := prepare(t)
	used := usage(12)
	for _, tc := range []struct {
		mode     string
		replicas int
		admit    bool
	}{
		{pods.ModeInPlaceOrRecreate, 2, false},
		{pods.ModeRecreate, 2, true},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			var steps []vpa.DemoStep
			var total vpa.Report
			err := vpa.Demo(ctx, vpa.DemoConfig{
				Recommender: vpa.Config{REST: rc, Name: "ours", Open: baseline(t, "upstream"), Checkpoints: true},
				Upstream:    upstreamConfig(t, "", tc.admit),
				Namespace:   "loop-" + strings.ToLower(tc.mode), Deployment: "app", Replicas: tc.replicas,
				Requests: used[0], Limits: cluster.Resources{MilliCPU: 8 * used[0].MilliCPU, MemoryBytes: 8 * used[0].MemoryBytes},
				Mode: tc.mode, Usage: used, Start: monday, Step: time.Minute,
			}, func(s vpa.DemoStep) {
				steps = append(steps, s)
				total.Add(s.Report)
			})
			if err != nil {
				t.Fatal(err)
			}
			requests, evictions, resizes := inMemory(t, used, map[string]any{"mode": tc.mode, "pods": tc.replicas})
			want := newOracle(t)
			if steps[0].Report.Evicted > 0 {
				t.Fatal("the first step evicted: its pods cannot be told from those of the start")
			}
			for i, s := range steps {
				if diff := cmp.Diff(want.after(i, s.Usage, steps[max(i-1, 0)].Pods), s.Status, cmp.Comparer(sameList)); diff != "" {
					t.Errorf("step %d: status (-upstream's algorithm +API)\n%s", i, diff)
				}
				var got []string
				for _, p := range s.Pods {
					got = append(got, fmt.Sprint(p.Requests, p.Limits))
				}
				slices.Sort(got)
				if diff := cmp.Diff(requests[i], got); diff != "" {
					t.Errorf("step %d: pods (-memory +API)\n%s", i, diff)
				}
			}
			if total.Recommended != len(used) || total.Evicted != evictions || total.Resized != resizes {
				t.Errorf("%+v, want %d recommendations, %d evictions and %d resizes", total, len(used), evictions, resizes)
			}
			if evictions+resizes < 4 {
				t.Errorf("%d evictions and %d resizes, too few to compare", evictions, resizes)
			}
			t.Logf("%d steps: %+v", len(steps), total)
		})
	}
}

// TestKill: a container whose usage passes its memory limit is killed, and upstream's recommender
// raises the target.
func TestKill(t *testing.T) {
	rc := prepare(t)
	var last vpa.DemoStep
	killed, resized := 0, 0
	err := vpa.Demo(ctx, vpa.DemoConfig{
		Recommender: vpa.Config{REST: rc, Name: "ours", Open: baseline(t, "upstream")},
		Upstream:    upstreamConfig(t, "", false),
		Namespace:   "kill", Deployment: "app", Replicas: 1, Mode: pods.ModeInPlaceOrRecreate, Start: monday, Step: time.Minute,
		Requests: cluster.Resources{MilliCPU: 1000, MemoryBytes: gib}, Limits: cluster.Resources{MilliCPU: 2000, MemoryBytes: 1_288_490_189},
		Usage: []cluster.Resources{{MilliCPU: 1000, MemoryBytes: gib}, {MilliCPU: 1000, MemoryBytes: 2 * gib}},
	}, func(s vpa.DemoStep) {
		last = s
		killed += s.Killed
		resized += s.Report.Resized
	})
	if err != nil {
		t.Fatal(err)
	}
	// By hand: killed at its limit of 1288490189 bytes, the container counts as using 1.2 times that,
	// 1546188226. That is in bucket 44, which ends at 1597001558.7, and 15 % more is truncated.
	if got := last.Status.Target.Memory().Value(); got != 1_836_551_791 || killed != 1 || resized != 1 || last.Pods[0].Requests.MemoryBytes != got {
		t.Errorf("target %d, requested %d, %d killed, %d resized; want 1836551791, the same, 1 and 1", got, last.Pods[0].Requests.MemoryBytes, killed, resized)
	}
}

// TestInstallAgain: definitions that are there stay.
func TestInstallAgain(t *testing.T) {
	rc := prepare(t)
	if err := vpa.Install(ctx, rc); err != nil {
		t.Error(err)
	}
}
