package workload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Objects of Kubernetes' API, reduced to usage and requests.
type (
	metricsObject struct {
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
		Metadata   metricsMeta       `json:"metadata"`
		Timestamp  time.Time         `json:"timestamp"`  // of PodMetrics
		Containers []metricsUsage    `json:"containers"` // likewise
		Spec       struct {          // of a Pod
			Containers []struct {
				Name      string `json:"name"`
				Resources struct {
					Requests map[string]string `json:"requests"`
					Limits   map[string]string `json:"limits"`
				} `json:"resources"`
			} `json:"containers"`
		} `json:"spec"`
	}
	metricsMeta struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	metricsUsage struct {
		Name  string            `json:"name"`
		Usage map[string]string `json:"usage"`
	}
)

// readPodMetrics reads documents of metrics.k8s.io one after the other: each a PodMetricsList, as metrics-server's API
// returns it and `trainer vpa record` stores it, or a PodMetrics. A series is one container, by namespace, pod and
// container. A repeated sample counts once: the server had no newer one. Pods, PodLists and Lists of them among the
// documents give the containers' requests; other kinds are an error.
func readPodMetrics(ins []input, g Grid) ([]Series, Report, error) {
	m := &metricsReader{c: newCollector(g, false), last: map[string]map[int64]bool{}, size: map[string][2]cluster.Resources{}}
	for _, in := range ins {
		dec := json.NewDecoder(in.r)
		for n := 1; ; n++ {
			var raw json.RawMessage
			err := dec.Decode(&raw)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = m.add(raw, "")
			}
			if err != nil {
				return nil, m.c.report, fmt.Errorf("%s: document %d: %w", in.name, n, err)
			}
		}
	}
	for _, t := range m.c.order {
		t.requests, t.limits = m.size[t.id][0], m.size[t.id][1]
	}
	return finished("PodMetrics", m.c)
}

type metricsReader struct {
	c    *collector
	last map[string]map[int64]bool       // times of the samples of each container, in Unix seconds
	size map[string][2]cluster.Resources // requests and limits by container
}

// add reads a document, or an item of a list; of is the kind of items that state none.
func (m *metricsReader) add(raw []byte, of string) error {
	var o metricsObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	o.Kind = cmp.Or(o.Kind, of)
	if items, ok := strings.CutSuffix(o.Kind, "List"); ok {
		for _, item := range o.Items {
			if err := m.add(item, items); err != nil {
				return err
			}
		}
		return nil
	}
	switch o.Kind {
	case "PodMetrics":
		return m.usage(&o)
	case "Pod":
		return m.requests(&o)
	}
	return fmt.Errorf("kind %q, want PodMetricsList, PodMetrics, PodList or Pod", o.Kind)
}

func (o *metricsObject) id(container string) string {
	return promID(map[string]string{"namespace": o.Metadata.Namespace, "pod": o.Metadata.Name, "container": container})
}

func (m *metricsReader) usage(o *metricsObject) error {
	if o.Timestamp.IsZero() {
		return fmt.Errorf("the metrics of pod %s have no timestamp", o.id(""))
	}
	for _, c := range o.Containers {
		id := o.id(c.Name)
		used, err := amounts(c.Usage)
		if err != nil {
			return fmt.Errorf("container %s: %w", id, err)
		}
		at := o.Timestamp.Unix()
		if m.last[id] == nil {
			m.last[id] = map[int64]bool{}
		}
		if m.last[id][at] {
			continue
		}
		m.last[id][at] = true
		if math.IsNaN(used[0]) && math.IsNaN(used[1]) {
			m.c.report.Dropped++
			continue
		}
		if err := m.c.add(id, sample{float64(o.Timestamp.UnixMilli()) / 1000, used[0] * 1000, used[1], 0}); err != nil {
			return err
		}
	}
	return nil
}

func (m *metricsReader) requests(o *metricsObject) error {
	for _, c := range o.Spec.Containers {
		var both [2]cluster.Resources
		for i, list := range []map[string]string{c.Resources.Requests, c.Resources.Limits} {
			v, err := amounts(list)
			if err != nil {
				return fmt.Errorf("container %s: %w", o.id(c.Name), err)
			}
			for r, dst := range []*int64{&both[i].MilliCPU, &both[i].MemoryBytes} {
				if unit := []float64{1000, 1}[r]; !math.IsNaN(v[r]) {
					*dst = round(v[r] * unit)
				}
			}
		}
		m.size[o.id(c.Name)] = both
	}
	return nil
}

// amounts reads cores and bytes of a list of resources; a missing one is NaN.
func amounts(list map[string]string) (v [2]float64, err error) {
	for i, name := range []string{"cpu", "memory"} {
		v[i] = math.NaN()
		text, ok := list[name]
		if !ok {
			continue
		}
		if v[i], err = ParseQuantity(text); err != nil {
			return v, fmt.Errorf("%s: %w", name, err)
		}
		if v[i] < 0 || v[i] > maxAmount {
			return v, fmt.Errorf("%s is %q, want 0 to %d", name, text, maxAmount)
		}
	}
	return v, nil
}
