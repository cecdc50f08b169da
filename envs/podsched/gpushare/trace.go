package gpushare

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset"
)

// Node is one row of a node list.
type Node struct {
	Name      string
	MilliCPU  int64
	MemoryMiB int64
	GPUs      int    // devices, each of 1000 thousandths
	Model     string // of the devices; empty for none
	MaxPods   int    // 0 is [DefaultMaxPods]
}

// DefaultMaxPods is the number of pods that a node of the reference simulator can run.
const DefaultMaxPods = 1001

// Pod is one row of a pod list.
type Pod struct {
	Name string
	Shape
	Created  time.Duration // since the beginning of the trace; 0 if the list has no times
	Duration time.Duration // from its scheduling or, if that is missing, its creation to its deletion; 0 is unknown
}

// Shape is the request of a pod. Policies do not distinguish pods of equal shape.
type Shape struct {
	MilliCPU  int64
	MemoryMiB int64
	GPUs      int32  // devices
	MilliGPU  int32  // thousandths of each device; less than 1000 only with one device
	Models    string // GPU models that it may run on, joined by "|"; empty is any
}

// TotalMilliGPU returns the thousandths of a GPU that s requests in total.
func (s *Shape) TotalMilliGPU() int64 { return int64(s.GPUs) * int64(s.MilliGPU) }

// Sharing reports whether s requests part of one device.
func (s *Shape) Sharing() bool { return s.GPUs == 1 && s.MilliGPU < WholeGPU }

// Units and limits.
const (
	WholeGPU  = 1000 // thousandths of a device
	BytesMiB  = 1 << 20
	MaxModels = 64 // of GPUs, in a cluster
)

// ReadNodes reads a node list: a CSV file with a header that has the columns sn, cpu_milli, memory_mib and gpu, and
// optionally model, the model of the GPUs. Pods that are bound to models do not fit a node without one. ReadNodes
// ignores other columns. It also reads pai_machine_spec of Alibaba's GPU trace of 2020, with its header line, and, with
// [Assumed] CPU or memory, node_info_df.csv of Alibaba's trace of spot GPUs of 2026, cluster_machine_list of Microsoft's
// Philly trace and cluster_gpu_number.csv of SenseTime's Helios traces, of which it takes the last day.
func ReadNodes(path string) ([]Node, error) { return Assumed{}.ReadNodes(path) }

// ReadPods reads a pod list: a CSV file with a header that has the columns name, cpu_milli, memory_mib, num_gpu and
// gpu_milli, and optionally gpu_spec, creation_time, deletion_time and scheduled_time (in seconds). It ignores other
// columns. It also reads pai_task_table of Alibaba's GPU trace of 2020, with its header line, a pod for each instance;
// and, with [Assumed] CPU or memory, job_info_df.csv of Alibaba's trace of spot GPUs of 2026, a pod for each instance,
// cluster_job_log of Microsoft's Philly trace, a pod for each server of a job, and cluster_log.csv of SenseTime's Helios
// traces, a pod for each node of a job.
func ReadPods(path string) ([]Pod, error) { return Assumed{}.ReadPods(path) }

// Columns of node lists and of pod lists.
var (
	nodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu"}
	podColumns  = []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
)

func (a Assumed) parseNodes(name string, r io.Reader) ([]Node, error) {
	t, err := newTable(name, r, nodeColumns)
	if err != nil {
		return nil, err
	}
	var nodes []Node
	seen := map[string]int{}
	node, column := t.node, "sn"
	switch {
	case t.has(machineColumns):
		node, column = t.machine, "machine"
	case t.has(dayColumns):
		nodes = t.days(a.or(heliosServer))
	case t.has(spotNodeColumns):
		node, column = func() Node { return t.spotNode(a.or(spotServer)) }, "node_name"
	case t.has(serverColumns):
		node, column = func() Node { return t.server(a.or(phillyServer)) }, "machineId"
	default:
		_, t.err = t.Columns(nodeColumns...)
	}
	for t.next() {
		n := node()
		if n.Name == "" {
			t.fail("%s is empty, want the node's name", column)
		}
		if line, ok := seen[n.Name]; ok {
			t.fail("node %s stands in line %d too", n.Name, line)
		}
		_, seen[n.Name] = t.Place()
		nodes = append(nodes, n)
	}
	if t.err == nil && len(nodes) == 0 {
		t.fail("no node")
	}
	return nodes, t.err
}

// node returns the node of a row of a node list.
func (t *table) node() Node {
	return Node{
		Name: t.text("sn"), MilliCPU: t.number("cpu_milli", cluster.MaxAmount),
		MemoryMiB: t.number("memory_mib", cluster.MaxAmount/BytesMiB),
		GPUs:      int(t.number("gpu", cluster.MaxDevices)), Model: t.text("model"),
	}
}

