package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/vpa"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestKwokVPA plays trained models as recommenders on a Deployment: its pods request after each
// step what those of the same episode in memory request.
func TestKwokVPA(t *testing.T) {
	const steps = 8
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t, "--admission=MutatingAdmissionWebhook").Kubeconfig)
	file := filepath.Join(t.TempDir(), "usage.csv")
	text := "time_s,cpu_m,mem_b\n"
	for i := range steps + 1 {
		text += fmt.Sprintf("%d,%d,%d\n", 60*i, 150+100*(i/3), (300+200*(i/2))<<20)
	}
	envstest.Write(t, file, text)
	for _, tc := range []struct{ model, mode string }{
		{"../../../models/pretrained/k8s-VerticalPodAutoscaler-v0/ppo.safetensors", "InPlaceOrRecreate"},
		{"../../../models/pretrained/k8s-VerticalPodAutoscalerDiscrete-v0/dqn.safetensors", "Recreate"},
	} {
		out, stderr, err := execute(t, context.Background(), "kwok", "vpa", "demo", "--model", tc.model, "--env-kwargs", "hold:1", "--env-kwargs", fmt.Sprint("steps:", steps),
			"--data", file, "--steps", fmt.Sprint(steps), "--mode", tc.mode, "--limit-ratio-cpu", "8", "--limit-ratio-memory", "8", "--json")
		if err != nil {
			t.Fatalf("%s: %v\n%s", tc.model, err, stderr)
		}
		var played []vpa.DemoStep
		if err := json.Unmarshal([]byte(out), &played); err != nil || len(played) != steps {
			t.Fatalf("%s: %d steps, %v; want %d", tc.model, len(played), err, steps)
		}
		changes := 0
		for i, want := range requestsInMemory(t, tc.model, tc.mode, file, steps) {
			var got []string
			for _, p := range played[i].Pods {
				got = append(got, fmt.Sprint(p.Requests, p.Limits))
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, step %d (-memory +API)\n%s", tc.model, i, diff)
			}
			changes += played[i].Report.Evicted + played[i].Report.Resized
		}
		if changes < 2 {
			t.Errorf("%s: %d changes, too few to compare", tc.model, changes)
		}
		t.Logf("%s: %d decisions, %d pods changed", filepath.Base(tc.model), steps, changes)
	}
	// Without autoscalers there is nothing to do, and the webhook and the metrics come and go.
	out, stderr, err := execute(t, context.Background(), "kwok", "vpa", "--baseline", "upstream", "--updater", "--admission", "--metrics", "--storage", "checkpoint", "--once", "--json")
	var report vpa.Report
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || report != (vpa.Report{}) {
		t.Errorf("kwok vpa --once: %+v, %v\n%s%s", report, err, out, stderr)
	}
}

// requestsInMemory plays the model on the usage in memory, and returns what the pods request after
// each step.
func requestsInMemory(t *testing.T, path, mode, data string, steps int) [][]string {
	t.Helper()
	id, trained, err := play.EnvOf("", []string{path})
	if err != nil {
		t.Fatal(err)
	}
	kwargs := cli.MergeKwargs(trained, map[string]any{
		"data": data, "split": "all", "steps": steps, "history_h": 0, "initial_low": 1, "initial_high": 1, "startup_s": 0, "hold": 1,
		"limit_ratio_cpu": 8, "limit_ratio_memory": 8, "pods": 2, "pod_spread": 0, "mode": mode,
	})
	spec, err := envs.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	m, err := play.ReadModelFor(path, v)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Net.Close()
	b, err := v.Reset(context.Background(), envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, act := v.Spaces()
	action := make([]float32, act.Size())
	var all [][]string
	for !b.Done(0) {
		if err := m.Act(b, action); err != nil {
			t.Fatal(err)
		}
		if b, err = v.Step(context.Background(), action); err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, p := range v.Env(0).State().Pods {
			if p.Phase == cluster.Running {
				now = append(now, fmt.Sprint(p.Requests, p.Limits))
			}
		}
		slices.Sort(now)
		all = append(all, now)
	}
	return all
}

func TestKwokVPAArguments(t *testing.T) {
	t.Setenv(kwok.KubeconfigVariable, "")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "one of --model and --baseline"},
		{[]string{"--baseline", "upstream", "--model", "x"}, "one of --model and --baseline"},
		{[]string{"--baseline", "upstream"}, "trainer kwok up"},
		{[]string{"--baseline", "hindsight_max"}, "knows what is to come"},
		{[]string{"--baseline", "nonesuch"}, "nonesuch"},
		{[]string{"--baseline", "Greedy", "--env", "k8s/PodBalance-v0"}, "want k8s/VerticalPodAutoscaler-v0"},
		{[]string{"--baseline", "upstream", "--interval", "0s"}, "--interval is 0s"},
		{[]string{"--baseline", "upstream", "--storage", "nonesuch"}, `--storage "nonesuch", want checkpoint or prometheus`},
		{[]string{"--baseline", "upstream", "--storage", "prometheus", "--history-length", "long"}, `length "long"`},
		{[]string{"--baseline", "upstream", "--storage", "prometheus", "--prometheus-address", "prometheus:9090"}, "want a URL"},
		{[]string{"demo", "--baseline", "upstream", "--replicas", "0"}, "--replicas 0"},
		{[]string{"demo", "--baseline", "upstream", "--data", "no such file"}, "no such file"},
		{[]string{"demo", "--baseline", "upstream", "--workload", "nonesuch"}, "nonesuch"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"kwok", "vpa"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("kwok vpa %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
