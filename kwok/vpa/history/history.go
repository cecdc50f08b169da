// Package history reads the usage of a cluster's containers from Prometheus, as upstream's recommender of vertical
// pod autoscaling does with --storage=prometheus: by the same queries, which the same settings change.
package history

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Config says where the history is and what its metrics and labels are called. The comments have upstream's flags.
type Config struct {
	Address      string        // --prometheus-address
	Insecure     bool          // --prometheus-insecure: certificates are not checked
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

	PodLabelsMetric   string // --metric-for-pod-labels: an instant or, with [8d] behind it, a range
	PodLabelPrefix    string // --pod-label-prefix
	PodNamespaceLabel string // --pod-namespace-label
	PodNameLabel      string // --pod-name-label

	Username, Password string // --username, --password
	BearerToken        string // --prometheus-bearer-token; has precedence
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

// A Pod is named by its namespace and name.
type Pod struct{ Namespace, Name string }

// PodHistory is what is known of a pod.
type PodHistory struct {
	Labels     map[string]string            // the last; Prometheus knows their names with _ for other signs
	Containers map[string]*ContainerHistory // by name

	seen model.Time // of the labels
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

// A Reader asks a Prometheus server.
type Reader struct {
	c                  Config
	client             http.Client
	length, resolution model.Duration
}

// NewReader returns an error for settings that are invalid. It does not connect.
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
	if u, err := url.Parse(c.Address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("history: address %q, want a URL such as http://localhost:9090", c.Address)
	}
	return &Reader{c, http.Client{Transport: c.transport()}, length, resolution}, nil
}

// transport returns how requests are sent: with a bearer token, or else with name and password, if there are any.
func (c *Config) transport() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	if c.Insecure {
		base.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	switch {
	case c.BearerToken != "":
		return authorized{base, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.BearerToken) }}
	case c.Username != "" && c.Password != "":
		return authorized{base, func(r *http.Request) { r.SetBasicAuth(c.Username, c.Password) }}
	}
	return base
}

// authorized adds credentials to requests.
type authorized struct {
	base http.RoundTripper
	add  func(*http.Request)
}

// RoundTrip implements [http.RoundTripper].
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	a.add(r)
	return a.base.RoundTrip(r)
}

// Read returns the history of the pods until now: usage by two range queries, and labels by a third query. Pods that
// are gone are among them.
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

// usage adds the samples of a query, whose values times unit are amounts.
func (r *Reader) usage(ctx context.Context, now time.Time, all map[Pod]*PodHistory, query string, unit float64, of func(*ContainerHistory) *[]Sample) error {
	series, err := r.ask(ctx, "query_range", url.Values{
		"query": {query}, "start": {seconds(now.Add(-time.Duration(r.length)))}, "end": {seconds(now)},
		"step": {strconv.FormatFloat(time.Duration(r.resolution).Seconds(), 'f', -1, 64)},
	})
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
	series, err := r.ask(ctx, "query", url.Values{"query": {r.c.PodLabelsMetric}, "time": {seconds(now)}})
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

// ask sends a query and returns the series of its reply; upstream's recommender refuses a vector, which has one
// value of each.
func (r *Reader) ask(ctx context.Context, path string, form url.Values) (series model.Matrix, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("history: %s %s: %w", path, form.Get("query"), err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, r.c.QueryTimeout)
	defer cancel()
	form.Set("timeout", r.c.QueryTimeout.String())
	to, err := url.JoinPath(r.c.Address, "api", "v1", path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var reply struct {
		Status, Error string
		Data          struct {
			ResultType model.ValueType
			Result     json.RawMessage
		}
	}
	switch err := json.NewDecoder(io.LimitReader(resp.Body, mostReply)).Decode(&reply); {
	case reply.Error != "":
		return nil, fmt.Errorf("%s: %s", resp.Status, reply.Error)
	case resp.StatusCode != http.StatusOK:
		return nil, errors.New(resp.Status)
	case err != nil:
		return nil, err
	case reply.Data.ResultType == model.ValVector:
		var now model.Vector
		err := json.Unmarshal(reply.Data.Result, &now)
		for _, s := range now {
			series = append(series, &model.SampleStream{Metric: s.Metric, Values: []model.SamplePair{{Timestamp: s.Timestamp, Value: s.Value}}})
		}
		return series, err
	case reply.Data.ResultType != model.ValMatrix:
		return nil, fmt.Errorf("a reply of type %q, want a matrix or a vector", reply.Data.ResultType)
	}
	return series, json.Unmarshal(reply.Data.Result, &series)
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
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

const mostReply = 1 << 30 // bytes; eight days of 10,000 containers are about 200 MB

// mostAmount is upstream's greatest amount, 1e14.
const mostAmount = 1e14

// amount returns a value as upstream's recommender does: truncated, from 0 to 1e14.
func amount(v float64) int64 {
	if cmp.Compare(v, 0) < 0 { // NaN is less
		return 0
	}
	return int64(min(v, mostAmount))
}
