package board

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/server/guard"
)

//go:embed dist
var dist embed.FS

// policy lets the page load its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// contentJSON is the type of all replies of routes but metrics and streams.
const contentJSON = "application/json"

// maxBody bounds the body of a request in bytes.
const maxBody = 1 << 16

// Open opens a policy for environment 0 of v, given a baseline's name or a model's path. closePolicy frees it.
type Open func(ctx context.Context, v *envs.Vec, name string, seed uint64) (p agents.Policy, closePolicy func(), err error)

// Config configures a [Server].
type Config struct {
	Logs   string      // folder of trainings; "": none
	Models []string    // folders to search for models, in addition to Logs
	Guard  guard.Guard // admits visitors; the token may be in the cookie
	Open   Open        // nil: no episodes

	// AllowControl lets visitors start, step, play and fork episodes. Otherwise they can only watch.
	AllowControl bool

	Reports []string      // files of trainer kwok shadow --json, in addition to those in Logs
	Report  *LiveReport   // of the program that serves the page; nil: none
	Cluster Cluster       // a running cluster; nil: none
	Every   time.Duration // interval of reading files and metrics while somebody watches; 0: a second

	// Metrics serves the metrics of the server that the page shows, in Prometheus' text format; nil: none.
	Metrics http.Handler

	// Sessions returns a new list of the sessions of that server; nil: none.
	Sessions func() []SessionInfo
}

// A Server answers the page's requests. It is safe for concurrent use. Close ends its episodes.
type Server struct {
	cfg      Config
	mux      *http.ServeMux
	guarded  http.Handler // mux behind a guard
	episodes episodes
	files    runFiles
	hub      *hub
}

// New returns a Server.
func New(cfg Config) *Server {
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	s := &Server{cfg: cfg, mux: http.NewServeMux()}
	s.hub = newHub(s.find, cfg.Every)
	s.episodes.open = s.open
	s.guarded = cfg.Guard.Protect(setCookie(s.mux), tokenOf)
	files, _ := fs.Sub(dist, "dist") // cannot fail: the name is constant
	s.mux.Handle("GET /", http.FileServerFS(files))
	s.get("/api/page", func(*http.Request) (any, error) { return s.page(), nil })
	s.mux.HandleFunc("GET /api/stream", s.stream)
	s.get("/api/runs", func(*http.Request) (any, error) { return listRuns(cfg.Logs) })
	s.get("/api/runs/{run...}", func(r *http.Request) (any, error) { return s.readRun(r.PathValue("run")) })
	s.get("/api/shadows", func(*http.Request) (any, error) { return s.listReports() })
	s.get("/api/shadows/{report...}", func(r *http.Request) (any, error) { return s.readReport(r.PathValue("report")) })
	if cfg.Cluster != nil {
		s.get("/api/cluster", func(*http.Request) (any, error) { return snapshotOf(cfg.Cluster), nil })
		s.get("/api/cluster/why", s.whyCluster)
		s.get("/api/cluster/pods", func(r *http.Request) (any, error) { return list(cfg.Cluster.PodsOf(r.URL.Query().Get("node"))), nil })
	}
	if cfg.Metrics != nil {
		s.mux.Handle("GET /api/metrics", cfg.Metrics)
	}
	if cfg.Sessions != nil {
		s.get("/api/sessions", func(*http.Request) (any, error) { return s.sessions() })
	}
	s.get("/api/environments", func(*http.Request) (any, error) { return s.environments(), nil })
	s.get("/api/episodes", func(*http.Request) (any, error) { return s.episodes.list(), nil })
	s.get("/api/episodes/{id}", func(r *http.Request) (any, error) { return s.episodes.get(r.PathValue("id")) })
	s.get("/api/episodes/{id}/why", s.why) // also returns the frame of any step
	s.post("/api/episodes", s.begin)
	s.post("/api/episodes/{id}/step", s.step)
	s.post("/api/episodes/{id}/play", s.play)
	s.post("/api/episodes/{id}/fork", s.fork)
	return s
}

