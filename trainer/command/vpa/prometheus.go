package vpa

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/kwok/prometheus"
)

// prometheusToken names the environment variable with the bearer token for Prometheus.
const prometheusToken = "PROMETHEUS_TOKEN"

// prometheusConfig selects a Prometheus server and its data.
type prometheusConfig struct {
	prometheus.Client
	queries    []string
	start, end string
}

func (c *prometheusConfig) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.URL, "prometheus", "", "Prometheus server to query, such as http://localhost:9090")
	f.StringArrayVar(&c.queries, "query", nil, `range query: one whose series have a label resource="cpu" or "memory", or two, of CPU in cores and of memory in bytes`)
	f.StringVar(&c.start, "start", "", "start of the queries, in RFC 3339 or Unix seconds (default: a day before the end)")
	f.StringVar(&c.end, "end", "", "end of the queries (default: now)")
	f.DurationVar(&c.Timeout, "timeout", time.Minute, "timeout of a reply")
}

// read queries the server and reads its replies.
func (c *prometheusConfig) read(ctx context.Context, g workload.Grid) ([]workload.Series, workload.Report, error) {
	if n := len(c.queries); n < 1 || n > 2 {
		return nil, workload.Report{}, fmt.Errorf("%d of --query, want one or two", n)
	}
	end, err := instant(c.end, time.Now())
	if err != nil {
		return nil, workload.Report{}, fmt.Errorf("--end: %w", err)
	}
	start, err := instant(c.start, end.Add(-24*time.Hour))
	if err != nil {
		return nil, workload.Report{}, fmt.Errorf("--start: %w", err)
	}
	if !start.Before(end) {
		return nil, workload.Report{}, fmt.Errorf("--start %v is not before --end %v", start, end)
	}
	c.Token = os.Getenv(prometheusToken)
	var replies [][]byte
	for _, q := range c.queries {
		reply, err := c.QueryRange(ctx, q, start, end, g.Interval)
		if err != nil {
			return nil, workload.Report{}, fmt.Errorf("query %q: %w", q, err)
		}
		replies = append(replies, reply)
	}
	return workload.ReadPrometheus(c.URL, replies, g)
}

func instant(text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return time.UnixMilli(int64(s * 1000)), nil
	}
	return time.Parse(time.RFC3339, text)
}
