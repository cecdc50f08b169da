package kwok

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// originals returns the environments that have a twin.
func originals() []*envs.Spec {
	var all []*envs.Spec
	for _, s := range envs.Specs() {
		if t, _, err := Original(s.ID); err == nil && t == s {
			all = append(all, s)
		}
	}
	return all
}

func TestTwins(t *testing.T) {
	t.Setenv(KubeconfigVariable, "")
	if len(originals()) < 4 {
		t.Fatalf("%d environments have twins, want at least the four of gang, balance and vpa", len(originals()))
	}
	for _, s := range originals() {
		original, twin, err := Original(TwinID(s.ID))
		if err != nil || original != s || twin.ID != TwinID(s.ID) || !twin.Nondeterministic {
			t.Errorf("Original(%s) = %v, %v, %v; want %s and its nondeterministic twin", TwinID(s.ID), original, twin, err, s.ID)
			continue
		}
		own, twins := envs.DescribeOptions(s.Options), envs.DescribeOptions(twin.Options)
		if len(twins) != len(own)+2 {
			t.Errorf("%s has %d options, want the %d of %s and two", twin.ID, len(twins), len(own), s.ID)
		}
		for _, o := range twins {
			if (o.Name == "kubeconfig") && !o.File {
				t.Errorf("%s: option kubeconfig does not bear the mark of a file", twin.ID)
			}
		}
		// Without a control plane a twin can be described, not played.
		v, err := envs.NewVec(twin, 1, envs.VecOptions{})
		if err != nil {
			t.Errorf("make %s without a control plane: %v", twin.ID, err)
			continue
		}
		if _, err := v.Reset(context.Background(), envs.VecResetOptions{}); err == nil || !strings.Contains(err.Error(), "trainer kwok up") {
			t.Errorf("reset of %s without a control plane: %v, want an error that says how to get one", twin.ID, err)
		}
		if err := v.Close(); err != nil {
			t.Errorf("close %s: %v", twin.ID, err)
		}
	}
	if _, _, err := Original("classic/CartPole-v1"); err == nil {
		t.Error("CartPole has a twin")
	}
}

func TestTwinOptions(t *testing.T) {
	twin, err := envs.Lookup("k8s/PodBalanceKwok-v0")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"kubeconf": "x"}, `did you mean "kubeconfig"?`},
		{map[string]any{"node": 3}, `did you mean "nodes"?`},
		{map[string]any{"nodes": 0}, "nodes is 0"},
		{map[string]any{"kubeconfig": 3}, "kubeconfig"},
		{map[string]any{"kubeconfig": filepath.Join(t.TempDir(), "none")}, "no such file"},
	} {
		_, err := envs.NewVec(twin, 1, envs.VecOptions{Options: tc.opts})
		if !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("make with %v: %v, want ErrInvalidOption with %q", tc.opts, err, tc.want)
		}
	}
	bad := envstest.TempFile(t, "bad", "{")
	v, err := envs.NewVec(twin, 1, envs.VecOptions{Options: map[string]any{"kubeconfig": bad}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reset(context.Background(), envs.VecResetOptions{}); err == nil || !strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("reset with a file that is no kubeconfig: %v", err)
	}
}
