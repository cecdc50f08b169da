package board

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxReport bounds a report in bytes.
const maxReport = 64 << 20

// ReportInfo identifies a report of trainer kwok shadow.
type ReportInfo struct {
	ID       string    `json:"id"` // its path
	Modified time.Time `json:"modified"`
}

// A LiveReport is a report that its program keeps up to date. The zero value is empty. It is safe for concurrent use.
type LiveReport struct {
	mu   sync.Mutex
	text json.RawMessage
	at   time.Time
}

// liveID is the name of a LiveReport on the page.
const liveID = "this run"

// Set sets the report, JSON of trainer kwok shadow, and the time when it was made. It retains text.
func (r *LiveReport) Set(text []byte, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text, r.at = text, at
}

// get returns the newest report; its text is nil if there is none.
func (r *LiveReport) get() (json.RawMessage, time.Time) {
	if r == nil {
		return nil, time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text, r.at
}

// listReports finds the reports, newest first: that of the program, those of the configuration, and files shadow*.json
// below the logs.
func (s *Server) listReports() ([]ReportInfo, error) {
	reports := []ReportInfo{}
	add := func(id, path string) {
		if info, err := os.Stat(path); err == nil {
			reports = append(reports, ReportInfo{id, info.ModTime()})
		}
	}
	for _, path := range s.cfg.Reports {
		add(path, path)
	}
	if s.cfg.Logs != "" {
		err := filepath.WalkDir(s.cfg.Logs, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "shadow") || filepath.Ext(path) != ".json" {
				return err
			}
			id, err := filepath.Rel(s.cfg.Logs, path)
			add(filepath.ToSlash(id), path)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if text, at := s.cfg.Report.get(); text != nil {
		reports = append(reports, ReportInfo{liveID, at})
	}
	slices.SortFunc(reports, func(a, b ReportInfo) int { return b.Modified.Compare(a.Modified) })
	return reports, nil
}

// readReport returns a report that listReports finds.
func (s *Server) readReport(id string) (any, error) {
	if text, _ := s.cfg.Report.get(); text != nil && id == liveID {
		return text, nil
	}
	reports, err := s.listReports()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(reports, func(r ReportInfo) bool { return r.ID == id }) {
		return nil, &httpError{http.StatusNotFound, "no report " + strconv.Quote(id)}
	}
	path := id
	if !slices.Contains(s.cfg.Reports, id) {
		path = filepath.Join(s.cfg.Logs, filepath.FromSlash(id))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > maxReport {
		return nil, fmt.Errorf("report %q: %w", id, errors.Join(err, fmt.Errorf("want a file of at most %d MiB", maxReport>>20)))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var shape struct {
		Recorded *json.RawMessage   `json:"recorded"`
		Policies *[]json.RawMessage `json:"policies"`
	}
	if err := json.Unmarshal(text, &shape); err != nil || shape.Recorded == nil || shape.Policies == nil {
		return nil, fmt.Errorf("%q is no report: want what trainer kwok shadow --json prints", id)
	}
	return json.RawMessage(text), nil
}
