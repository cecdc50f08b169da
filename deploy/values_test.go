package deploy

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// A value is a leaf of values.yaml: a scalar, a list, or an empty map. Maps in one line are split where they are set
// and kept whole where they are documented.
type value struct {
	path    []string
	node    *yaml.Node
	comment string
}

func (v value) name() string { return strings.Join(v.path, ".") }

// valuesOf returns the leaves; with whole, a map that stands in one line is one of them.
func valuesOf(t *testing.T, whole bool) (all []value) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var walk func(path []string, n *yaml.Node, comment string)
	walk = func(path []string, n *yaml.Node, comment string) {
		for n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		flow := n.Style&yaml.FlowStyle != 0
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 || whole && flow {
			all = append(all, value{slices.Clone(path), n, strings.TrimSpace(strings.TrimPrefix(comment, "#"))})
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			key, v := n.Content[i], n.Content[i+1]
			c := v.LineComment
			if c == "" {
				c = key.LineComment
			}
			walk(append(path, key.Value), v, c)
		}
	}
	walk(nil, document.Content[0], "")
	return all
}

// fixed are values whose effect TestEachValue sees by a difference: what they may be is bounded, or they say whether
// something is there at all.
var fixed = map[string]string{
	"imagePullPolicy": "Never", "server.service.type": "NodePort", "scheduler.order": "policy", "recommender.storage": "",
	"recommender.interval": "7m", "scheduler.budget": "7ms", "server.serviceMonitor.interval": "7s", "scheduler.serviceMonitor.interval": "7s",
	"training.activeDeadlineSeconds": "77", "server.autoscaling.enabled": "false",
	"server.token.value": "another", // which is encoded
}

// rivals are values that others replace: they are set in a rendering of their own.
var rivals = []string{
	"server.image.digest", "scheduler.image.digest", "shadow.image.digest", "recommender.image.digest", "training.image.digest",
	"server.token.existingSecret", "shadow.persistence.existingClaim", "training.persistence.existingClaim",
	"scheduler.baseline", "scheduler.env", "recommender.baseline", "fullnameOverride", "recommender.namespace",
	"server.replicas", "recommender.prometheusAddress",
}

// renderValues returns the chart's objects with every component, and the values of a file.
func renderValues(t *testing.T, values map[string]any, set ...string) string {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := envstest.TempFile(t, "values.json", string(text))
	args := []string{"template", "kubernasium", chart, "--kube-version", supported, "--api-versions", "monitoring.coreos.com/v1"}
	for _, s := range append(everything, "server.serviceMonitor.enabled=true", "scheduler.serviceMonitor.enabled=true") {
		if key, _, _ := strings.Cut(s, "="); !has(values, strings.Split(key, ".")) { // --set would win over the file
			args = append(args, "--set", s)
		}
	}
	return helm(t, append(append(args, "--values", file), sets(set)...)...)
}

// has reports whether there is a value at the path.
func has(values map[string]any, path []string) bool {
	v, ok := values[path[0]]
	if len(path) == 1 || !ok {
		return ok
	}
	return has(v.(map[string]any), path[1:])
}

// TestEachValue: each value of values.yaml is in the objects, or changes them.
func TestEachValue(t *testing.T) {
	type marked struct{ name, text string }
	renderings := [2]map[string]any{{}, { // without and with the rivals
		"server":      map[string]any{"autoscaling": map[string]any{"enabled": false}},
		"recommender": map[string]any{"storage": "prometheus"},
	}}
	var want [2][]marked
	base := renderValues(t, nil)
	for i, v := range valuesOf(t, false) {
		name, sentinel := v.name(), fmt.Sprintf("sentinel-%d-x", i)
		given, ok := fixed[name]
		k := 0
		if slices.Contains(rivals, name) {
			k = 1
		}
		switch {
		case v.node.Tag == "!!bool":
			ok, given = true, map[string]string{"true": "false", "false": "true"}[v.node.Value]
			if strings.HasSuffix(name, ".enabled") || name == "server.headless" {
				given = "false" // renderValues has switched everything on
			}
		case v.node.Tag == "!!int":
			sentinel = fmt.Sprint(20_000 + i)
		case strings.HasSuffix(name, "Address"):
			sentinel = "http://" + sentinel
		case strings.HasSuffix(name, ".image.digest"):
			sentinel = fmt.Sprintf("sha256:%064d", i)
		}
		if ok {
			if renderValues(t, nil, name+"="+given) == base {
				t.Errorf("--set %s=%s changes nothing", name, given)
			}
			continue
		}
		leaf := any(sentinel)
		switch last := v.path[len(v.path)-1]; {
		case v.node.Tag == "!!int":
			leaf = 20_000 + i
		case v.node.Kind == yaml.MappingNode:
			leaf = map[string]any{"k" + sentinel: sentinel}
		case last == "imagePullSecrets":
			leaf = []any{map[string]any{"name": sentinel}}
		case last == "from":
			leaf = []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"a": sentinel}}}}
		case v.node.Kind == yaml.SequenceNode && slices.Contains([]string{"tolerations", "topologySpreadConstraints", "egress"}, last):
			leaf = []any{map[string]any{"key": sentinel}}
		case v.node.Kind == yaml.SequenceNode:
			leaf = []any{sentinel}
		}
		set := renderings[k]
		for _, key := range v.path[:len(v.path)-1] {
			if set[key] == nil {
				set[key] = map[string]any{}
			}
			set = set[key].(map[string]any)
		}
		set[v.path[len(v.path)-1]] = leaf
		want[k] = append(want[k], marked{name, sentinel})
	}
	if len(want[0]) < 100 || len(want[1]) < 10 {
		t.Fatalf("%d and %d values, want those of all components", len(want[0]), len(want[1]))
	}
	for k := range renderings {
		text := renderValues(t, renderings[k])
		for _, m := range want[k] {
			if !strings.Contains(text, m.text) {
				t.Errorf("%s is in no object: %s", m.name, m.text)
			}
		}
	}
}

var updateReadme = flag.Bool("update-readme", false, "write the table of the chart's README.md")

// TestReadme: the table of the README has each value with its default and its comment in values.yaml.
func TestReadme(t *testing.T) {
	all := valuesOf(t, true)
	comments := map[string]string{} // by the name within the first component that has one, which stands for the others too
	for _, v := range all {
		if name := strings.Join(v.path[1:], "."); comments[name] == "" {
			comments[name] = v.comment
		}
	}
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range all {
		comment := v.comment
		if comment == "" {
			comment = comments[strings.Join(v.path[1:], ".")]
		}
		if comment == "" {
			t.Errorf("%s has no comment in values.yaml, and no component before it has such a value with one", v.name())
		}
		var data any
		if err := v.node.Decode(&data); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.name(), text, strings.ReplaceAll(comment, "|", `\|`))
	}
	const begin, end = "<!-- begin: table of values, made by go test ./deploy -run TestReadme -args -update-readme -->\n", "<!-- end -->\n"
	file := filepath.Join(chart, "README.md")
	before, rest, ok := strings.Cut(envstest.Read(t, file), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks %q or %q", file, begin, end)
	}
	if *updateReadme {
		envstest.Write(t, file, before+begin+b.String()+end+after)
	} else if got != b.String() {
		t.Errorf("the table of %s is not that of values.yaml: go test ./deploy -run TestReadme -args -update-readme", file)
	}
}
