package kwok

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/kwok/health"
	"github.com/kubernasium/kubernasium/kwok/lease"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

// runRecommender runs r until ctx ends; with elect, only while it holds its lease in a namespace.
func runRecommender(ctx context.Context, r *vpa.Recommender, elect bool, namespace string, interval time.Duration, total *vpa.Report) error {
	add := func(one vpa.Report) { total.Add(one) }
	if !elect {
		return r.Run(ctx, interval, add)
	}
	id, err := identity()
	if err != nil {
		return err
	}
	return r.Lead(ctx, lease.Lease{Namespace: namespace, Identity: id}, interval, add)
}

// serveHealth serves /livez and /readyz, the health of r, at an address until Close.
func serveHealth(address string, r *vpa.Recommender) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	live, ready := r.Checks()
	health.Register(mux, live, ready)
	return serve(l, mux), nil
}

// server serves HTTP.
type server struct {
	http  *http.Server
	ended chan error
}

// serve serves h at l until Close.
func serve(l net.Listener, h http.Handler) *server {
	s := &server{&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}, make(chan error, 1)}
	go func() { s.ended <- s.http.Serve(l) }()
	return s
}

// Close implements [io.Closer].
func (s *server) Close() error {
	err := s.http.Close()
	if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// identity returns a name that no other process has.
func identity() (string, error) {
	host, err := os.Hostname()
	return host + "_" + strconv.Itoa(os.Getpid()) + "_" + strconv.FormatInt(time.Now().UnixNano(), 36), err
}