// open opens a policy: a baseline or one of the models that the page lists, but no other file.
func (s *Server) open(ctx context.Context, v *envs.Vec, name string, seed uint64) (agents.Policy, func(), error) {
	if s.cfg.Open == nil {
		return nil, nil, &httpError{http.StatusForbidden, "this page plays no episodes; trainer board does"}
	}
	if filepath.Ext(name) == models.Ext && !slices.Contains(s.models()[v.Spec().ID], name) {
		return nil, nil, &httpError{http.StatusNotFound, fmt.Sprintf("%q is none of the models of %s", name, v.Spec().ID)}
	}
	return s.cfg.Open(ctx, v, name, seed)
}

// Close ends streams and episodes.
func (s *Server) Close() error {
	s.EndStreams()
	return s.episodes.close()
}

// PageInfo lists the parts that a page shows.
type PageInfo struct {
	Control  bool `json:"control"`  // visitors may control episodes
	Episodes bool `json:"episodes"` // the page has environments
	Logs     bool `json:"logs"`
	Server   bool `json:"server"`
	Cluster  bool `json:"cluster"`
}

func (s *Server) page() PageInfo {
	return PageInfo{s.cfg.AllowControl && s.cfg.Open != nil, s.cfg.Open != nil, s.cfg.Logs != "", s.cfg.Metrics != nil, s.cfg.Cluster != nil}
}

func (s *Server) get(path string, answer func(*http.Request) (any, error)) {
	s.handle("GET "+path, answer)
}

// post handles a request that changes state, which needs AllowControl.
func (s *Server) post(path string, answer func(*http.Request) (any, error)) {
	s.handle("POST "+path, func(r *http.Request) (any, error) {
		if !s.cfg.AllowControl {
			return nil, &httpError{http.StatusForbidden, "this page is for looking only: start it with --allow-control to play"}
		}
		return answer(r)
	})
}

func (s *Server) handle(pattern string, answer func(*http.Request) (any, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		code := http.StatusOK
		if err != nil {
			code, v = statusOf(err), map[string]string{"error": err.Error()}
		}
		writeJSON(w, code, v)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client has disconnected
}

// httpError is an error with its status.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return e.text }

func statusOf(err error) int {
	var h *httpError
	var unknown *envs.UnknownIDError
	switch {
	case errors.As(err, &h):
		return h.code
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &unknown):
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if accept := s.cfg.Guard.Accept; r.URL.Path == "/" && accept != nil && !accept(tokenOf(r)) {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, needsToken) // the visitor has disconnected
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		s.guarded.ServeHTTP(w, r)
		return
	}
	route := &refusals{ResponseWriter: w}
	s.guarded.ServeHTTP(route, r)
	route.end()
}

// needsToken is the page for visitors without the token, or with a wrong one.
const needsToken = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Kubernasium</title>
</head>
<body><main><h1>This page needs its token</h1>
<p>Open it once as <code>/?token=TOKEN</code>. In place of TOKEN stands what is in the file that <code>--token-file</code> names.</p></main></body>
</html>
`

// tokenCookie holds the token after the first visit of /?token=….
const tokenCookie = "kubernasium_board"

// tokenOf returns the token of a request: from its header, the cookie or, at the first visit of the page, the address.
func tokenOf(r *http.Request) string {
	if t := guard.Bearer(r); t != "" {
		return t
	}
	if c, err := r.Cookie(tokenCookie); err == nil {
		return c.Value
	}
	if r.Method == http.MethodGet && r.URL.Path == "/" {
		return r.URL.Query().Get("token")
	}
	return ""
}

// setCookie answers the first visit of /?token=… by setting the token as a cookie, and redirects to the address without
// it.
func setCookie(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.URL.Query().Get("token")
		if token == "" || r.URL.Path != "/" {
			next.ServeHTTP(w, r)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
}
