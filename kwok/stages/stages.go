// Package stages holds the KWOK stages of environments on an API server, as YAML: nodes are ready and
// pods run at once, report their resized resources, and complete after an annotated duration.
//
// A control plane takes them as files (`controlplane --stages`), another KWOK cluster as objects
// (`kubectl apply`).
package stages

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
)

// Annotations that KWOK and the stages read.
const (
	Node     = "kwok.x-k8s.io/node"      // of nodes that KWOK plays
	Duration = "kubernasium.io/duration" // of pods, for pod-complete-after: a Go duration such as 90s, or a time in RFC 3339
)

//go:embed *.yaml
var files embed.FS

// Write writes the stages to a folder and returns the files' names.
func Write(dir string) ([]string, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		names[i] = filepath.Join(dir, name)
		if err := os.WriteFile(names[i], text, 0o600); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// All decodes every stage, in the order of the files' names. Unknown fields are errors.
func All() ([]v1alpha1.Stage, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []v1alpha1.Stage
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("stages: %s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func decode(text []byte) (s v1alpha1.Stage, err error) {
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return s, err
	}
	if s.Kind != v1alpha1.StageKind || s.APIVersion != v1alpha1.GroupVersion.String() {
		return s, fmt.Errorf("kind %s of %s, want %s of %s", s.Kind, s.APIVersion, v1alpha1.StageKind, v1alpha1.GroupVersion)
	}
	return s, nil
}
