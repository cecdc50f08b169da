package board

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
)

// A tail follows a CSV file of numbers to which a training appends: each call of readNew reads only new rows. An
// incomplete row is left for the next call. A rewritten file is read from its start.
type tail struct {
	path  string
	at    int64  // bytes read
	head  []byte // the first line, to detect a rewritten file
	last  []byte // the last bytes read, likewise
	table Table
	began int // number of restarts from the file's start
}

// lastBytes is the number of last bytes compared.
const lastBytes = 64

// readNew reads new rows and reports whether there were any changes.
func (t *tail) readNew() (bool, error) {
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		had := t.at > 0
		if had {
			t.reset()
		}
		return had, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if t.at > 0 && (info.Size() < t.at || !t.same(f)) {
		t.reset()
	}
	if info.Size() == t.at {
		return false, nil
	}
	text := make([]byte, info.Size()-t.at)
	n, err := f.ReadAt(text, t.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	end := bytes.LastIndexByte(text[:n], '\n') + 1
	if end == 0 {
		return false, nil
	}
	return true, t.add(text[:end])
}

func (t *tail) reset() { *t = tail{path: t.path, began: t.began + 1} }

// same reports whether the file still begins with the part read, judging by its first line and its end.
func (t *tail) same(f *os.File) bool {
	head, last := make([]byte, len(t.head)), make([]byte, len(t.last))
	_, err1 := f.ReadAt(head, 0)
	_, err2 := f.ReadAt(last, t.at-int64(len(last)))
	return err1 == nil && err2 == nil && bytes.Equal(head, t.head) && bytes.Equal(last, t.last)
}

// add parses whole lines.
func (t *tail) add(text []byte) error {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1 // a training adds columns as it logs more metrics
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		return err
	}
	if t.at == 0 {
		t.head = bytes.Clone(text[:bytes.IndexByte(text, '\n')+1])
	}
	t.at += int64(len(text))
	t.last = bytes.Clone(text[max(0, len(text)-lastBytes):])
	if t.table.Columns == nil && len(rows) > 0 {
		t.table = numbers(rows)
		return nil
	}
	for i, column := range numbers(append([][]string{t.table.Columns}, rows...)).Values {
		t.table.Values[i] = append(t.table.Values[i], column...)
	}
	return nil
}

// since returns the rows from row on. Later looks do not change the result.
func (t *tail) since(row int) Table {
	table := Table{Columns: append([]string{}, t.table.Columns...), Values: make([][]*float64, len(t.table.Values))}
	for i, column := range t.table.Values {
		table.Values[i] = column[row:len(column):len(column)]
	}
	return table
}

// next returns the first row that a viewer lacks who has rows of the file since its began-th restart. A run that was
// forgotten meanwhile may have fewer.
func (t *tail) next(began, rows int) int {
	if began != t.began || rows > t.rows() {
		return 0
	}
	return rows
}

func (t *tail) rows() int {
	if len(t.table.Values) == 0 {
		return 0
	}
	return len(t.table.Values[0])
}

// maxTails bounds the number of runs remembered. Beyond it, all are forgotten and read from their start again.
const maxTails = 256

// runFiles caches the logs of trainings by folder.
type runFiles struct {
	mu  sync.Mutex
	all map[string]*runLog
}

// runLog holds the logs read of a training.
type runLog struct {
	progress, evaluations tail
	comparison            [][]string
	config                map[string]any
	paired                *Paired
	stamps                map[string]time.Time // modification times of files that are read as a whole
	version               int                  // of these files
}

// update updates the logs of a training and calls use with them, under the lock.
func (f *runFiles) update(dir string, use func(*runLog) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.all[dir]
	if l == nil {
		if len(f.all) >= maxTails || f.all == nil {
			f.all = map[string]*runLog{}
		}
		l = &runLog{progress: tail{path: filepath.Join(dir, progressFile)}, evaluations: tail{path: filepath.Join(dir, evaluationsFile)}, stamps: map[string]time.Time{}}
		f.all[dir] = l
	}
	for _, t := range []*tail{&l.progress, &l.evaluations} {
		if _, err := t.readNew(); err != nil {
			return err
		}
	}
	if err := l.readWhole(dir); err != nil {
		return err
	}
	return use(l)
}

// runSource follows a training.
type runSource struct {
	s  *Server
	id string
}

// runSeen records which part of a training a viewer has.
type runSeen struct{ progressBegan, progress, evaluationsBegan, evaluations, version int }

// RunUpdate holds the changes of a training: rows from From on, and other files if they have changed.
type RunUpdate struct {
	From struct {
		Progress    int `json:"progress"`
		Evaluations int `json:"evaluations"`
	} `json:"from"`
	RunData
}

func (r *runSource) follow(ctx context.Context, changed func()) {
	ticks := time.NewTicker(r.s.cfg.Every)
	defer ticks.Stop()
	for {
		changed() // update finds out whether there is something
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (r *runSource) update(seen any) (data, now any, skipped int) {
	before, again := seen.(runSeen)
	after := before
	n := &RunUpdate{}
	err := r.s.withLogs(r.id, func(l *runLog) error {
		after = runSeen{l.progress.began, l.progress.rows(), l.evaluations.began, l.evaluations.rows(), l.version}
		n.From.Progress, n.From.Evaluations = l.progress.next(before.progressBegan, before.progress), l.evaluations.next(before.evaluationsBegan, before.evaluations)
		n.Progress, n.Evaluations = l.progress.since(n.From.Progress), l.evaluations.since(n.From.Evaluations)
		if !again || after.version != before.version {
			n.Comparison, n.Config, n.Paired = l.comparison, l.config, l.paired
		}
		return nil
	})
	if err != nil || again && reflect.DeepEqual(before, after) {
		return nil, seen, 0 // an unreadable file may be readable later
	}
	return n, after, 0
}
