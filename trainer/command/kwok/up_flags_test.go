package kwok

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/launch"
)

// TestKwokUpPassesFlags starts a script in the place of the control plane, which writes down its
// arguments. What the control plane does by them, TestRBAC, TestKubectlStreams and others of its module
// test.
func TestKwokUpPassesFlags(t *testing.T) {
	dir := t.TempDir()
	seen, script := filepath.Join(dir, "seen"), filepath.Join(dir, "controlplane")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" > "+seen+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(launch.BinaryEnv, script)
	for _, tc := range []struct {
		args string
		want [][]string // flags with their values
		not  string
	}{
		{"", [][]string{{"--authorization", "always-allow"}, {"--listen", "127.0.0.1:0"}}, "--enable-crds"},
		{"--authorization rbac", [][]string{{"--authorization", "rbac"}}, "always-allow"},
		{"--enable-crds Logs,ClusterLogs --enable-crds Exec", [][]string{{"--enable-crds", "Logs,ClusterLogs,Exec"}}, "--durable"},
		{"--data-dir state --durable --kubeconfig k", [][]string{{"--data-dir", "state"}, {"--durable"}, {"--kubeconfig", "k"}}, "--enable-crds"},
		{"--nodes 2 -- --components kwok --clock stepped", [][]string{{"--components", "kwok"}, {"--clock", "stepped"}}, "--nodes"},
		{"-- --admission=MutatingAdmissionWebhook", [][]string{{"--admission=MutatingAdmissionWebhook"}}, "--durable"},
		{"-- --scheduler-config scheduler.yaml", [][]string{{"--scheduler-config", "scheduler.yaml"}}, "--durable"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			if _, _, err := execute(t, t.Context(), append([]string{"kwok", "up"}, strings.Fields(tc.args)...)...); err == nil {
				t.Error("a control plane that ends at once gives no error")
			}
			got := strings.Fields(envstest.Read(t, seen))
			for _, flag := range tc.want {
				if i := slices.Index(got, flag[0]); i < 0 || i+len(flag) > len(got) || !slices.Equal(got[i:i+len(flag)], flag) {
					t.Errorf("the control plane got %v, want %v", got, flag)
				}
			}
			if slices.Contains(got, tc.not) {
				t.Errorf("the control plane got %v, want no %s", got, tc.not)
			}
		})
	}
}
