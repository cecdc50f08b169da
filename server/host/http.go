package host

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kubernasium/kubernasium/server/guard"
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
	g := &s.cfg.Guard
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", g.Public(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })))
	mux.Handle("GET /readyz", g.Public(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.sessions.Shared.Draining.Load() {
			plain(w, http.StatusServiceUnavailable, "draining")
			return
		}
		plain(w, http.StatusOK, "ok")
	})))
	mux.Handle("GET /metrics", s.protected(g, promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}).ServeHTTP))
	mux.Handle("GET /v1/envs", s.protected(g, s.listEnvs))
	mux.Handle("GET "+wire.Path, s.protected(g, s.upgrade))
	if s.page != nil { // with a guard of its own, which knows its cookie
		mux.Handle("GET /", s.page)
		mux.Handle("POST /api/", s.page)
	}
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

// peerKey is the key of a request's connection in its context.
type peerKey struct{}

// protected passes requests that the guard permits to next.
func (s *Server) protected(g *guard.Guard, next http.HandlerFunc) http.Handler {
	return g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(peerKey{}).(net.Conn); ok && g.Asks() {
			s.gate.leave(conn)
		}
		next(w, r)
	}), token)
}

// token returns the token of a request, which browsers can only give as a subprotocol.
func token(r *http.Request) string {
	if given := guard.Bearer(r); given != "" {
		return given
	}
	for _, p := range websocket.Subprotocols(r) {
		if enc, ok := strings.CutPrefix(p, wire.BearerPrefix); ok {
			if b, err := base64.RawURLEncoding.DecodeString(enc); err == nil {
				return string(b)
			}
		}
	}
	return ""
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(websocket.Subprotocols(r), wire.Subprotocol) {
		plain(w, http.StatusBadRequest, "supported subprotocols: "+wire.Subprotocol)
		return
	}
	var quota *session.Quota
	if s.cfg.Quota != nil {
		if quota = s.cfg.Quota(token(r)); quota == nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			plain(w, http.StatusUnauthorized, "the token has been withdrawn")
			return
		}
	}
	up := websocket.Upgrader{
		HandshakeTimeout: 10 * time.Second, ReadBufferSize: readBuffer, WriteBufferSize: writeBuffer,
		Subprotocols: []string{wire.Subprotocol},
		CheckOrigin:  func(*http.Request) bool { return true }, // guard has
	}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		s.log.Debug("upgrade", "err", err)
		return
	}
	c := newConn(s, ws.NetConn(), &wsStream{conn: ws, limit: s.cfg.Limits.MsgIn}, quota)
	if !s.add(c) {
		c.close(websocket.CloseGoingAway, "the server stops")
		return
	}
	s.run(c)
}
