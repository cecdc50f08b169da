package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// promReply is Prometheus' reply to a range query.
type promReply struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string `json:"metric"`
			Values []promValue       `json:"values"`
		} `json:"result"`
	} `json:"data"`
}

// promValue is a pair of a time in seconds and a number in quotes.
type promValue struct{ at, v float64 }

func (p *promValue) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[0], &p.at); err != nil {
		return fmt.Errorf("time %s: %w", pair[0], err)
	}
	var text string
	if err := json.Unmarshal(pair[1], &text); err != nil {
		return fmt.Errorf("value %s: %w", pair[1], err)
	}
	var err error
	p.v, err = strconv.ParseFloat(text, 64)
	return err
}

// ReadPrometheus reads Prometheus' replies to range queries (/api/v1/query_range): CPU in cores and memory in bytes of
// one or more containers. The label resource ("cpu" or "memory") says which of the two a series is. Without the label
// it is the series' name, if it contains "cpu" or "memory", or otherwise the place of its reply: the first is CPU, the
// second memory. Series with equal namespace, pod and container belong to one container. ReadPrometheus omits missing
// values, which Prometheus writes as NaN.
func ReadPrometheus(name string, replies [][]byte, g Grid) ([]Series, Report, error) {
	c := newCollector(g, true)
	var parts [2]map[string][]promValue // of CPU and of memory, by container
	for r := range parts {
		parts[r] = map[string][]promValue{}
	}
	var order []string
	for i, reply := range replies {
		var p promReply
		if err := json.Unmarshal(reply, &p); err != nil {
			return nil, c.report, fmt.Errorf("%s: reply %d: %w", name, i+1, err)
		}
		if p.Status != "success" {
			return nil, c.report, fmt.Errorf("%s: reply %d: status %q: %s", name, i+1, p.Status, p.Error)
		}
		if p.Data.ResultType != "matrix" {
			return nil, c.report, fmt.Errorf("%s: reply %d: result of type %q, want matrix, which range queries give", name, i+1, p.Data.ResultType)
		}
		for _, s := range p.Data.Result {
			r, err := promResource(s.Metric, i, len(replies))
			if err != nil {
				return nil, c.report, fmt.Errorf("%s: reply %d: %w", name, i+1, err)
			}
			id := promID(s.Metric)
			if parts[r][id] != nil {
				return nil, c.report, fmt.Errorf("%s: reply %d: two series of %s for %q; sum them in the query", name, i+1, resourceNames[r], id)
			}
			if !slices.Contains(order, id) {
				order = append(order, id)
			}
			parts[r][id] = s.Values
		}
	}
	for _, id := range order {
		if err := addProm(c, id, parts[0][id], parts[1][id]); err != nil {
			return nil, c.report, wrap(name, err)
		}
	}
	return finished(name, c)
}

var resourceNames = [2]string{"CPU", "memory"}

func promResource(metric map[string]string, reply, replies int) (int, error) {
	for _, label := range []string{metric["resource"], metric["__name__"]} {
		switch l := strings.ToLower(label); {
		case strings.Contains(l, "cpu"):
			return 0, nil
		case strings.Contains(l, "memory"):
			return 1, nil
		}
	}
	if replies == 2 {
		return reply, nil
	}
	return 0, fmt.Errorf("series %v: neither label resource nor name says whether it is cpu or memory; "+
		"set the label, or give two queries, of CPU and of memory", metric)
}

func promID(metric map[string]string) string {
	var parts []string
	for _, label := range []string{"namespace", "pod", "container"} {
		if v := metric[label]; v != "" {
			parts = append(parts, v)
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, "/")
}

// addProm merges the two series of a container by time.
func addProm(c *collector, id string, cpu, mem []promValue) error {
	for i, j := 0, 0; i < len(cpu) || j < len(mem); {
		s := sample{cpu: math.NaN(), mem: math.NaN()}
		takeCPU := i < len(cpu) && (j == len(mem) || cpu[i].at <= mem[j].at)
		takeMem := j < len(mem) && (i == len(cpu) || mem[j].at <= cpu[i].at)
		if takeCPU {
			s.seconds, s.cpu = cpu[i].at, cpu[i].v*1000
			i++
		}
		if takeMem {
			s.seconds, s.mem = mem[j].at, mem[j].v
			j++
		}
		if math.IsNaN(s.cpu) && math.IsNaN(s.mem) {
			c.report.Dropped++
			continue
		}
		if err := c.add(id, s); err != nil {
			return err
		}
	}
	return nil
}
