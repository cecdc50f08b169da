// Command importcheck checks that the packages of this module import only what the architecture permits
// (docs/architecture.md, "Imports"): imports point downwards, one folder imports Gorgonia, and environments
// compile neither Kubernetes nor sockets.
//
// Usage: go run ./tools/importcheck
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/kubernasium/kubernasium/"

// A rule lists what the packages below a folder may import of this module, besides each other, and which other
// modules they may not import.
type rule struct {
	under string   // folder; the longest match applies to a package
	own   []string // folders of this module that they may import
	not   []string // prefixes of import paths that they may not import
}

var (
	noGorgonia   = []string{"gorgonia.org/gorgonia", "gorgonia.org/tensor"}
	noKubernetes = []string{"k8s.io/", "sigs.k8s.io/", "net", "net/http", "github.com/gorilla/"}
	core         = append(slices.Clone(noGorgonia), noKubernetes...)
	noFlags      = append(slices.Clone(noGorgonia), "github.com/spf13/") // it reads flags, and passes values
)

// rules lists the folders from bottom to top.
var rules = []rule{
	{"envs/space", nil, core},
	{"envs/pcg", nil, core},
	{"envs/cluster", nil, core},
	{"envs", []string{"envs/space", "envs/pcg", "envs/cluster"}, core}, // the contract
	{"envs/dataset", nil, core},
	{"envs/dataset/clustertrace", []string{"envs/cluster", "envs/dataset"}, core},
	{"envs/dataset/catalog", []string{"envs/dataset"}, core},
	{"envs/solve", nil, core},
	{"envs/envcheck", []string{"envs"}, core},
	{"envs/envstest", []string{"envs"}, core},
	{"envs/classic", []string{"envs"}, core},
	{"envs/example", []string{"envs"}, core},
	{"envs/gang", []string{"envs"}, core},
	{"envs/gang/profile", []string{"envs/dataset"}, core},
	{"envs/gang/series", []string{"envs/dataset"}, core},
	{"envs/gang/planner", []string{"envs/gang/profile"}, core},
	{"envs/gang/pods", []string{"envs/cluster", "envs/gang/profile"}, core},
	{"envs/gang/published", []string{"envs/dataset", "envs/gang/planner", "envs/gang/profile", "envs/gang/series"}, core},
	{"envs/gang/gangtest", []string{"envs/gang/planner", "envs/gang/profile"}, core},
	{"envs/lra", []string{"envs"}, core},
	{"envs/vpa", []string{"envs"}, core},
	{"envs/vpa/recommender", nil, core},
	{"envs/podsched", []string{"envs"}, core},
	{"envs/all", []string{"envs"}, core},
	{"models", []string{"envs/space"}, core},
	{"models/graph", []string{"envs/space", "models"}, noKubernetes},
	{"agents", []string{"envs", "models"}, core},
	{"kwok/launch", nil, core},
	{"trainer/tracking", nil, core[:len(noGorgonia)]},
	{"version", nil, core},
	{"trainer/hyperparams", nil, core},
	{"trainer/searchspaces", nil, core},
	{"trainer/cli", []string{"trainer/tracking", "version"}, noGorgonia},
	{"trainer/fetch", nil, noFlags},
	{"trainer/study", nil, core},
	{"trainer/sample", []string{"envs", "agents", "trainer/cli"}, noGorgonia},
	{"trainer/minari", []string{"envs/space", "agents/replay", "models"}, core},
	{"trainer/convert", []string{"envs", "models"}, core},
	{"trainer/apiserver", []string{"kwok"}, noGorgonia},
	{"registry", []string{"envs", "agents", "kwok"}, noGorgonia},
	{"trainer/play", []string{"envs", "models", "agents", "clients/go", "kwok", "registry", "trainer/cli", "trainer/tracking"}, noFlags},
	{"trainer/run", []string{"envs", "models", "agents", "trainer/cli", "trainer/minari", "trainer/play", "trainer/study", "trainer/tracking", "trainer/hyperparams"}, noFlags},
	{"trainer/nodescorer", []string{"agents", "models", "trainer/cli"}, noGorgonia},
	{"trainer/submit", []string{"kwok/freeport", "kwok/procgroup", "trainer/cli"}, noFlags},
	{"board", []string{"envs", "models", "agents", "server/guard"}, noGorgonia},
	{"trainer/command", []string{"board", "envs", "models", "agents", "kwok", "server/guard", "trainer/apiserver", "trainer/cli", "trainer/convert", "trainer/fetch", "trainer/minari", "trainer/nodescorer", "trainer/play", "trainer/run", "trainer/sample", "trainer/searchspaces", "trainer/study", "trainer/submit", "trainer/tracking", "version"}, noGorgonia},
	{"trainer/command/all", []string{"registry", "server/command", "trainer/cli", "trainer/command"}, noGorgonia},
	{"trainer/clitest", []string{"envs", "models", "trainer/cli", "trainer/tracking"}, noGorgonia},
	{"trainer", nil, noGorgonia},
	{"server/wire", []string{"envs/space"}, core},
	{"server/session", []string{"envs", "server/wire"}, core},
	{"server/compliance", []string{"server/wire"}, noGorgonia},
	{"server/faults", nil, core[:len(noGorgonia)]},
	{"server", []string{"board", "envs", "agents", "models", "kwok", "registry", "version"}, noGorgonia},
	{"server/host", []string{"envs", "server"}, noGorgonia},
	{"kwok", []string{"envs"}, noGorgonia},
	{"kwok/mirror", []string{"envs", "agents/live", "kwok"}, noGorgonia},
	{"kwok/schedulerconfig", []string{"agents/live"}, noGorgonia},
	{"kwok/profile", []string{"envs", "models", "kwok"}, noGorgonia}, // for atomic files
	{"kwok/bsp", []string{"envs", "models", "kwok"}, noGorgonia},     // for atomic files
	{"clients/go", []string{"envs", "server/wire"}, noGorgonia},
	{"deploy", nil, core},
	{"tools", nil, core},
	{"tools/compliance", []string{"server/compliance", "server/wire"}, noGorgonia},
	{"tools/chaos", []string{"clients/go", "envs", "kwok/freeport", "models", "server/faults", "server/wire"}, noGorgonia},
	{"tools/cputime", nil, core},
	{"tools/chaos/powerfs", nil, core[:len(noGorgonia)]},
	{"tools/modulezip", nil, core},
	{"tools/site", []string{"envs", "agents", "server/command", "trainer/command/all"}, noGorgonia},
	{"tools/benchkwok", []string{"envs", "kwok", "tools/cputime"}, noGorgonia},
	{"tools/benchtrainers", []string{"envs", "agents", "models", "tools/cputime"}, noGorgonia},
	{"tools/benchfleet", []string{"clients/go", "envs", "tools/cputime"}, noGorgonia},
	{"tools/benchresets", []string{"envs"}, core},
}

