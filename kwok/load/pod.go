package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

const (
	registerEvery   = time.Second // between attempts to register
	registerTimeout = 3 * time.Second
	shutdownTimeout = 5 * time.Second
)

// Loader uses CPU and memory as its target demands.
type Loader interface {
	Set(t Target) error
	Target() (Target, error) // the current target, and its error
}

var _ Loader = (*Stress)(nil)

// PodConfig configures a stress pod.
type PodConfig struct {
	Server   string // URL of the utilisation server
	Hostname string // name under which it registers
	Listen   string // address at which it accepts targets
	NamePort bool   // send the port, so that the server calls back at this address instead of the name
	Load     Loader
}

// RunPod registers a stress pod and applies the target of the current step, and then each target from GET
// /?ram=MiB&cpu=m, until ctx ends. It retries the registration until the server answers.
func RunPod(ctx context.Context, c PodConfig) error {
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: podHandler(c.Load), ReadHeaderTimeout: registerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		_ = srv.Shutdown(ctx) // the process ends
	}()
	port := 0
	if c.NamePort {
		port = l.Addr().(*net.TCPAddr).Port
	}
	for {
		t, err := Register(ctx, c.Server, c.Hostname, port, "")
		if err == nil {
			if err := c.Load.Set(t); err != nil {
				return err
			}
			break
		}
		if errors.Is(err, errNoWorkload) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-time.After(registerEvery):
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// errNoWorkload is returned if the server has no workload for the pod.
var errNoWorkload = errors.New("load: the server has no workload for this pod")

// Register registers a pod and returns its target of the current step. With a port, the server sends targets to
// that port and path, at the address that the call comes from.
func Register(ctx context.Context, server, hostname string, port int, path string) (Target, error) {
	address := strings.TrimSuffix(server, "/") + "/metrics/" + url.PathEscape(hostname) + "/"
	if port > 0 {
		address += "?" + url.Values{"port": {strconv.Itoa(port)}, "path": {path}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Target{}, err
	}
	resp, err := newClient(registerTimeout).Do(req)
	if err != nil {
		return Target{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return Target{}, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return Target{}, fmt.Errorf("%w: %s", errNoWorkload, strings.TrimSpace(string(text)))
	default:
		return Target{}, fmt.Errorf("load: register %s: status %d: %s", hostname, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	var t Target
	return t, json.Unmarshal(text, &t)
}

// podHandler accepts targets, and replies when the loader has applied them. GET / without parameters returns
// the current target.
func podHandler(l Loader) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			t, err := parseTarget(r.URL.Query())
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if err := l.Set(t); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		t, err := l.Target()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		reply(w, t)
	})
	return mux
}

// parseTarget reads the target from a query.
func parseTarget(q url.Values) (Target, error) {
	ram, errRAM := strconv.ParseInt(q.Get("ram"), 10, 64)
	cpu, errCPU := strconv.ParseInt(q.Get("cpu"), 10, 64)
	if errRAM != nil || errCPU != nil || ram < 0 || cpu < 0 || ram > maxTarget || cpu > maxTarget {
		return Target{}, fmt.Errorf("ram is %q and cpu %q, want MiB and millicores", q.Get("ram"), q.Get("cpu"))
	}
	return Target{RAM: ram, CPU: cpu}, nil
}

// TargetsOf converts usage to targets; it rounds memory up to whole MiB.
func TargetsOf(used []cluster.Resources) []Target {
	all := make([]Target, len(used))
	for i, u := range used {
		all[i] = Target{RAM: (u.MemoryBytes + mib - 1) / mib, CPU: u.MilliCPU}
	}
	return all
}
