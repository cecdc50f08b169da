package play

import (
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/models"
)

// TestModelOfTheSimulatorFitsItsTwin reads each pretrained model for the twin of its environment.
// Spaces are known without a control plane.
func TestModelOfTheSimulatorFitsItsTwin(t *testing.T) {
	paths, err := filepath.Glob("../../models/pretrained/k8s-*/*.safetensors")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d models, %v; want all of models/pretrained", len(paths), err)
	}
	for _, path := range paths {
		f, err := models.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		id, kwargs, err := EnvOf(kwok.TwinID(f.Meta.Env), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		v, err := envs.Make(id, 1, envs.VecOptions{Options: kwargs})
		if err != nil {
			t.Fatal(err)
		}
		m, err := ReadModelFor(path, v)
		if err != nil {
			t.Errorf("%s on %s: %v", path, id, err)
		} else if err := m.Net.Close(); err != nil {
			t.Error(err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