// siblings are folders whose packages may not import each other, except for the shared packages listed here.
// One environment does not know another, nor one algorithm or command another.
var siblings = map[string][]string{
	"envs":            {"space", "pcg", "cluster", "dataset", "solve", "envcheck"},
	"agents":          {"baseline", "rollout", "replay", "categorical", "distribution", "normalize", "onpolicy", "policies", "qlearning", "evaluation", "imitation", "live", "offline", "search", "trained"},
	"envs/lra":        {"files", "interference", "lookahead", "planner", "prices", "subcluster", "throughput", "world"},
	"envs/podsched":   {"deployments", "gpushare", "gpuworkload", "imbalance", "kubescore", "lifetimes", "recorded", "topology"},
	"trainer/command": {},
}

// above lists the packages that may import their siblings: lists of all environments or algorithms, readers of
// all models, and shared code of tests.
var above = []string{"envs/all", "envs/lra/lratest", "agents/algorithms", "agents/live", "agents/trained", "agents/subscheduler", "trainer/command/all"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func main() {
	pkgs, err := list()
	if err != nil {
		fmt.Fprintln(os.Stderr, "importcheck:", err)
		os.Exit(2)
	}
	bad := check(pkgs)
	for _, b := range bad {
		fmt.Println(b)
	}
	if len(bad) > 0 {
		os.Exit(1)
	}
}

func list() ([]pkg, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

// check returns a line for each forbidden import.
func check(pkgs []pkg) []string {
	var bad []string
	for _, p := range pkgs {
		folder := strings.TrimPrefix(p.ImportPath, module)
		r, ok := ruleFor(folder)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s: no rule for this folder; add one to tools/importcheck", folder))
			continue
		}
		for _, imp := range p.Imports {
			if why := forbidden(r, folder, imp); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", folder, imp, why))
			}
		}
	}
	return bad
}

func ruleFor(folder string) (rule, bool) {
	var best rule
	found := false
	for _, r := range rules {
		if under(folder, r.under) && (!found || len(r.under) > len(best.under)) {
			best, found = r, true
		}
	}
	return best, found
}

func forbidden(r rule, folder, imp string) string {
	own, ok := strings.CutPrefix(imp, module)
	if !ok {
		for _, n := range r.not {
			if imp == strings.TrimSuffix(n, "/") || strings.HasPrefix(imp, strings.TrimSuffix(n, "/")+"/") && n != "net" {
				return "not below " + r.under
			}
		}
		return ""
	}
	if !slices.Contains(above, folder) {
		for parent, shared := range siblings {
			from, to := child(parent, folder), child(parent, own)
			if from != "" && to != "" && from != to && !slices.Contains(shared, to) {
				return "packages below " + parent + " do not know each other"
			}
		}
	}
	if under(own, r.under) || slices.ContainsFunc(r.own, func(o string) bool { return under(own, o) }) {
		return ""
	}
	return r.under + " may import " + strings.Join(r.own, ", ") + " of this module"
}

// child returns the name of the folder directly below parent that contains folder, or "".
func child(parent, folder string) string {
	below, ok := strings.CutPrefix(folder, parent+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

func under(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}
