package plane

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/yaml"
)

// DurationAnnotation on a pod sets how long it runs: a Go duration, or a time in RFC 3339.
const DurationAnnotation = "kubernasium.io/duration"

//go:embed stages/pod-complete-after.yaml
var podCompleteAfter string

// defaultStages returns the stages that replace a kubelet: KWOK's own, which make nodes ready, run pods,
// complete Jobs' pods and remove deleted pods at once, and ours for DurationAnnotation.
func defaultStages() ([]*internalversion.Stage, error) {
	stages, err := decodeStages(strings.Join([]string{
		nodefast.DefaultNodeInit, podfast.DefaultPodReady, podfast.DefaultPodDelete, podfast.DefaultPodComplete, podCompleteAfter,
	}, "\n---\n"))
	for _, s := range stages {
		switch s.Name {
		case "pod-complete": // our stage completes a Job's pod that has a duration
			narrow(s, fmt.Sprintf(".metadata.annotations[%q]", DurationAnnotation), "DoesNotExist")
		case "pod-delete": // the API server deletes the pod itself; KWOK, a little later, would delete a new pod of the same name
			narrow(s, ".metadata.deletionGracePeriodSeconds == 0", "NotIn", "true")
		}
	}
	return stages, err
}

// narrow adds a condition to a stage.
func narrow(s *internalversion.Stage, key string, op internalversion.SelectorOperator, values ...string) {
	s.Spec.Selector.MatchExpressions = append(s.Spec.Selector.MatchExpressions, internalversion.MatchExpression{
		JQ: &internalversion.SelectorJQ{Key: key, Operator: op, Values: values},
	})
}

// readStages reads the stages of files, and of the *.yaml of folders. They replace the default
// stages, which readStages returns if there are no files.
func readStages(paths []string) ([]*internalversion.Stage, error) {
	if len(paths) == 0 {
		return defaultStages()
	}
	var files []string
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = append(files, path) // reading the path reports the error
			continue
		}
		inside, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			return nil, fmt.Errorf("%s holds no *.yaml", path)
		}
		files = append(files, inside...)
	}
	var all []*internalversion.Stage
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		stages, err := decodeStages(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("%s holds no Stage", f)
		}
		all = append(all, stages...)
	}
	return all, nil
}

// decodeStages decodes YAML documents with one Stage each, and skips empty ones.
func decodeStages(text string) ([]*internalversion.Stage, error) {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var stages []*internalversion.Stage
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return stages, nil
		} else if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.Unmarshal(doc, &content); err == nil && content == nil {
			continue // only comments
		}
		s, err := config.UnmarshalWithType[*internalversion.Stage](doc)
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", len(stages)+1, err)
		}
		stages = append(stages, s)
	}
}