func (a Assumed) parsePods(name string, r io.Reader) ([]Pod, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	if isJSON(b) {
		return a.or(phillyServer).phillyJobs(name, b)
	}
	t, err := newTable(name, b, podColumns)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	switch {
	case t.has(taskColumns):
		pods = t.tasks()
	case t.has(jobColumns):
		pods = t.jobs(a.or(heliosServer))
	case t.has(spotJobColumns):
		pods = t.spotJobs(a.or(spotServer))
	default:
		_, t.err = t.Columns(podColumns...)
	}
	for t.next() {
		p := Pod{Name: t.text("name"), Shape: Shape{
			MilliCPU: t.number("cpu_milli", cluster.MaxAmount), MemoryMiB: t.number("memory_mib", cluster.MaxAmount/BytesMiB),
			GPUs: int32(t.number("num_gpu", cluster.MaxDevices)), MilliGPU: int32(t.number("gpu_milli", WholeGPU)),
			Models: t.text("gpu_spec"),
		}}
		if p.Name == "" {
			t.fail("name is empty, want the pod's name")
		}
		if err := p.Check(); err != nil {
			t.fail("pod %s: %v", p.Name, err)
		}
		p.Created, p.Duration = t.times()
		pods = append(pods, p)
	}
	if t.err == nil && len(pods) == 0 {
		t.fail("no pod")
	}
	return pods, t.err
}

// Check returns an error for a request that no node can serve.
func (s *Shape) Check() error {
	switch {
	case s.MilliCPU < 0 || s.MilliCPU > cluster.MaxAmount || s.MemoryMiB < 0 || s.MemoryMiB > cluster.MaxAmount/BytesMiB:
		return fmt.Errorf("%d milli-CPU and %d MiB, want 0 to %d and to %d", s.MilliCPU, s.MemoryMiB, cluster.MaxAmount, cluster.MaxAmount/BytesMiB)
	case s.GPUs == 0 && s.MilliGPU != 0:
		return fmt.Errorf("%d thousandths of no GPU, want 0", s.MilliGPU)
	case s.GPUs > 0 && (s.MilliGPU < 1 || s.MilliGPU > WholeGPU):
		return fmt.Errorf("%d thousandths of each GPU, want 1 to %d", s.MilliGPU, WholeGPU)
	case s.GPUs > 1 && s.MilliGPU < WholeGPU:
		return fmt.Errorf("%d thousandths of each of %d GPUs, want whole ones: only one GPU can be shared", s.MilliGPU, s.GPUs)
	}
	return nil
}

// table reads a CSV file by the names of its columns. It keeps its first error.
type table struct {
	*dataset.Table
	row []string
	err error
}

// newTable returns the table of a file after its header line. The error about an empty file names the columns.
func newTable(name string, r io.Reader, columns []string) (*table, error) {
	t := &table{Table: dataset.NewTable("gpu: ", name, r)}
	return t, t.ReadHeader(columns...)
}

// next reads a row; it returns false at the end and after an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	if t.row, t.err = t.Next(); errors.Is(t.err, io.EOF) {
		t.row, t.err = nil, nil
	}
	return t.row != nil
}

// text returns the field of a column, or "" if the file has no such column.
func (t *table) text(column string) string {
	i := slices.Index(t.Header, column)
	if i < 0 {
		return ""
	}
	return strings.Clone(t.row[i]) // not a part of the row's memory
}

// number returns the whole number in a column, from 0 to most.
func (t *table) number(column string, most int64) int64 {
	v, err := strconv.ParseInt(t.text(column), 10, 64)
	if err != nil || v < 0 || v > most {
		t.fail("%s is %q, want a whole number from 0 to %d", column, t.text(column), most)
		return 0
	}
	return v
}

// times returns when the pod of the row was created and how long it ran.
func (t *table) times() (created, duration time.Duration) {
	at := map[string]float64{}
	for _, column := range []string{"creation_time", "deletion_time", "scheduled_time"} {
		field := t.text(column)
		if field == "" {
			continue
		}
		v, err := strconv.ParseFloat(field, 64)
		if err != nil || !(v >= 0 && v <= cluster.MaxTime.Seconds()) { // also rejects NaN
			t.fail("%s is %q, want seconds from 0 to %.0f", column, field, cluster.MaxTime.Seconds())
			return 0, 0
		}
		at[column] = v
	}
	start, ok := at["scheduled_time"]
	if !ok {
		start = at["creation_time"]
	}
	return Seconds(at["creation_time"]), Seconds(math.Max(0, at["deletion_time"]-start))
}

// Seconds returns s seconds as a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sinceFirst sorts pods by creation and makes the first one the beginning of the trace.
func sinceFirst(pods []Pod) {
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Created, b.Created) })
	for i := len(pods) - 1; i >= 0; i-- {
		pods[i].Created -= pods[0].Created
	}
}

func (t *table) fail(format string, args ...any) {
	if t.err == nil {
		t.err = t.Errorf(format, args...)
	}
}

// SplitModels returns the models of a gpu_spec, each once.
func SplitModels(spec string) []string {
	var models []string
	for m := range strings.SplitSeq(spec, "|") {
		if m = strings.TrimSpace(m); m != "" && !slices.Contains(models, m) {
			models = append(models, m)
		}
	}
	return models
}
