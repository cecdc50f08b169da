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

// A Guard decides which requests an HTTP server accepts. Programs send no Origin and pass; a page passes if it comes
// from this server or a listed origin.
type Guard struct {
	Accept  func(token string) bool // reports whether a bearer token is valid; nil: no token is needed
	Certify bool                    // requires a certificate, which the TLS configuration verifies
	Origins []string                // allowed values of the header Origin, in addition to the server's own
}

// Only returns an Accept for one token; nil if token is empty.
func Only(token string) func(string) bool {
	if token == "" {
		return nil
	}
	want := sha256.Sum256([]byte(token))
	return func(given string) bool {
		got := sha256.Sum256([]byte(given)) // hashes have equal lengths, so the comparison takes the same time for every token
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
}

// Asks reports whether clients must authenticate.
func (g *Guard) Asks() bool { return g.Accept != nil || g.Certify }

// Protect passes permitted requests with a valid token and certificate to next. given returns the token of a request;
// nil: that of the header Authorization.
func (g *Guard) Protect(next http.Handler, given func(*http.Request) string) http.Handler {
	if given == nil {
		given = Bearer
	}
	public := g.Public(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Certify && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			http.Error(w, "a client certificate is needed", http.StatusUnauthorized)
			return
		}
		if g.Accept != nil && !g.Accept(given(r)) {
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

// Public passes permitted requests of any client to next.
func (g *Guard) Public(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // empty after an error
		switch {
		case !g.hostOK(r):
			http.Error(w, "this name of the host is not allowed without a token", http.StatusForbidden)
		case !g.originOK(r):
			http.Error(w, "this origin is not allowed", http.StatusForbidden)
		case r.ContentLength != 0 && kind != "application/json": // pages of other origins cannot send this type without permission
			http.Error(w, "Content-Type is not application/json", http.StatusUnsupportedMediaType)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOK rejects host names that an attacker may have pointed to this machine (DNS rebinding): without token or
// certificate the name must be that of the loopback interface or of an allowed origin.
func (g *Guard) hostOK(r *http.Request) bool {
	named := func(origin string) bool { // origins include the scheme
		u, err := url.Parse(origin)
		return err == nil && strings.EqualFold(u.Host, r.Host)
	}
	u := url.URL{Host: r.Host}
	return g.Asks() || IsLoopback(u.Hostname()) || slices.ContainsFunc(g.Origins, named)
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
