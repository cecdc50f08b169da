// Package deployments draws streams of deployments and the nodes for them, or reads them from a file.
package deployments

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset"
)

// MaxReplicas is the maximum number of replicas of a deployment.
const MaxReplicas = 1000

// Deployment is a number of equal pods that arrive together.
type Deployment struct {
	Name     string
	Replicas int
	Requests cluster.Resources
}

// deploymentColumns are the required columns of a file, in any order and among others.
var deploymentColumns = []string{"name", "pod_count", "cpu_request", "mem_request"}

// Read reads the file of a run of the source: CSV with a header, one deployment in a row, amounts in the notation of
// Kubernetes ("1000m", "2.0Gi"). Errors name the line.
func Read(path string) ([]Deployment, error) {
	return dataset.ReadFile(path, parse)
}

func parse(name string, r io.Reader) ([]Deployment, error) {
	t, err := dataset.Open("deployments: ", name, r)
	if err != nil {
		return nil, err
	}
	at, err := t.Columns(deploymentColumns...)
	if err != nil {
		return nil, err
	}
	var list []Deployment
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		d, err := parseDeployment(row[at[0]], row[at[1]], row[at[2]], row[at[3]])
		if err != nil {
			return nil, t.Errorf("%w", err)
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, t.Errorf("no deployment, want at least one")
	}
	return list, nil
}

func parseDeployment(name, count, cpu, memory string) (Deployment, error) {
	d := Deployment{Name: name}
	var err error
	if d.Replicas, err = strconv.Atoi(count); err != nil || d.Replicas < 1 || d.Replicas > MaxReplicas {
		return d, fmt.Errorf("pod_count is %q, want 1 to %d", count, MaxReplicas)
	}
	if d.Requests.MilliCPU, err = parseQuantity(cpu, core); err != nil {
		return d, fmt.Errorf("cpu_request: %w", err)
	}
	if d.Requests.MemoryBytes, err = parseQuantity(memory, 1); err != nil {
		return d, fmt.Errorf("mem_request: %w", err)
	}
	return d, nil
}

// suffixes of quantities, longer ones first.
var suffixes = []struct {
	text  string
	scale float64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"", 1}}

// parseQuantity returns a Kubernetes quantity in units of 1/unit, rounded up as Kubernetes does.
func parseQuantity(text string, unit float64) (int64, error) {
	for _, s := range suffixes {
		number, ok := strings.CutSuffix(text, s.text)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if v = math.Ceil(v * s.scale * unit); err != nil || !(v >= 0 && v <= float64(cluster.MaxAmount)) {
			break
		}
		return int64(v), nil
	}
	return 0, fmt.Errorf("quantity %q, want one such as 500m, 2 or 1.5Gi", text)
}
