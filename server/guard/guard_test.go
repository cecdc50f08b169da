package guard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGuard: each request is one that a program, an allowed page or a foreign page can make a browser send.
func TestGuard(t *testing.T) {
	type h = map[string]string
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	open, closed := &Guard{Origins: []string{"http://app.example:3000"}}, &Guard{Accept: Only("secret")}
	for _, tc := range []struct {
		name   string
		g      *Guard
		host   string
		body   string
		header h
		want   int // of Protect
		public int
	}{
		{"program", open, "127.0.0.1:8765", "", nil, 200, 200},
		{"program by IPv6", open, "[::1]:8765", "", nil, 200, 200},
		{"program by name", open, "localhost", "{}", h{"Content-Type": "application/json; charset=utf-8"}, 200, 200},
		{"rebound name", open, "evil.example:8765", "", nil, 403, 403},
		{"rebound name, own origin", open, "evil.example", "", h{"Origin": "http://evil.example"}, 403, 403},
		{"name that begins like loopback", open, "127.0.0.1.evil.example", "", nil, 403, 403},
		{"foreign page", open, "127.0.0.1:8765", "", h{"Origin": "http://evil.example"}, 403, 403},
		{"another port", open, "127.0.0.1:8765", "", h{"Origin": "http://127.0.0.1:80"}, 403, 403},
		{"sandboxed page", open, "127.0.0.1:8765", "", h{"Origin": "null"}, 403, 403},
		{"image of a foreign page", open, "127.0.0.1:8765", "", h{"Sec-Fetch-Site": "cross-site"}, 403, 403},
		{"own page", open, "127.0.0.1:8765", "", h{"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}, 200, 200},
		{"listed page", open, "127.0.0.1:8765", "", h{"Origin": "http://app.example:3000", "Sec-Fetch-Site": "cross-site"}, 200, 200},
		{"listed name", open, "app.example:3000", "", nil, 200, 200},
		{"form", open, "127.0.0.1:8765", "a=1", h{"Content-Type": "application/x-www-form-urlencoded"}, 415, 415},
		{"text of a page", open, "127.0.0.1:8765", "{}", h{"Content-Type": "text/plain"}, 415, 415},
		{"no type", open, "127.0.0.1:8765", "{}", nil, 415, 415},
		{"no token", closed, "server.example", "", nil, 401, 200},
		{"wrong token", closed, "server.example", "", h{"Authorization": "Bearer secre"}, 401, 200},
		{"another scheme", closed, "server.example", "", h{"Authorization": "Basic secret"}, 401, 200},
		{"token", closed, "server.example", "", h{"Authorization": "Bearer secret"}, 200, 200},
		{"token of a foreign page", closed, "server.example", "", h{"Authorization": "Bearer secret", "Origin": "http://evil.example"}, 403, 403},
	} {
		for _, x := range []struct {
			handler http.Handler
			want    int
		}{{tc.g.Protect(ok, nil), tc.want}, {tc.g.Public(ok), tc.public}} {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.body))
			r.Host = tc.host
			for k, v := range tc.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			x.handler.ServeHTTP(w, r)
			if w.Code != x.want {
				t.Errorf("%s: status %d, want %d", tc.name, w.Code, x.want)
			}
		}
	}
}
