package core

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestEnjoy shows every step of two episodes of four steps, the first and the last included.
func TestEnjoy(t *testing.T) {
	out := mustExecute(t, "enjoy", "--env", "k8s/GangWindow-v0", "--baseline", "static_2", "--env-kwargs", "steps:4",
		"--episodes", "2", "--fps", "0", "--seed", "3")
	var want []string
	for episode := range 2 {
		for step := range 5 {
			want = append(want, fmt.Sprintf("episode %d of 2, seed %d", episode+1, 3+episode), fmt.Sprintf("step %d of 4  total ", step))
		}
	}
	rest := out
	for i, w := range append(want, "static_2 on k8s/GangWindow-v0: mean return ") {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("no %q, the %d. line, in its place:\n%s", w, i+1, out)
		}
		rest = after
	}
	if n := strings.Count(out, "truncated"); n != 2 {
		t.Errorf("%d episodes end as truncated, want 2", n)
	}
	if strings.Contains(out, clearScreen) {
		t.Error("control characters of a terminal in what is none")
	}
}

// TestEnjoyOnServer: the same frames from a server, and the returns of eval.
func TestEnjoyOnServer(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, small(folder, "-n", "64", "--json")...)
	model := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors")
	args := []string{"enjoy", "--model", model, "--episodes", "2", "--fps", "1000"}
	here, there := mustExecute(t, args...), mustExecute(t, append(args, "--url", hosttest.Start(t).WS)...)
	if here != there || strings.Count(here, "step ") < 40 {
		t.Errorf("in process:\n%s\non a server:\n%s", here, there)
	}
	byRule := []string{"enjoy", "--env", "k8s/GangWindow-v0", "--baseline", "dynamic_mpc", "--episodes", "1", "--fps", "1000"}
	if here, there := mustExecute(t, byRule...), mustExecute(t, append(byRule, "--url", hosttest.Start(t).WS)...); here != there || strings.Count(here, "step ") < 20 {
		t.Errorf("a baseline in process:\n%s\non a server:\n%s", here, there)
	}
	seen := clitest.Decode[enjoyResult](t, mustExecute(t, append(args, "--json")...))
	played := clitest.Decode[evalResult](t, mustExecute(t, "eval", "--model", model, "--episodes", "2", "--json"))
	if fmt.Sprint(seen.Returns, seen.Lengths) != fmt.Sprint(played.Returns, played.Lengths) {
		t.Errorf("enjoy %v, eval %v", seen.Returns, played.Returns)
	}
}
