package gang

import (
	"context"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestKwokGangRun runs a model and a planner as Jobs.
func TestKwokGangRun(t *testing.T) {
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t, "--clock=stepped").Kubeconfig)
	for _, tc := range []struct {
		name string
		args []string
		jobs int // 8 tasks of 3 supersteps, and 8 more for each re-planning that creates all again
	}{
		{"ppo", []string{"--model", "../../../models/pretrained/k8s-GangWindow-v0/ppo.safetensors"}, 24},
		{"static_2", []string{"--baseline", "static_2", "--env-kwargs", "penalty_model:resize"}, 24},
		{"static_1", []string{"--baseline", "static_1"}, 24},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, stderr, err := execute(t, context.Background(), append([]string{"gang", "run", "--json", "--env-kwargs", "steps:3"}, tc.args...)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			r := clitest.Decode[gangResult](t, out)
			jobs := tc.jobs
			for _, s := range r.Steps {
				if s.Replan != nil && tc.name != "static_2" {
					jobs += 8
				}
			}
			if r.Policy != tc.name || len(r.Steps) != 3 || r.Difference != 0 || r.Clock != r.Simulated || r.Clock <= 0 || r.Jobs != jobs {
				t.Errorf("%s: %d supersteps, %v s by the clock, %v s simulated, %d Jobs; want 3, equal times, %d Jobs", r.Policy, len(r.Steps), r.Clock, r.Simulated, r.Jobs, jobs)
			}
			// static_1 plans for each superstep, the first for nothing; static_2 for two of three.
			if cost, ok := map[string]float64{"static_1": 30}[tc.name]; ok && r.Modelled != cost {
				t.Errorf("%s: re-planning costs %v s, want %v", r.Policy, r.Modelled, cost)
			}
		})
	}
}

func TestGangRunRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "one of --model and --baseline"},
		{[]string{"--baseline", "static_2", "--model", "x"}, "one of --model and --baseline"},
		{[]string{"--baseline", "nobody"}, "nobody"},
		{[]string{"--model", "../../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors"}, "want one of " + gangEnv},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"gang", "run"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("gang run %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
