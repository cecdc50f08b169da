package podsched

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// hierSuffix is the suffix of the names, before the extension, of the files that topology writes.
const hierSuffix = "-hier"

// hierFile is the JSON of `podsched topology` for one file.
type hierFile struct {
	Source  string `json:"source"`
	Written string `json:"written"`
	Nodes   int    `json:"nodes"`
	Racks   int    `json:"racks"` // of the nodes in this file
	Pods    int    `json:"pods"`

	text []byte
}

func newPodschedTopology() *cobra.Command {
	var dir, scheduler string
	var perRack int
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Write copies of nodes and pods with racks as node labels",
		Long: `Write copies of nodes and pods with racks as node labels.

Every YAML file with Nodes or Pods below the folder, and every CSV file with a list of nodes or
pods in the format of the openb trace, gets a copy beside it, NAME-hier.yaml. Nodes get the
labels rack and server by their order: node i is in rack-(i/K), and its server, such as rack-3-srv-1,
is unique in the cluster. Existing labels are kept.

The files of a folder are one cluster, in the order of their names: numbers continue from file to file.
A file that repeats the name of a numbered node is another list of nodes, and its numbers start over.
Files *-hier.* are never read.`,
		Example: `  trainer podsched topology --data-dir data --servers-per-rack 4
  trainer podsched topology --data-dir data --scheduler-name my-scheduler --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("no folder: give --data-dir")
			}
			if perRack < 1 {
				return fmt.Errorf("--servers-per-rack is %d, want at least 1", perRack)
			}
			files, err := writeTopology(dir, perRack, scheduler)
			if err != nil {
				return err
			}
			t := tracking.NewTable("written", ">nodes", ">racks", ">pods")
			for _, f := range files {
				t.Append(f.Written, fmt.Sprint(f.Nodes), fmt.Sprint(f.Racks), fmt.Sprint(f.Pods))
			}
			return cli.Print(cmd, files, t.WriteText)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "folder with nodes and pods, as YAML or CSV")
	f.IntVar(&perRack, "servers-per-rack", 4, "nodes of a rack")
	f.StringVar(&scheduler, "scheduler-name", "", "scheduler name of the pods (default: unchanged)")
	return cmd
}

// writeTopology writes the copies of all files below dir, but none if it cannot read one of them.
func writeTopology(dir string, perRack int, scheduler string) ([]hierFile, error) {
	clusters := map[string]*numbering{} // by folder
	written := map[string]string{}      // source by output file
	files := []hierFile{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		stem, ext := cutExt(path)
		if strings.HasSuffix(stem, hierSuffix) {
			return nil
		}
		docs, err := readManifests(path, ext)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		folder := filepath.Dir(path)
		if clusters[folder] == nil {
			clusters[folder] = &numbering{}
		}
		f := hierFile{Source: path, Written: stem + hierSuffix + ".yaml"}
		if err := f.label(docs, clusters[folder], perRack, scheduler); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if f.Nodes+f.Pods == 0 {
			return nil
		}
		if other, ok := written[f.Written]; ok {
			return fmt.Errorf("%s and %s would both become %s; rename one", other, path, f.Written)
		}
		written[f.Written] = path
		f.text, err = encodeManifests(docs)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no nodes or pods in the YAML and CSV files below %s", dir)
	}
	for _, f := range files {
		if err := os.WriteFile(f.Written, f.text, 0o644); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// cutExt splits a file name before its extension.
func cutExt(path string) (stem, ext string) {
	ext = filepath.Ext(path)
	return strings.TrimSuffix(path, ext), ext
}

// numbering numbers the nodes of a cluster.
type numbering struct {
	seen map[string]bool
	next int
}

// begin is called before each list of nodes. It restarts if a name repeats.
func (n *numbering) begin(names []string) {
	again := n.seen == nil
	for _, name := range names {
		again = again || n.seen[name]
	}
	if again {
		n.seen, n.next = map[string]bool{}, 0
	}
	for _, name := range names {
		n.seen[name] = true
	}
}

// label assigns racks to the nodes among docs, and a scheduler to the pods.
func (f *hierFile) label(docs []*yaml.Node, cluster *numbering, perRack int, scheduler string) error {
	var nodes []*yaml.Node
	var names []string
	for _, m := range manifests(docs) {
		switch m.kind {
		case "Node":
			name, err := nameOf(m.node)
			if err != nil {
				return err
			}
			nodes, names = append(nodes, m.node), append(names, name)
		case "Pod":
			f.Pods++
			if scheduler != "" {
				spec := child(m.node, "spec")
				if spec == nil || spec.Kind != yaml.MappingNode {
					return fmt.Errorf("line %d: a Pod without a spec", m.node.Line)
				}
				setString(spec, "schedulerName", scheduler)
			}
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	cluster.begin(names)
	racks := map[int]bool{}
	for _, n := range nodes {
		i := cluster.next
		cluster.next++
		racks[topology.Rack(i, perRack)] = true
		labels := childOrNew(child(n, "metadata"), "labels")
		for _, l := range [][2]string{
			{topology.RackLabel, topology.RackName(i, perRack)}, {topology.ServerLabel, topology.ServerName(i, perRack)},
		} {
			if child(labels, l[0]) == nil {
				setString(labels, l[0], l[1])
			}
		}
	}
	f.Nodes, f.Racks = len(nodes), len(racks)
	return nil
}
