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

// A tail reads a CSV file of numbers that a training appends to: each look reads only what is new. A row that is half
// written waits for the next look. A file that was written again is read from its start.
type tail struct {
	path  string
	at    int64  // bytes that were read
	head  []byte // the first line, which shows whether the file was written again
	last  []byte // the end of what was read, likewise
	table Table
	began int // how often the file was read from its start
}

// lastBytes is how much of the end is compared.
const lastBytes = 64

// look reads what is new and reports whether there was something.
func (t *tail) look() (bool, error) {
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

// same reports whether what was read is still there, as far as the first line and the end show.
func (t *tail) same(f *os.File) bool {
	head, last := make([]byte, len(t.head)), make([]byte, len(t.last))
	_, err1 := f.ReadAt(head, 0)
	_, err2 := f.ReadAt(last, t.at-int64(len(last)))
	return err1 == nil && err2 == nil && bytes.Equal(head, t.head) && bytes.Equal(last, t.last)
}

// add takes whole lines in.
func (t *tail) add(text []byte) error {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1 // a training adds columns as it logs more
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

// since returns the rows from one on. The table does not change when the tail reads on.
func (t *tail) since(row int) Table {
	table := Table{Columns: append([]string{}, t.table.Columns...), Values: make([][]*float64, len(t.table.Values))}
	for i, column := range t.table.Values {
		table.Values[i] = column[row:len(column):len(column)]
	}
	return table
}

func (t *tail) rows() int {
	if len(t.table.Values) == 0 {
		return 0
	}
	return len(t.table.Values[0])
}

// maxTails bounds the files that are remembered; those above are read from their start again.
const maxTails = 256

// runFiles are the logs of trainings, by folder.
type runFiles struct {
	mu  sync.Mutex
	all map[string]*runLog
}

// runLog holds what was read of a training.
type runLog struct {
	progress, evaluations tail
	comparison            [][]string
	config                map[string]any
	paired                *Paired
	stamps                map[string]time.Time // of the files that are read whole
	version               int                  // of what is read whole
}

// look brings a training up to date and calls use with it, which nothing changes meanwhile.
func (f *runFiles) look(dir string, use func(*runLog) error) error {
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
		if _, err := t.look(); err != nil {
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

// RunNews holds the changes of a training: rows from numbers on, and the rest where it has changed.
type RunNews struct {
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
		changed() // viewers find out whether there is something
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (r *runSource) news(seen any) (data, now any, skipped int) {
	before, again := seen.(runSeen)
	after := before
	n := &RunNews{}
	err := r.s.look(r.id, func(l *runLog) error {
		after = runSeen{l.progress.began, l.progress.rows(), l.evaluations.began, l.evaluations.rows(), l.version}
		if after.progressBegan == before.progressBegan {
			n.From.Progress = before.progress
		}
		if after.evaluationsBegan == before.evaluationsBegan {
			n.From.Evaluations = before.evaluations
		}
		n.Progress, n.Evaluations = l.progress.since(n.From.Progress), l.evaluations.since(n.From.Evaluations)
		if !again || after.version != before.version {
			n.Comparison, n.Config, n.Paired = l.comparison, l.config, l.paired
		}
		return nil
	})
	if err != nil || again && reflect.DeepEqual(before, after) {
		return nil, seen, 0 // a file that cannot be read now may be readable later
	}
	return n, after, 0
}
