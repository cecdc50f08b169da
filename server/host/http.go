package host

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kubernasium/kubernasium/server/session"
	"github.com/kubernasium/kubernasium/server/wire"
)

// Sizes of a WebSocket's buffers. Longer frames bypass them.
const (
	readBuffer  = 8 << 10
	writeBuffer = 32 << 10
)

// Handler returns the HTTP endpoints.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.sessions.Shared.Draining.Load() {
			plain(w, http.StatusServiceUnavailable, "draining")
			return
		}
		plain(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", s.authorized(promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{})))
	mux.Handle("GET /v1/envs", s.authorized(http.HandlerFunc(s.listEnvs)))
	mux.Handle("GET "+wire.Path, s.authorized(http.HandlerFunc(s.upgrade)))
	return mux
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

func (s *Server) listEnvs(w http.ResponseWriter, _ *http.Request) {
	data, err := json.Marshal(map[string]any{"envs": session.Catalog("")})
	if err != nil {
		s.log.Error("encode environments", "err", err)
		plain(w, http.StatusInternalServerError, "internal")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the client may be gone
}

// authorized passes requests with the server's token and an allowed origin to next.
func (s *Server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.tokenOK(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			plain(w, http.StatusUnauthorized, "a bearer token is needed")
		case !s.originOK(r):
			plain(w, http.StatusForbidden, "this origin is not allowed")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Server) tokenOK(r *http.Request) bool {
	if s.cfg.Token == "" {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		for _, p := range websocket.Subprotocols(r) {
			if enc, ok := strings.CutPrefix(p, wire.BearerPrefix); ok {
				b, err := base64.RawURLEncoding.DecodeString(enc)
				if err != nil {
					return false
				}
				given = string(b)
			}
		}
	}
	// Hashes have one length, so that the comparison takes the same time for every token.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.cfg.Token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// originOK allows programs, which send no Origin; pages that the configuration names; and pages of
// this host. Without a token that host must be a loopback name, because an attacker could point any
// other name here.
func (s *Server) originOK(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.cfg.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return s.cfg.Token != "" || IsLoopback(u.Hostname())
}

// IsLoopback reports whether host names this machine's loopback interface.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(websocket.Subprotocols(r), wire.Subprotocol) {
		plain(w, http.StatusBadRequest, "supported subprotocols: "+wire.Subprotocol)
		return
	}
	up := websocket.Upgrader{
		HandshakeTimeout: 10 * time.Second, ReadBufferSize: readBuffer, WriteBufferSize: writeBuffer,
		Subprotocols: []string{wire.Subprotocol},
		CheckOrigin:  func(*http.Request) bool { return true }, // authorized has
	}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		s.log.Debug("upgrade", "err", err)
		return
	}
	c := newConn(s, &wsStream{conn: ws, limit: s.cfg.Limits.MsgIn})
	if !s.add(c) {
		c.close(websocket.CloseGoingAway, "the server stops")
		return
	}
	s.run(c)
}
