package plane

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
)

// DurationAnnotation on a pod says how long it runs: a Go duration, or a time in RFC 3339.
const DurationAnnotation = "kubernasium.io/duration"

//go:embed stages/pod-complete-after.yaml
var podCompleteAfter string

// defaultStages returns what plays a kubelet: nodes are ready and pods run at once, deleted pods
// go at once, Jobs' pods succeed at once or after their duration.
func defaultStages() ([]*internalversion.Stage, error) {
	jobs, err := decodeStages(podfast.DefaultPodComplete)
	if err != nil {
		return nil, err
	}
	for _, s := range jobs {
		s.Spec.Selector.MatchExpressions = append(s.Spec.Selector.MatchExpressions, internalversion.MatchExpression{
			JQ: &internalversion.SelectorJQ{Key: fmt.Sprintf(".metadata.annotations[%q]", DurationAnnotation), Operator: "DoesNotExist"},
		})
	}
	rest, err := decodeStages(strings.Join([]string{nodefast.DefaultNodeInit, podfast.DefaultPodReady, podfast.DefaultPodDelete, podCompleteAfter}, "\n---\n"))
	return append(rest, jobs...), err
}

// readStages reads all stages of the files, which replace the default ones; without files, it
// returns those.
func readStages(files []string) ([]*internalversion.Stage, error) {
	if len(files) == 0 {
		return defaultStages()
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

// decodeStages decodes YAML documents with a Stage each; empty ones are skipped.
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
		if strings.TrimSpace(string(doc)) == "" {
			continue
		}
		s, err := config.UnmarshalWithType[*internalversion.Stage](doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(stages), err)
		}
		stages = append(stages, s)
	}
}
