package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

// schemeDNS is the scheme of a URL for all servers behind a host name, such as a headless Service of Kubernetes.
const schemeDNS = "k8s+dns"

// dialTimeout bounds the time for a connection to one of several servers before the next is tried: packets to a deleted
// pod get no answer.
const dialTimeout = 2 * time.Second

// lookup resolves host names; tests replace it.
var lookup = net.DefaultResolver.LookupHost

// Resolve replaces each URL k8s+dns://name:port by ws://address:port for every address of name, in the order of the
// addresses. It keeps other URLs.
func Resolve(ctx context.Context, urls []string) ([]string, error) {
	var out []string
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		if u.Scheme != schemeDNS {
			out = append(out, raw)
			continue
		}
		if u.Hostname() == "" || u.Port() == "" {
			return nil, fmt.Errorf("client: URL %q, want %s://name:port", raw, schemeDNS)
		}
		addresses, err := lookup(ctx, u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("client: %s: %w", raw, err)
		}
		slices.Sort(addresses)
		port := u.Port()
		u.Scheme = "ws"
		for _, a := range slices.Compact(addresses) {
			u.Host = net.JoinHostPort(a, port)
			out = append(out, u.String())
		}
	}
	return out, nil
}

// A route connects to one of several servers, and to another if that does not answer.
type route struct {
	urls  []string // the client's own server first
	token string
	tls   *tls.Config

	mu sync.Mutex
	at string // the server of the last connection
}

// newRoute returns the route of a client, and whether its frames should be compressed.
func newRoute(url string, opts *Options) (r *route, compress bool, err error) {
	r = &route{token: opts.Token, tls: opts.TLS}
	for i, u := range append([]string{url}, opts.Others...) {
		rest, on, err := compresses(u)
		if err != nil {
			return nil, false, err
		}
		compress = compress || on && i == 0
		r.urls = append(r.urls, rest)
	}
	return r, compress, nil
}

// dial connects to the last server or, if that fails, to the first of the others that answers.
func (r *route) dial(ctx context.Context) (transport, error) {
	urls, err := Resolve(ctx, r.urls)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(urls, r.at); i > 0 {
		urls = slices.Insert(slices.Delete(urls, i, i+1), 0, r.at)
	}
	urls = unique(urls)
	var failures error
	for _, u := range urls {
		t, err := dialFor(ctx, len(urls) > 1, u, r.token, r.tls)
		if err == nil {
			r.at = u
			return t, nil
		}
		failures = errors.Join(failures, err)
		if ctx.Err() != nil || errors.Is(err, ErrUnauthorized) {
			break
		}
	}
	return nil, failures
}

// unique returns urls without duplicates.
func unique(urls []string) []string {
	var out []string
	for _, u := range urls {
		if !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	return out
}

// dialFor is dial, with a time limit if there are other servers.
func dialFor(ctx context.Context, others bool, url, token string, tlsConfig *tls.Config) (transport, error) {
	if others {
		bounded, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		ctx = bounded
	}
	return dial(ctx, url, token, tlsConfig)
}
