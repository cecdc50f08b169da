package board

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Sample holds the metrics of a server at a time, by Prometheus' name with labels.
type Sample struct {
	At     float64            `json:"at_s"` // since 1970
	Values map[string]float64 `json:"values"`
}

// figure matches a line of Prometheus' text format.
var figure = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)`)

// recorder is a response writer in memory.
type recorder struct {
	header http.Header
	text   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.text.Write(b) }
func (r *recorder) WriteHeader(int)             {}

// sample reads the server's metrics, except most of the Go runtime's.
func (s *Server) sample() (any, error) {
	r, err := http.NewRequest(http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	w := &recorder{header: http.Header{}}
	s.cfg.Metrics.ServeHTTP(w, r)
	sample := &Sample{float64(time.Now().UnixMilli()) / 1000, map[string]float64{}}
	for _, m := range figure.FindAllStringSubmatch(w.text.String(), -1) {
		if strings.HasPrefix(m[1], "go_") && m[1] != "go_goroutines" {
			continue
		}
		if v, err := strconv.ParseFloat(m[2], 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			sample.Values[m[1]] = v
		}
	}
	return sample, nil
}
