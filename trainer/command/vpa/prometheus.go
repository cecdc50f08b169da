package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// prometheusToken names the environment variable with the bearer token for Prometheus.
const prometheusToken = "PROMETHEUS_TOKEN"

// prometheusReplyMost bounds a reply, in bytes.
const prometheusReplyMost = 1 << 28

// prometheusConfig says what to ask a Prometheus server.
type prometheusConfig struct {
	url        string
	queries    []string
	start, end string
	timeout    time.Duration
}

func (c *prometheusConfig) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.url, "prometheus", "", "Prometheus server to query, such as http://localhost:9090")
	f.StringArrayVar(&c.queries, "query", nil, `range query: one whose series have a label resource="cpu" or "memory", or two, of CPU in cores and of memory in bytes`)
	f.StringVar(&c.start, "start", "", "first instant of the queries, in RFC 3339 or Unix seconds (default: a day before the end)")
	f.StringVar(&c.end, "end", "", "last instant (default: now)")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "longest wait for a reply")
}

// read asks the server and reads its replies.
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
	var replies [][]byte
	for _, q := range c.queries {
		reply, err := c.ask(ctx, q, start, end, g.Interval)
		if err != nil {
			return nil, workload.Report{}, fmt.Errorf("query %q: %w", q, err)
		}
		replies = append(replies, reply)
	}
	return workload.ReadPrometheus(c.url, replies, g)
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

// ask sends one range query and returns the body of the reply.
func (c *prometheusConfig) ask(ctx context.Context, query string, start, end time.Time, step time.Duration) ([]byte, error) {
	u, err := url.Parse(c.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--prometheus %q, want a URL such as http://localhost:9090", c.url)
	}
	u = u.JoinPath("api", "v1", "query_range")
	u.RawQuery = url.Values{
		"query": {query}, "start": {unixSeconds(start)}, "end": {unixSeconds(end)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}.Encode()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if token := os.Getenv(prometheusToken); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, prometheusReplyMost+1))
	if err != nil {
		return nil, err
	}
	if len(body) > prometheusReplyMost {
		return nil, fmt.Errorf("the reply is over %d MiB; ask for a shorter time or fewer series", prometheusReplyMost>>20)
	}
	if resp.StatusCode != http.StatusOK {
		var reply struct{ Error string }
		if json.Unmarshal(body, &reply) == nil && reply.Error != "" {
			return nil, fmt.Errorf("%s: %s", resp.Status, reply.Error)
		}
		return nil, errors.New(resp.Status)
	}
	return body, nil
}

func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
