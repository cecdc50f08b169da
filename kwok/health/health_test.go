package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRegister: statuses and texts are those of kube-apiserver's endpoints.
func TestRegister(t *testing.T) {
	var broken error
	mux := http.NewServeMux()
	fine := Check{"fine", func() error { return nil }}
	Register(mux, []Check{fine}, []Check{fine, {"other", func() error { return broken }}})
	for _, tc := range []struct {
		name   string
		broken error
		path   string
		status int
		body   string
	}{
		{"live", nil, "/livez", 200, "ok"},
		{"ready", nil, "/readyz", 200, "ok"},
		{"verbose", nil, "/readyz?verbose", 200, "[+]ping ok\n[+]fine ok\n[+]other ok\nreadyz check passed\n"},
		{"not ready", errors.New("away"), "/readyz", 500, "[+]ping ok\n[+]fine ok\n[-]other failed: away\nreadyz check failed\n"},
		{"live all the same", errors.New("away"), "/livez", 200, "ok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			broken = tc.broken
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
			if w.Code != tc.status || w.Body.String() != tc.body {
				t.Errorf("GET %s: %d %q, want %d %q", tc.path, w.Code, w.Body, tc.status, tc.body)
			}
		})
	}
}
