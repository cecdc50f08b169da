// Package published runs the workloads of the published tables of fragmentation gradient descent: the pod lists of the
// openb trace, each with ten random seeds.
//
// Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
// USENIX ATC 2023.
package published

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// The random seeds of the tables.
const (
	FirstSeed = 42
	LastSeed  = 51
	workloads = LastSeed - FirstSeed + 1
)

// NodeFile is the node list of the tables.
const NodeFile = "openb_node_list_gpu_node.csv"

const listPrefix = "openb_pod_list_"

// Trace holds the nodes of the tables and pod lists.
type Trace struct {
	NodeFile string
	Nodes    []gpushare.Node
	Lists    []List
}

// List is a pod list.
type List struct {
	Name string // such as gpuspec10
	File string
	Pods []gpushare.Pod
}

// Read reads the nodes and the named pod lists of a folder; without names, all of its lists, by name.
func Read(dir string, names ...string) (*Trace, error) {
	t := &Trace{NodeFile: filepath.Join(dir, NodeFile)}
	var err error
	if t.Nodes, err = gpushare.ReadNodes(t.NodeFile); err != nil {
		return nil, err
	}
	var files []string
	for _, name := range names {
		files = append(files, filepath.Join(dir, listPrefix+name+".csv"))
	}
	if len(files) == 0 {
		files, err = filepath.Glob(filepath.Join(dir, listPrefix+"*.csv"))
		if err != nil || len(files) == 0 {
			return nil, errors.Join(err, fmt.Errorf("no file %s*.csv in %s", listPrefix, dir))
		}
		slices.Sort(files)
	}
	for _, file := range files {
		pods, err := gpushare.ReadPods(file)
		if err != nil {
			return nil, err
		}
		t.Lists = append(t.Lists, List{strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), listPrefix), ".csv"), file, pods})
	}
	return t, nil
}

// Table selects the policies and the workloads.
type Table struct {
	Policies []string // of [gpushare.PolicyNames]
	Learned  *Learned // nil: none
	Ratio    float64  // GPUs requested over GPUs of the nodes; 0 leaves the list as it is
	At       int      // arrived percent at which rows compare
}

// Learned is a policy trained to several models, which all get the same workloads.
type Learned struct {
	Policy string
	Models int
	Play   func(ctx context.Context, model int, t *Trace, l *List, seed int64) (*gpushare.Run, error)
}

// Row is one policy on one list.
type Row struct {
	List   string         `json:"list"`
	Policy string         `json:"policy"`
	Mean   float64        `json:"mean"` // over seeds, of the allocation at the table's arrived percent
	SD     float64        `json:"sd"`   // sample standard deviation
	Failed float64        `json:"failed"`
	Runs   []gpushare.Run `json:"runs"` // by seed; of several models one after the other

	Models int `json:"-"` // 0 for a policy that is not learned
}

// Play runs every policy on one list, on all cores.
func (t *Table) Play(ctx context.Context, trace *Trace, list *List) ([]Row, error) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	fill := func(runs []gpushare.Run, play func(seed int64) (*gpushare.Run, error)) {
		for i := range runs {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				run, err := play(int64(FirstSeed + i))
				if err == nil {
					runs[i] = *run
				}
				return err
			})
		}
	}
	var rows []Row
	for _, policy := range t.Policies {
		row := Row{List: list.Name, Policy: policy, Runs: make([]gpushare.Run, workloads)}
		fill(row.Runs, func(seed int64) (*gpushare.Run, error) {
			return gpushare.Reproduce(trace.Nodes, list.Pods, policy, seed, t.Ratio)
		})
		rows = append(rows, row)
	}
	if l := t.Learned; l != nil {
		row := Row{List: list.Name, Policy: l.Policy, Models: l.Models, Runs: make([]gpushare.Run, l.Models*workloads)}
		for i := range l.Models {
			fill(row.Runs[i*workloads:(i+1)*workloads], func(seed int64) (*gpushare.Run, error) {
				return l.Play(ctx, i, trace, list, seed)
			})
		}
		rows = append(rows, row)
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range rows {
		if err := rows[i].summarize(t.At); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// summarize sets the figures of a row's runs at the percent arrived.
func (r *Row) summarize(at int) error {
	var failed []float64
	for _, run := range r.Runs {
		if at < 0 || at >= len(run.Alloc) {
			return fmt.Errorf("--at is %d, want 0 to %d", at, len(run.Alloc)-1)
		}
		failed = append(failed, float64(run.Failed))
	}
	r.Mean, r.SD = stat.MeanStdDev(r.Alloc(at), nil)
	r.Failed = stat.Mean(failed, nil)
	return nil
}

// Alloc returns the allocation of each run at x percent arrived.
func (r *Row) Alloc(x int) []float64 {
	alloc := make([]float64, len(r.Runs))
	for i := range r.Runs {
		alloc[i] = r.Runs[i].Alloc[x]
	}
	return alloc
}

// Quartiles returns the quartiles of the allocation over the runs at x percent arrived.
func (r *Row) Quartiles(x int) (low, median, high float64) {
	values := r.Alloc(x)
	slices.Sort(values)
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, values, nil) }
	return quantile(0.25), quantile(0.5), quantile(0.75)
}

// Differences returns how much more than base the models of r allocate at x percent arrived, workload by workload: the
// mean of each model or, with one model, every difference.
func (r *Row) Differences(base *Row, x int) []float64 {
	n := len(base.Runs)
	d, other := r.Alloc(x), base.Alloc(x)
	for i := range d {
		d[i] -= other[i%n]
	}
	if r.Models == 1 {
		return d
	}
	var means []float64
	for k := range r.Models {
		sum := 0.0
		for _, v := range d[k*n : (k+1)*n] {
			sum += v
		}
		means = append(means, sum/float64(n))
	}
	return means
}
