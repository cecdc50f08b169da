// Package stages holds the KWOK stages for environments on an API server, as YAML. Nodes become ready and pods
// run at once, pods report resized resources, and complete after an annotated duration.
//
// A control plane reads them as files (`controlplane --stages`), another KWOK cluster as objects (`kubectl
// apply`).
package stages

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

// Annotations that KWOK and the stages read.
const (
	Node     = "kwok.x-k8s.io/node"      // of nodes that KWOK manages
	Duration = "kubernasium.io/duration" // of pods, for pod-complete-after: a Go duration such as 90s, or a time in RFC 3339
)

//go:embed *.yaml
var files embed.FS

// Write writes the stages to a folder and returns the paths of the files.
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
