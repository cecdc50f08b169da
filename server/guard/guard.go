// Package guard protects HTTP servers on this machine from web pages and from clients without a token.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Guard decides which requests an HTTP server answers. Programs send no Origin and pass; a page passes if it is of
// this server or listed.
type Guard struct {
	Token   string   // bearer token; empty asks for none
	Origins []string // values of the header Origin that are allowed beside the server's own
}

// Protect passes permitted requests with the token to next. given returns the token of a request; nil takes the
// header Authorization.
func (g *Guard) Protect(next http.Handler, given func(*http.Request) string) http.Handler {
	if given == nil {
		given = Bearer
	}
	public := g.Public(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Hashes have one length, so that the comparison takes the same time for every token.
		a, b := sha256.Sum256([]byte(given(r))), sha256.Sum256([]byte(g.Token))
		if g.Token != "" && subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		public.ServeHTTP(w, r)
	})
}

// Bearer returns the token of the header Authorization; "" if there is none.
func Bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

// Public passes permitted requests to next, with or without the token.
func (g *Guard) Public(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // empty after an error
		switch {
		case !g.hostOK(r):
			http.Error(w, "this name of the host is not allowed without a token", http.StatusForbidden)
		case !g.originOK(r):
			http.Error(w, "this origin is not allowed", http.StatusForbidden)
		case r.ContentLength != 0 && kind != "application/json": // which no form and no page can send unasked
			http.Error(w, "Content-Type is not application/json", http.StatusUnsupportedMediaType)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOK rejects names that an attacker may have pointed to this machine: without a token the name must be of the
// loopback interface, or that of an allowed origin.
func (g *Guard) hostOK(r *http.Request) bool {
	named := func(origin string) bool { // origins have a scheme before the host
		u, err := url.Parse(origin)
		return err == nil && strings.EqualFold(u.Host, r.Host)
	}
	u := url.URL{Host: r.Host}
	return g.Token != "" || IsLoopback(u.Hostname()) || slices.ContainsFunc(g.Origins, named)
}

func (g *Guard) originOK(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Sec-Fetch-Site") != "cross-site"
	}
	u, err := url.Parse(origin)
	return slices.Contains(g.Origins, origin) || err == nil && strings.EqualFold(u.Host, r.Host)
}

// IsLoopback reports whether host names this machine's loopback interface.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
