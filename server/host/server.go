// Package host serves sessions of the protocol kubernasium.v1 over WebSocket and over unix
// sockets, and HTTP endpoints beside them.
package host

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/server/session"
	"github.com/kubernasium/kubernasium/server/wire"
)

// Config holds the arguments of New.
type Config struct {
	Limits       wire.Limits
	Version      string        // of the program, for welcome
	Guard        guard.Guard   // who may ask over HTTP and WebSocket
	DenyOptions  []string      // options that make rejects, by name
	DenyFiles    bool          // make rejects options that name files
	ReportCauses bool          // send causes of faults to clients, which are all on this machine
	DrainFor     time.Duration // for running requests at Shutdown
	MaxPending   int           // connections that are not authenticated or have not said hello; 0 is DefaultPending
	Log          *slog.Logger

	// Quota returns the quota of the client with the given token, which the guard has accepted. If Quota is nil, clients have none.
	Quota func(token string) *session.Quota

	// Page makes the handler of all paths that the server does not have, which shows metrics and sessions to people;
	// nil shows nothing. Shutdown calls end, which ends the handler's streams.
	Page func(metrics http.Handler, sessions func() []SessionInfo) (page http.Handler, end func())
}

// Server holds the connections of all clients.
type Server struct {
	cfg      Config
	log      *slog.Logger
	sessions *session.Config
	metrics  *prometheus.Registry
	http     *http.Server
	gate     *gate
	packer   *wire.Packer
	page     http.Handler // nil is none
	endPage  func()

	ctx    context.Context // of all requests
	cancel context.CancelFunc
	wg     sync.WaitGroup // connections and accept loops
	mu     sync.Mutex
	conns  map[*conn]struct{}
	leased map[string]*conn // whose sessions outlive them, by session
	unix   []net.Listener
	closed bool
}

// New returns a Server without listeners.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Log, conns: map[*conn]struct{}{}, leased: map[string]*conn{}, gate: newGate(cfg.MaxPending), packer: wire.NewPacker(cfg.Limits.MsgIn)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sessions = &session.Config{
		Limits: cfg.Limits, Server: "kubernasium/" + cfg.Version, DenyOptions: cfg.DenyOptions, DenyFiles: cfg.DenyFiles, ReportCauses: cfg.ReportCauses,
		Entropy: entropy, Now: time.Now, Log: cfg.Log, Shared: &session.Shared{}, Resume: s.resume,
	}
	s.metrics = s.newMetrics()
	if cfg.Page != nil {
		page, end := cfg.Page(promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}), s.Sessions)
		s.page, s.endPage = page, sync.OnceFunc(end)
	}
	s.http = &http.Server{
		Handler: s.Handler(), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, conn)
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.gate.leave(conn)
			}
		},
	}
	return s
}

// entropy returns 53 random bits, which JSON and JavaScript hold exactly.
func entropy() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:]) >> 11
}

// Serve answers HTTP on l until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(gated{l, s.gate}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeTLS is Serve with certificates. WebSocket needs HTTP/1.1, so the configuration offers no other protocol.
func (s *Server) ServeTLS(l net.Listener, cfg *tls.Config) error {
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	s.http.TLSConfig = cfg
	if err := s.http.ServeTLS(gated{l, s.gate}, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// temporary reports whether accept may succeed later: a connection was cut before it was accepted, or no
// descriptor or memory is left.
func temporary(err error) bool {
	return slices.ContainsFunc([]error{syscall.ECONNABORTED, syscall.EINTR, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM},
		func(e error) bool { return errors.Is(err, e) })
}

// ServeUnix accepts connections that carry frames with their lengths, until Shutdown; then it
// returns nil.
func (s *Server) ServeUnix(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return l.Close()
	}
	s.unix = append(s.unix, l)
	s.mu.Unlock()
	var delay time.Duration
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if temporary(err) { // as net/http's Serve does
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.cfg.Log.Error("accept fails; it is tried again", "err", err, "after", delay)
			time.Sleep(delay)
			continue
		}
		if err != nil {
			return err
		}
		delay = 0
		s.gate.enter(nc)
		c := newConn(s, nc, newUnixStream(nc, s.cfg.Limits.MsgIn), nil)
		if !s.add(c) {
			c.close(0, "")
			continue
		}
		go s.run(c)
	}
}

// add registers a connection, unless the server has stopped.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

// run serves a connection that was added.
func (s *Server) run(c *conn) {
	defer s.wg.Done()
	c.serve(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown stops listening, lets running requests finish for as long as Config.DrainFor or
// ctx permits, closes all connections and frees the clients' environments. It returns when all
// goroutines of the connections have ended. Further calls do nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	s.sessions.Shared.Draining.Store(true)
	if s.endPage != nil {
		s.endPage()
	}
	s.mu.Lock()
	s.closed = true
	conns := slices.Collect(maps.Keys(s.conns))
	var err error
	for _, l := range s.unix {
		err = errors.Join(err, l.Close())
	}
	s.unix = nil
	for _, c := range s.leased {
		select {
		case <-c.ended: // nobody resumes it now
			c.cancel()
		default:
		}
	}
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, s.cfg.DrainFor)
	defer cancel()
	var drains sync.WaitGroup
	for _, c := range conns {
		drains.Go(func() { c.drain(s.cfg.DrainFor) })
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel()
	for _, c := range conns {
		c.close(1001, "the server stops")
	}
	drains.Wait()
	<-done
	return errors.Join(err, s.http.Close())
}
