// Package history reads the usage of a cluster's containers from Prometheus, as upstream's VPA recommender does
// with --storage=prometheus. Its queries are the same, and the same settings change them.
package history

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/kubernasium/kubernasium/kwok/prometheus"
)

// Config says where the history is, and how its metrics and labels are named. The comments name upstream's
// flags.
type Config struct {
	Address      string        // --prometheus-address
	Insecure     bool          // --prometheus-insecure: do not verify certificates
	QueryTimeout time.Duration // --prometheus-query-timeout
	Length       string        // --history-length, such as 8d
	Resolution   string        // --history-resolution, such as 1h

	Job          string // --prometheus-cadvisor-job-name; empty is any
	CPUMetric    string // --history-cpu-metric: cumulative seconds
	MemoryMetric string // --history-memory-metric: bytes
	Namespace    string // --vpa-object-namespace; empty is all

	ContainerNamespaceLabel string // --container-namespace-label
	ContainerPodNameLabel   string // --container-pod-name-label
	ContainerNameLabel      string // --container-name-label

	PodLabelsMetric   string // --metric-for-pod-labels: an instant vector or, with a suffix such as [8d], a range
	PodLabelPrefix    string // --pod-label-prefix
	PodNamespaceLabel string // --pod-namespace-label
	PodNameLabel      string // --pod-name-label

	Username, Password string // --username, --password
	BearerToken        string // --prometheus-bearer-token; takes precedence
}

// DefaultConfig returns upstream's defaults.
func DefaultConfig() Config {
	return Config{
		Address: "http://prometheus.monitoring.svc", QueryTimeout: 5 * time.Minute, Length: "8d", Resolution: "1h",
		Job: "kubernetes-cadvisor", CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
		ContainerNamespaceLabel: "namespace", ContainerPodNameLabel: "pod_name", ContainerNameLabel: "name",
		PodLabelsMetric: `up{job="kubernetes-pods"}`, PodLabelPrefix: "pod_label_", PodNamespaceLabel: "kubernetes_namespace", PodNameLabel: "kubernetes_pod_name",
	}
}

// A Pod is identified by its namespace and name.
type Pod struct{ Namespace, Name string }

// PodHistory is the history of a pod.
type PodHistory struct {
	Labels     map[string]string            // the last ones; Prometheus replaces characters of their names by _
	Containers map[string]*ContainerHistory // by name

	seen model.Time // time of the labels
}

// ContainerHistory has the usage of a container, in the order of time.
type ContainerHistory struct {
	CPU    []Sample // millicores
	Memory []Sample // bytes
}

// A Sample is an amount at an instant.
type Sample struct {
	At     time.Time
	Amount int64
}

// A Reader queries a Prometheus server.
type Reader struct {
	c                  Config
	client             prometheus.Client
	length, resolution model.Duration
}

