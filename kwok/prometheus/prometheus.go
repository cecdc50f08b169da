// Package prometheus sends range queries to a Prometheus server and returns its replies as they are.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxReply bounds a reply, in bytes.
const maxReply = 1 << 28

// Client asks one server. The zero values of its fields but URL and Timeout are usable.
type Client struct {
	URL     string        // such as http://localhost:9090, or one with a path
	Token   string        // bearer token; empty: none
	Timeout time.Duration // of a reply
}

// QueryRange returns the body of the reply to a range query (/api/v1/query_range). An error has the
// server's own message where it gave one.
//
// Source: Prometheus documentation, "HTTP API", section Range queries.
func (c *Client) QueryRange(ctx context.Context, query string, start, end time.Time, step time.Duration) ([]byte, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("server %q, want a URL such as http://localhost:9090", c.URL)
	}
	u = u.JoinPath("api", "v1", "query_range")
	u.RawQuery = url.Values{
		"query": {query}, "start": {unixSeconds(start)}, "end": {unixSeconds(end)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}.Encode()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxReply {
		return nil, fmt.Errorf("the reply is over %d MiB; ask for a shorter time or fewer series", maxReply>>20)
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
