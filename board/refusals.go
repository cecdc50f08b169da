package board

import (
	"net/http"
	"strings"
)

// refusals turns the errors of handlers that reply with text, such as those of unknown routes and of the guard, into the
// page's JSON. end writes such an error.
type refusals struct {
	http.ResponseWriter
	code int // of an error that is text; 0: none
	text strings.Builder
}

// WriteHeader implements [http.ResponseWriter].
func (w *refusals) WriteHeader(code int) {
	if code >= http.StatusBadRequest && w.Header().Get("Content-Type") != contentJSON {
		w.code = code
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (w *refusals) Write(b []byte) (int, error) {
	if w.code != 0 {
		return w.text.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves [http.ResponseController], by which streams flush.
func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *refusals) end() {
	if w.code != 0 {
		writeJSON(w.ResponseWriter, w.code, map[string]string{"error": strings.TrimSpace(w.text.String())})
	}
}
