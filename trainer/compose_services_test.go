package main

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
)

// profiles returns the services that start with the profile, with the variable's value.
func profiles(t *testing.T, profile, pythonProfiles string) []string {
	t.Helper()
	text := envstest.Read(t, "../compose.yaml")
	var compose struct {
		Services map[string]struct {
			Profiles []string `yaml:"profiles"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "${PYTHON_PROFILES:-}", pythonProfiles)), &compose); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, s := range compose.Services {
		if slices.Contains(s.Profiles, profile) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestComposeProfiles: JupyterLab starts beside the server and TensorBoard, and what needs Python's
// image can be left out.
func TestComposeProfiles(t *testing.T) {
	for _, tc := range []struct{ profile, python, want string }{
		{"train", "", "controlplane jupyter server tensorboard trainer"},
		{"evaluate", "", "controlplane evaluate server tensorboard"},
		{"train", "no-", "controlplane server trainer"},
		{"evaluate", "no-", "controlplane evaluate server"},
		{"schedule", "", "controlplane scheduler"},
		{"autoscale", "", "admission-controller controlplane recommender updater"},
		{"serve", "", "server"},
	} {
		if got := strings.Join(profiles(t, tc.profile, tc.python), " "); got != tc.want {
			t.Errorf("profile %s with PYTHON_PROFILES=%q starts %s, want %s", tc.profile, tc.python, got, tc.want)
		}
	}
}

// TestComposeKubeconfig runs the command of the service kubeconfig on the file that the control plane
// writes to the volume: it names the port that compose publishes on the host.
func TestComposeKubeconfig(t *testing.T) {
	services, m := readCompose(t)
	file := envstest.TempFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: kubernasium,
contexts: [{name: kubernasium, context: {cluster: kubernasium, user: kubernasium}}],
clusters: [{name: kubernasium, cluster: {server: "https://controlplane:6443"}}],
users: [{name: kubernasium, user: {token: secret}}]}`)
	t.Setenv(kwok.KubeconfigVariable, file)
	service := services["kubeconfig"]
	text := mustExecute(t, service.arguments(m, map[string]string{"CONTROLPLANE_PORT": "16443"})...)
	if !strings.Contains(text, "server: https://127.0.0.1:16443\n") || !strings.Contains(text, "token: secret\n") {
		t.Errorf("service kubeconfig printed\n%s\nwant the host's port and the token", text)
	}
	if !slices.Contains(service.Volumes, "state:/state:ro") {
		t.Errorf("service kubeconfig has the volumes %v, want that of the control plane's kubeconfig", service.Volumes)
	}
}
