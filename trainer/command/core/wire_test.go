package core

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestTrainOnServers trains on one server, and on two that share the environments, and
// compares the models with that of a training in process: equal parameters, bit for bit.
func TestTrainOnServers(t *testing.T) {
	a, b := hosttest.Start(t).WS, hosttest.Start(t).Unix
	want := trained(t)
	for name, urls := range map[string][]string{"one server": {a}, "two servers": {a, b}} {
		t.Run(name, func(t *testing.T) {
			var args []string
			for _, u := range urls {
				args = append(args, "--url", u)
			}
			if got := trained(t, args...); got != want {
				t.Error("the training on servers ends in other parameters than the one in process")
			}
		})
	}
}

// trained runs a small training and returns the parameters of the last model.
func trained(t *testing.T, more ...string) string {
	t.Helper()
	return parameters(t, "256", more...)
}

func TestEvalOnServers(t *testing.T) {
	a, b := hosttest.Start(t).WS, hosttest.Start(t).Unix
	folder := t.TempDir()
	mustExecute(t, small(folder, "-n", "64", "--json")...)
	model := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors")
	out := mustExecute(t, "eval", "--model", model, "--episodes", "5", "--url", a, "--url", b, "--verify", "--json")
	res := clitest.Decode[evalResult](t, out)
	if !res.Verified || len(res.Returns) != 5 || len(res.Metrics["total_s"]) != 5 {
		t.Errorf("eval on two servers: %+v", res)
	}
	play := func(baseline string, urls ...string) []string {
		args := []string{"eval", "--env", "k8s/GangWindow-v0", "--episodes", "3", "--verify", "--json", "--baseline", baseline}
		for _, u := range urls {
			args = append(args, "--url", u)
		}
		return args
	}
	if out := mustExecute(t, "eval", "--model", model, "--episodes", "1", "--url", a, "--url", b); !strings.Contains(out, "1 ") {
		t.Errorf("one episode on two servers:\n%s", out)
	}
	for _, args := range [][]string{play("static_3", a, b), play("dynamic_mpc", b), play("random", b)} {
		res = evalResult{}
		if err := json.Unmarshal([]byte(mustExecute(t, args...)), &res); err != nil {
			t.Fatal(err)
		}
		if !res.Verified || len(res.Returns) != 3 || res.Mean >= 0 {
			t.Errorf("trainer %s: %+v", strings.Join(args, " "), res)
		}
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{play("random", a, b), "needs one --url"},
		{play("best", a, b), "best"},
		{[]string{"eval", "--model", model, "--verify"}, "needs --url"},
		{[]string{"eval", "--model", model, "--url", "http://127.0.0.1:1"}, "http"},
		{[]string{"train", "--env", "k8s/Nothing-v0", "--url", a}, "k8s/Nothing-v0"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}
