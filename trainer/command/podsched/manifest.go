package podsched

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manifests are kept as YAML trees, so that the contents of a file, including comments, stay unchanged.

// manifest is one Kubernetes object of a file.
type manifest struct {
	kind string
	node *yaml.Node // a mapping
}

// manifests returns the objects of docs, including those in lists.
func manifests(docs []*yaml.Node) []manifest {
	var all []manifest
	var add func(n *yaml.Node, kind string)
	add = func(n *yaml.Node, kind string) {
		if n.Kind != yaml.MappingNode {
			return
		}
		if k := child(n, "kind"); k != nil {
			kind = k.Value
		}
		items := child(n, "items")
		if of, ok := strings.CutSuffix(kind, "List"); ok && items != nil { // List, NodeList, PodList
			for _, item := range items.Content {
				add(item, of)
			}
			return
		}
		all = append(all, manifest{kind, n})
	}
	for _, d := range docs {
		for _, n := range d.Content {
			add(n, "")
		}
	}
	return all
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// childOrNew returns the mapping at a key of a mapping. It replaces a value of another kind, such as null.
func childOrNew(n *yaml.Node, key string) *yaml.Node {
	c := child(n, key)
	if c == nil {
		c = &yaml.Node{Kind: yaml.MappingNode}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, c)
	}
	if c.Kind != yaml.MappingNode {
		*c = yaml.Node{Kind: yaml.MappingNode}
	}
	return c
}

