//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// httpRequests sends bodies of 32 MB, and requests of foreign pages, to every path of the server.
func httpRequests(p *probe) {
	const size, maxMB, maxCPU = 32 << 20, 500, 2.0
	s := p.serve("", "--board")
	w := p.watch(s.ws)
	time.Sleep(300 * time.Millisecond)
	before := s.status().VmHWM
	bodies := map[string]string{
		"objects": "[" + strings.Repeat("{},", size/3-2) + "{}]", "brackets": strings.Repeat("[", size), "a string": `{"env":"` + strings.Repeat("x", size-12) + `"}`,
		"names": `{` + strings.Repeat(`"a":{},`, size/7-2) + `"a":{}}`, "numbers": `{"policy":[` + strings.Repeat("1,", size/2-10) + "1]}",
	}
	paths := []string{"/healthz", "/readyz", "/metrics", "/v1/envs", "/v1/ws", "/", "/api/episodes", "/api/runs"}
	worst, what := 0.0, ""
	for name, body := range bodies {
		for _, path := range paths {
			cpu := s.metric("process_cpu_seconds_total")
			status, err := call(p, s, http.MethodPost, path, body, "application/json", nil)
			if err == nil && status < 400 {
				p.fail("%s of 32 MB to %s: status %d", name, path, status)
			}
			if used := s.metric("process_cpu_seconds_total") - cpu; used > worst {
				worst, what = used, name+" to "+path
			}
		}
	}
	grown := int64(s.status().VmHWM-before) >> 20
	p.figure("%d bodies of 32 MB to %d paths: at most %.2f s of CPU of %.0f (%s), %d MB of %d more", len(bodies), len(paths), worst, maxCPU, what, grown, maxMB)
	if worst > maxCPU || grown > maxMB {
		p.fail("a body costs too much")
	}
	forged := 0
	for _, path := range paths {
		for _, h := range []http.Header{{"Origin": {"http://evil.example"}}, {"Host": {"evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
			if status, err := call(p, s, http.MethodPost, path, "{}", "application/json", h); p.failOn(err, path) || status != http.StatusForbidden && status != http.StatusMethodNotAllowed {
				p.fail("%v to %s: status %d, want 403", h, path, status)
			}
			if status, err := call(p, s, http.MethodGet, path, "", "", h); p.failOn(err, path) || status != http.StatusForbidden {
				p.fail("GET %s with %v: status %d, want 403", path, h, status)
			}
			forged += 2
		}
	}
	p.figure("%d forged cross-origin requests get 403, or 405 where the method is unknown", forged)
	w.join(p)
	s.stop(0)
}

func call(p *probe, s *server, method, path, body, kind string, h http.Header) (int, error) {
	req, err := http.NewRequestWithContext(p.ctx, method, "http://"+s.addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	req.Header = h.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err // the server may have closed the connection before it has the whole body
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, err
}

// badFiles passes unreadable files in every option that names a file.
func badFiles(p *probe) {
	const within = 100 * time.Millisecond
	fifo, long, garbage := filepath.Join(p.dir, "fifo"), filepath.Join(p.dir, "long"), filepath.Join(p.dir, "garbage.csv")
	if p.failOn(syscall.Mkfifo(fifo, 0o600), "mkfifo") || p.failOn(os.WriteFile(long, []byte("a,b\n"), 0o600), "write") || p.failOn(os.Truncate(long, 300<<20), "truncate") ||
		p.failOn(os.WriteFile(garbage, []byte("a,b\n1,2\n\x00\xff,\"\n"), 0o600), "write") {
		return
	}
	s := p.serve("", "--unix", filepath.Join(p.dir, "s"))
	w := p.watch(s.ws)
	c, err := open(s.unix)
	p.must(err, "open")
	var slow slowest
	options := 0
	for _, spec := range envstest.Own() {
		for _, o := range envs.DescribeOptions(spec.Options) {
			if !o.File {
				continue
			}
			options++
			for _, path := range []string{"/dev/zero", fifo, long, garbage, p.dir, filepath.Join(p.dir, "none")} {
				took := time.Duration(math.MaxInt64)
				for range tries {
					begin := time.Now()
					r, err := c.ask(message{"t": "make", "env": spec.ID, "options": message{o.Name: path}})
					p.must(err, spec.ID)
					if r.Reason != string(wire.InvalidOption) {
						p.fail("%s %s=%s: %s %s, want %s", spec.ID, o.Name, filepath.Base(path), r.Type, r.Reason, wire.InvalidOption)
					}
					if took = min(took, time.Since(begin)); took <= within {
						break
					}
				}
				slow.add(took, fmt.Sprintf("%s %s=%s", spec.ID, o.Name, filepath.Base(path)))
			}
		}
	}
	p.failOn(c.conn.Close(), "close")
	p.figure("a device, a pipe, a line of 300 MB, garbage, a folder and nothing in %d options: INVALID_OPTION", options)
	slow.check(p, "the reply", within)
	w.join(p)
	s.stop(0)
}