// NewReader returns an error for invalid settings. It does not connect.
func NewReader(c Config) (*Reader, error) {
	length, err := model.ParseDuration(c.Length)
	if err != nil {
		return nil, fmt.Errorf("history: length %q: %w", c.Length, err)
	}
	resolution, err := model.ParseDuration(c.Resolution)
	if err != nil {
		return nil, fmt.Errorf("history: resolution %q: %w", c.Resolution, err)
	}
	if length == 0 || resolution == 0 || c.QueryTimeout <= 0 {
		return nil, fmt.Errorf("history: length %q, resolution %q and a timeout of %v, want more than 0 of each", c.Length, c.Resolution, c.QueryTimeout)
	}
	client := prometheus.Client{URL: c.Address, Timeout: c.QueryTimeout, Token: c.BearerToken, Username: c.Username, Password: c.Password}
	if err := client.Check(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if c.Insecure {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		client.HTTP = &http.Client{Transport: transport}
	}
	return &Reader{c, client, length, resolution}, nil
}

// Read returns the history of the pods until now, including deleted ones: usage by two range queries, and
// labels by a third query.
func (r *Reader) Read(ctx context.Context, now time.Time) (map[Pod]*PodHistory, error) {
	all := map[Pod]*PodHistory{}
	from := fmt.Sprintf(`%[1]s=~".+", %[2]s!="POD", %[2]s!=""`, r.c.ContainerPodNameLabel, r.c.ContainerNameLabel)
	if r.c.Job != "" {
		from = fmt.Sprintf("job=%q, ", r.c.Job) + from
	}
	if r.c.Namespace != "" {
		from += fmt.Sprintf(", %s=%q", r.c.ContainerNamespaceLabel, r.c.Namespace)
	}
	cpu := fmt.Sprintf("rate(%s{%s}[%s])", r.c.CPUMetric, from, r.c.Resolution)
	memory := fmt.Sprintf("%s{%s}", r.c.MemoryMetric, from)
	return all, errors.Join(
		r.usage(ctx, now, all, cpu, 1000, func(c *ContainerHistory) *[]Sample { return &c.CPU }),
		r.usage(ctx, now, all, memory, 1, func(c *ContainerHistory) *[]Sample { return &c.Memory }),
		r.labels(ctx, now, all),
	)
}

// usage adds the samples of a query. A sample is its value times unit.
func (r *Reader) usage(ctx context.Context, now time.Time, all map[Pod]*PodHistory, query string, unit float64, of func(*ContainerHistory) *[]Sample) error {
	body, err := r.client.QueryRange(ctx, query, now.Add(-time.Duration(r.length)), now, time.Duration(r.resolution))
	series, err := decode(query, body, err)
	if err != nil {
		return err
	}
	for _, s := range series {
		pod, err := named(s.Metric, r.c.ContainerNamespaceLabel, r.c.ContainerPodNameLabel)
		if err != nil {
			return fmt.Errorf("history: query %s: %w", query, err)
		}
		container, ok := s.Metric[model.LabelName(r.c.ContainerNameLabel)]
		if !ok {
			return fmt.Errorf("history: query %s: series %v without a label %s", query, s.Metric, r.c.ContainerNameLabel)
		}
		into := of(get(all, pod).container(string(container)))
		for _, v := range s.Values {
			*into = append(*into, Sample{v.Timestamp.Time(), amount(float64(v.Value) * unit)})
		}
	}
	return nil
}

// labels adds the last labels of the pods.
func (r *Reader) labels(ctx context.Context, now time.Time, all map[Pod]*PodHistory) error {
	body, err := r.client.Query(ctx, r.c.PodLabelsMetric, now)
	series, err := decode(r.c.PodLabelsMetric, body, err)
	if err != nil {
		return err
	}
	for _, s := range series {
		pod, err := named(s.Metric, r.c.PodNamespaceLabel, r.c.PodNameLabel)
		if err != nil {
			return fmt.Errorf("history: query %s: %w", r.c.PodLabelsMetric, err)
		}
		p := get(all, pod)
		if n := len(s.Values); n > 0 && s.Values[n-1].Timestamp > p.seen {
			p.seen, p.Labels = s.Values[n-1].Timestamp, map[string]string{}
			for name, v := range s.Metric {
				if label, ok := strings.CutPrefix(string(name), r.c.PodLabelPrefix); ok {
					p.Labels[label] = string(v)
				}
			}
		}
	}
	return nil
}

// decode returns the series of a query's reply. A vector has one value per series.
func decode(query string, body []byte, err error) (series model.Matrix, _ error) {
	var reply struct {
		Data struct {
			ResultType model.ValueType
			Result     json.RawMessage
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &reply)
	}
	switch kind := reply.Data.ResultType; {
	case err != nil:
	case kind == model.ValVector:
		var now model.Vector
		err = json.Unmarshal(reply.Data.Result, &now)
		for _, s := range now {
			series = append(series, &model.SampleStream{Metric: s.Metric, Values: []model.SamplePair{{Timestamp: s.Timestamp, Value: s.Value}}})
		}
	case kind == model.ValMatrix:
		err = json.Unmarshal(reply.Data.Result, &series)
	default:
		err = fmt.Errorf("a reply of type %q, want a matrix or a vector", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("history: query %s: %w", query, err)
	}
	return series, nil
}

func named(m model.Metric, namespace, name string) (Pod, error) {
	p := Pod{string(m[model.LabelName(namespace)]), string(m[model.LabelName(name)])}
	if p.Namespace == "" || p.Name == "" {
		return p, fmt.Errorf("series %v without labels %s and %s", m, namespace, name)
	}
	return p, nil
}

func get(all map[Pod]*PodHistory, p Pod) *PodHistory {
	if all[p] == nil {
		all[p] = &PodHistory{Containers: map[string]*ContainerHistory{}}
	}
	return all[p]
}

func (p *PodHistory) container(name string) *ContainerHistory {
	if p.Containers[name] == nil {
		p.Containers[name] = &ContainerHistory{}
	}
	return p.Containers[name]
}

// maxAmount is upstream's maximum amount, 1e14.
const maxAmount = 1e14

// amount converts a value as upstream's recommender does: truncated, and limited to 0 … 1e14.
func amount(v float64) int64 {
	if cmp.Compare(v, 0) < 0 { // also 0 for NaN
		return 0
	}
	return int64(min(v, maxAmount))
}
