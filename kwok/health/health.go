// Package health serves /livez and /readyz of a long-running program, as Kubernetes' components do.
package health

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// A Check is a named condition.
type Check struct {
	Name string
	Err  func() error // returns nil while the condition holds
}

// ErrUnsynced is returned by checks until the caches hold the API server's objects.
var ErrUnsynced = errors.New("the API server's objects are not listed yet")

// Register adds GET /livez and /readyz to mux. They return 200 while all checks pass, and 500 otherwise; then
// Kubernetes restarts the container, or sends it no requests. With ?verbose, or if a check fails, the body has
// a line for each check: [+]NAME ok, or [-]NAME failed: REASON.
func Register(mux *http.ServeMux, live, ready []Check) {
	mux.HandleFunc("GET /livez", answer("livez", live))
	mux.HandleFunc("GET /readyz", answer("readyz", ready))
}

func answer(name string, checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		fmt.Fprintln(&text, "[+]ping ok")
		status, verdict := http.StatusOK, "passed"
		for _, c := range checks {
			if err := c.Err(); err != nil {
				fmt.Fprintf(&text, "[-]%s failed: %v\n", c.Name, err)
				status, verdict = http.StatusInternalServerError, "failed"
				continue
			}
			fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
		}
		fmt.Fprintf(&text, "%s check %s\n", name, verdict)
		body := text.String()
		if _, verbose := r.URL.Query()["verbose"]; status == http.StatusOK && !verbose {
			body = "ok"
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may have disconnected
	}
}