// setString sets a key of a mapping.
func setString(n *yaml.Node, key, value string) {
	v := child(n, key)
	if v == nil {
		v = &yaml.Node{}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
	}
	*v = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

func nameOf(n *yaml.Node) (string, error) {
	name := child(child(n, "metadata"), "name")
	if name == nil || name.Value == "" {
		return "", fmt.Errorf("line %d: a Node without a name", n.Line)
	}
	return name.Value, nil
}

// readManifests reads the documents of a YAML file, or converts a CSV file in the format of the openb trace. It
// returns none for a file of another kind, or for a CSV file with another header.
func readManifests(path, ext string) ([]*yaml.Node, error) {
	parse := map[string]func(io.Reader) ([]*yaml.Node, error){".yaml": parseYAML, ".yml": parseYAML, ".csv": parseCSV}[ext]
	if parse == nil {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(f)
}

func parseYAML(r io.Reader) ([]*yaml.Node, error) {
	var docs []*yaml.Node
	var e expander
	dec := yaml.NewDecoder(r)
	for {
		var n yaml.Node
		switch err := dec.Decode(&n); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		d, err := e.expand(&n, 0)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
}

// Limits of a YAML document with its anchors expanded; an anchor may contain itself.
const (
	maxYAMLDepth = 100
	maxYAMLNodes = 2_000_000
)

// expander copies anchored parts to each reference, so that a change of one object does not affect another.
type expander struct{ nodes int }

func (e *expander) expand(n *yaml.Node, depth int) (*yaml.Node, error) {
	if e.nodes++; depth > maxYAMLDepth || e.nodes > maxYAMLNodes {
		return nil, fmt.Errorf("line %d: more than %d levels or %d values, with anchors expanded", n.Line, maxYAMLDepth, maxYAMLNodes)
	}
	if n.Kind == yaml.AliasNode {
		return e.expand(n.Alias, depth+1)
	}
	c := *n
	c.Anchor, c.Content = "", nil
	for _, part := range n.Content {
		p, err := e.expand(part, depth+1)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, p)
	}
	return &c, nil
}

func encodeManifests(docs []*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, d := range docs {
		if err := enc.Encode(d); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), enc.Close()
}

// Objects as the trace's simulator has them. The names of the GPU resources and annotations are those of its
// device plugin.
type (
	objectMeta struct {
		Name        string            `yaml:"name"`
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	nodeObject struct {
		APIVersion string     `yaml:"apiVersion"`
		Kind       string     `yaml:"kind"`
		Metadata   objectMeta `yaml:"metadata"`
		Status     struct {
			Allocatable map[string]string `yaml:"allocatable"`
			Capacity    map[string]string `yaml:"capacity"`
		} `yaml:"status"`
	}
	podObject struct {
		APIVersion string     `yaml:"apiVersion"`
		Kind       string     `yaml:"kind"`
		Metadata   objectMeta `yaml:"metadata"`
		Spec       struct {
			Containers []container `yaml:"containers"`
		} `yaml:"spec"`
	}
	container struct {
		Name      string `yaml:"name"`
		Image     string `yaml:"image"`
		Resources struct {
			Requests map[string]string `yaml:"requests"`
		} `yaml:"resources"`
	}
)

const (
	gpuCount = "alibabacloud.com/gpu-count"
	gpuMilli = "alibabacloud.com/gpu-milli" // of a node: of all its GPUs; of a pod: of each
	gpuModel = "alibabacloud.com/gpu-card-model"

	tracePods  = "1001" // maximum pods of a node in the trace
	pauseImage = "registry.k8s.io/pause:3.10"
)

// Columns that distinguish the trace's two lists. The list of pods may have more.
var (
	nodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	podColumns  = []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
)

func parseCSV(r io.Reader) ([]*yaml.Node, error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var object func(row map[string]string) (any, error)
	switch {
	case hasAll(header, nodeColumns):
		object = nodeOfRow
	case hasAll(header, podColumns):
		object = podOfRow
	default:
		return nil, nil
	}
	var docs []*yaml.Node
	row := map[string]string{}
	for {
		fields, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		for i, name := range header {
			row[name] = fields[i]
		}
		line, _ := rows.FieldPos(0)
		o, err := object(row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		content := &yaml.Node{}
		if err := content.Encode(o); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		docs = append(docs, &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{content}})
	}
}

func hasAll(header, columns []string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(header, c) })
}

// numbers returns the columns of a row as non-negative integers.
func numbers(row map[string]string, columns ...string) ([]int64, error) {
	var all []int64
	for _, c := range columns {
		v, err := strconv.ParseInt(row[c], 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("%s is %q, want a whole number from 0 on", c, row[c])
		}
		all = append(all, v)
	}
	return all, nil
}

func amounts(milliCPU, mib int64) map[string]string {
	cpu := strconv.FormatInt(milliCPU, 10) + "m"
	if milliCPU%1000 == 0 {
		cpu = strconv.FormatInt(milliCPU/1000, 10)
	}
	return map[string]string{"cpu": cpu, "memory": strconv.FormatInt(mib, 10) + "Mi"}
}

func nodeOfRow(row map[string]string) (any, error) {
	v, err := numbers(row, "cpu_milli", "memory_mib", "gpu")
	if err != nil {
		return nil, err
	}
	if row["sn"] == "" {
		return nil, errors.New("a node without a name, sn")
	}
	o := nodeObject{APIVersion: "v1", Kind: "Node", Metadata: objectMeta{Name: row["sn"]}}
	a := amounts(v[0], v[1])
	a["pods"] = tracePods
	if v[2] > 0 {
		a[gpuCount], a[gpuMilli] = strconv.FormatInt(v[2], 10), strconv.FormatInt(1000*v[2], 10)
		o.Metadata.Labels = map[string]string{gpuModel: row["model"]}
	}
	o.Status.Allocatable, o.Status.Capacity = a, a
	return o, nil
}

func podOfRow(row map[string]string) (any, error) {
	v, err := numbers(row, "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	if row["name"] == "" {
		return nil, errors.New("a pod without a name")
	}
	o := podObject{APIVersion: "v1", Kind: "Pod", Metadata: objectMeta{Name: row["name"]}}
	if v[2] > 0 {
		o.Metadata.Annotations = map[string]string{gpuCount: strconv.FormatInt(v[2], 10), gpuMilli: strconv.FormatInt(v[3], 10)}
		if row["gpu_spec"] != "" {
			o.Metadata.Annotations[gpuModel] = row["gpu_spec"]
		}
	}
	c := container{Name: "main", Image: pauseImage}
	c.Resources.Requests = amounts(v[0], v[1])
	o.Spec.Containers = []container{c}
	return o, nil
}
