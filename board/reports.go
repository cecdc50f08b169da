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
	"time"
)

// maxReport bounds a report in bytes.
const maxReport = 64 << 20

// ReportInfo names a report of trainer kwok shadow.
type ReportInfo struct {
	ID       string    `json:"id"` // its path
	Modified time.Time `json:"modified"`
}

// listReports finds the reports: those that the configuration names, and files shadow*.json below the logs, newest first.
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
	slices.SortFunc(reports, func(a, b ReportInfo) int { return b.Modified.Compare(a.Modified) })
	return reports, nil
}

// readReport returns a report that listReports finds.
func (s *Server) readReport(id string) (any, error) {
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
