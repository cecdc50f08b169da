package kwok

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestKwokUp runs the real control plane for a moment.
func TestKwokUp(t *testing.T) {
	if _, err := launch.Find(); errors.Is(err, launch.ErrNoBinary) {
		t.Skip("needs the control plane: make controlplane")
	}
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			text := "Ctrl-C"
			args := []string{"kwok", "up", "--", "--components=kwok"}
			if format == "json" {
				text = `"seconds"`
				args = append([]string{"--json"}, args...)
			}
			out := clitest.NewUntilText(text, cancel)
			cmd := root()
			cmd.SetArgs(args)
			cmd.SetOut(out)
			cmd.SetErr(io.Discard)
			if err := cmd.ExecuteContext(ctx); err != nil {
				t.Fatalf("trainer %s: %v", strings.Join(args, " "), err)
			}
			if !strings.Contains(out.String(), text) {
				t.Fatalf("it printed\n%s\nwithout %s", out, text)
			}
			var r launch.Ready
			if format == "json" {
				if err := json.Unmarshal([]byte(out.String()), &r); err != nil || r.PID == 0 || len(r.Components) != 1 {
					t.Errorf("%v in %s, want one document with the pid and one component", err, out)
				}
			} else {
				wantUsage(t, out.String())
			}
		})
	}
}

// wantUsage looks for how to use kubectl, with a node in strict JSON: older kubectls take a text
// that begins with a brace for nothing else.
func wantUsage(t *testing.T, text string) {
	t.Helper()
	_, after, found := strings.Cut(text, "<<< '")
	object, _, ended := strings.Cut(after, "'")
	var node corev1.Node
	err := json.Unmarshal([]byte(object), &node)
	if !found || !ended || err != nil || node.Annotations["kwok.x-k8s.io/node"] == "" || node.Status.Allocatable.Cpu().Value() != 4 {
		t.Errorf("it printed\n%s\nwant a KWOK node of 4 CPU that kubectl takes; %v", text, err)
	}
	if !strings.Contains(text, "export KUBECONFIG=") {
		t.Errorf("it printed\n%s\nwant how to use kubectl", text)
	}
}

func TestKwokUpWithoutBinary(t *testing.T) {
	t.Setenv(launch.BinaryEnv, "")
	t.Chdir(t.TempDir())
	if _, _, err := execute(t, t.Context(), "kwok", "up"); !errors.Is(err, launch.ErrNoBinary) || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("trainer kwok up = %v, want %v", err, launch.ErrNoBinary)
	}
	t.Setenv(launch.BinaryEnv, "nonesuch")
	if _, _, err := execute(t, t.Context(), "kwok", "up"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("trainer kwok up = %v, want %v", err, os.ErrNotExist)
	}
}
