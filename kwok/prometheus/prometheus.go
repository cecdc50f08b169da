// Package prometheus queries a Prometheus server and returns its unparsed replies.
package prometheus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxReply limits a reply in bytes; eight days of 10,000 containers are about 200 MB.
const maxReply = 1 << 30

// Client queries one server. All fields but URL and Timeout may be zero.
type Client struct {
	URL                string        // such as http://localhost:9090, or one with a path
	Timeout            time.Duration // of a reply
	Token              string        // bearer token; empty: none. It takes precedence over name and password
	Username, Password string        // sent if neither is empty
	HTTP               *http.Client  // nil: the default one
}

// Check returns an error for a URL that does not name a server.
func (c *Client) Check() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("server %q, want a URL such as http://localhost:9090", c.URL)
	}
	return nil
}

// QueryRange returns the body of the reply to a range query (/api/v1/query_range). An error includes the
// server's message if there is one.
//
// Source: Prometheus documentation, "HTTP API", section Range queries.
func (c *Client) QueryRange(ctx context.Context, query string, start, end time.Time, step time.Duration) ([]byte, error) {
	return c.ask(ctx, "query_range", url.Values{
		"query": {query}, "start": {unixSeconds(start)}, "end": {unixSeconds(end)},
		"step": {seconds(step)},
	})
}

// Query returns the body of the reply to an instant query (/api/v1/query). Errors are as in QueryRange.
func (c *Client) Query(ctx context.Context, query string, at time.Time) ([]byte, error) {
	return c.ask(ctx, "query", url.Values{"query": {query}, "time": {unixSeconds(at)}})
}

func (c *Client) ask(ctx context.Context, path string, form url.Values) ([]byte, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	to, err := url.JoinPath(c.URL, "api", "v1", path)
	if err != nil {
		return nil, err
	}
	form.Set("timeout", seconds(c.Timeout))
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	switch {
	case c.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.Token)
	case c.Username != "" && c.Password != "":
		req.SetBasicAuth(c.Username, c.Password)
	}
	resp, err := cmp.Or(c.HTTP, http.DefaultClient).Do(req)
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

// seconds returns a duration as Prometheus reads it: a number, or a duration without a fraction; 1.5s would be an error.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
