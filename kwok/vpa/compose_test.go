package vpa_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/vpa"
)

// start runs the command of a service of compose.yaml on the shared control plane, and ends it with the test.
func (w *world) start(service string) {
	w.Helper()
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		w.Fatal(err)
	}
	var compose struct {
		Services map[string]struct{ Command []string }
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		w.Fatal(err)
	}
	args := append([]string{}, compose.Services[service].Command...)
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "--kubeconfig="):
			args[i] = "--kubeconfig=" + kubeconfig(w.T)
		case strings.HasPrefix(a, "--updater-interval="):
			args[i] = "--updater-interval=200ms"
		case strings.HasPrefix(a, "--address="):
			args[i] = "--address=127.0.0.1:0"
		}
	}
	cmd := exec.Command(os.Getenv(vpa.UpstreamEnv), args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.Error(err)
		}
		if err := cmd.Wait(); err != nil || w.Failed() {
			w.Errorf("%s: %v\n%s", service, err, &log)
		}
	})
}

// TestCompose runs updater and admission controller as compose.yaml does, on a timer of their own: a pod that requests
// too little is evicted once, and its successor gets the target.
func TestCompose(t *testing.T) {
	w := newWorld(t)
	upstreamConfig(t, "", true) // skips without the binary
	w.deploy("app", 2, main)
	w.autoscaler("app", "recommenders: [{name: ours}], targetRef: {apiVersion: apps/v1, kind: Deployment, name: app}, updatePolicy: {updateMode: Recreate}")
	r := w.recommender(func(c *vpa.Config) { c.Open = baseline(t, "moving_window") })
	w.use("app", 2, 700, gib, monday) // the request of 400 m is below the lower bound
	w.step(r)
	w.start("admission-controller")
	w.start("updater")
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		changed := 0
		for _, p := range w.running("app", 2) {
			// 1.15 times the usage, and the template's limit of twice the request.
			if asked(p) == "805m of 1610m, boost false" {
				changed++
			}
		}
		if changed == 2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 2 pods request the target", changed)
		}
	}
}
