package kubeyaml

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Objects holds the Nodes, Pods and workloads of some files, in their order there.
type Objects struct {
	Nodes     []corev1.Node
	Pods      []corev1.Pod
	Workloads Workloads
	Ignored   map[string]int // objects of other kinds

	types []gpushare.Pod // for Workload.Types
}

// Read reads a file, or every .yaml, .yml and .json file below a folder in name order. It splits lists and
// multi-document files.
func Read(path string) (*Objects, error) {
	var files []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (p == path || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(p))) {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	o := &Objects{Ignored: map[string]int{}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := o.parse(data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return o, nil
}

// parse adds the objects of a file.
func (o *Objects) parse(data []byte) error {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		if string(text) == "null" {
			continue // only comments
		}
		if err := o.add(text, ""); err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// add adds an object, or the objects of a list; of is the default kind of an object without one.
func (o *Objects) add(text []byte, of string) error {
	var head struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("not a Kubernetes object: %w", err)
	}
	kind := cmp.Or(head.Kind, of)
	if items, ok := strings.CutSuffix(kind, "List"); ok {
		for i, item := range head.Items {
			if err := o.add(item, items); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	}
	w := &o.Workloads
	switch kind {
	case "Node":
		return decode(text, kind, &o.Nodes)
	case "Pod":
		return decode(text, kind, &o.Pods)
	case "Deployment":
		return decode(text, kind, &w.Deployments)
	case "ReplicaSet":
		return decode(text, kind, &w.ReplicaSets)
	case "ReplicationController":
		return decode(text, kind, &w.ReplicationControllers)
	case "StatefulSet":
		return decode(text, kind, &w.StatefulSets)
	case "Job":
		return decode(text, kind, &w.Jobs)
	case "CronJob":
		return decode(text, kind, &w.CronJobs)
	case "DaemonSet":
		return decode(text, kind, &w.DaemonSets)
	case "":
		if ok, err := o.addExport(text); ok {
			return err
		}
		return errors.New("an object has no kind")
	}
	o.Ignored[kind]++
	return nil
}

// decode appends the object of text to all.
func decode[T any, P interface {
	*T
	metav1.Object
}](text []byte, kind string, all *[]T) error {
	var v T
	name := func() string { return P(&v).GetName() }
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		return fmt.Errorf("%s %s: %w", strings.ToLower(kind), name(), err)
	}
	if name() == "" {
		return fmt.Errorf("a %s has no metadata.name", kind)
	}
	*all = append(*all, v)
	return nil
}
