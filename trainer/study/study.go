// Package study shares the trials of a search between processes, possibly on several machines, by one journal
// file on a shared file system. The file has the format of Optuna's JournalFileBackend, so that Optuna and its
// dashboard can read it.
//
// A process claims a trial at a rung before it trains it, and renews the claim during the training. A claim
// that is not renewed for the duration of a lease is stale, and another process may take it over. Each reader
// measures the time since it read the last renewal by its own clock, so that the clocks of machines need not
// agree. The first result of a trial at a rung stays; a later one, of a process that was only slow, is dropped.
//
// Format: Optuna 5.0, storages/journal/_storage.py (operations) and _file.py (lock).
package study

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Operations of Optuna's journal that this package uses.
const (
	opCreateStudy  = 0
	opStudyAttr    = 2
	opCreateTrial  = 4
	opParam        = 5
	opState        = 6
	opIntermediate = 7
	opTrialAttr    = 8
)

// A State is the state of an Optuna trial.
type State int

// Final states of a trial, and the states before.
const (
	Running  State = 0
	Complete State = 1
	Pruned   State = 2
	Failed   State = 3
	waiting  State = 4
)

// Names of attributes. A rung follows those of trials.
const (
	specAttr   = "kubernasium"
	claimAttr  = "claim_"
	resultAttr = "result_"
)

// An Item is a trial at a rung.
type Item struct{ Trial, Rung int }

// A Study is a process's view of a shared study. It is safe for concurrent use.
type Study struct {
	path   string
	worker string
	lease  time.Duration

	mu      sync.Mutex
	offset  int64 // offset of the first unread line
	spec    json.RawMessage
	results map[Item]json.RawMessage
	claims  map[Item]time.Time // when this process read the last renewal
	states  map[int]State
	held    map[Item]bool // by this process
}

// ErrOther is wrapped by the error of Open if the file holds another study.
var ErrOther = errors.New("study: the file holds another study")

// Open opens the study in a file, or creates it there with the hyperparameters of each trial. spec holds
// everything that determines the results. An existing study must have an equal spec.
func Open(path, name string, spec any, params []map[string]any, lease time.Duration) (*Study, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	s := &Study{
		path: path, worker: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8]), lease: lease,
		results: map[Item]json.RawMessage{}, claims: map[Item]time.Time{}, states: map[int]State{}, held: map[Item]bool{},
	}
	err = s.locked(func() ([]operation, error) {
		switch {
		case s.spec == nil && s.offset == 0:
			return s.begin(name, text, params), nil
		case s.spec == nil:
			return nil, fmt.Errorf("%w: %s is no study of this program", ErrOther, path)
		case !bytes.Equal(s.spec, text):
			return nil, fmt.Errorf("%w: %s was begun with %s; give the same, or name another file", ErrOther, path, difference(s.spec, text))
		}
		return nil, nil
	})
	return s, err
}

// operation is a line of the journal.
type operation map[string]any

func (s *Study) operation(code int) operation {
	return operation{"op_code": code, "worker_id": s.worker}
}

// begin returns the first lines of a study.
func (s *Study) begin(name string, spec json.RawMessage, params []map[string]any) []operation {
	create := s.operation(opCreateStudy)
	create["study_name"], create["directions"] = name, []int{2} // maximize
	attr := s.operation(opStudyAttr)
	attr["study_id"], attr["user_attr"] = 0, map[string]any{specAttr: spec}
	lines := []operation{create, attr}
	for range params {
		o := s.operation(opCreateTrial)
		o["study_id"], o["datetime_start"], o["state"] = 0, nil, waiting
		lines = append(lines, o)
	}
	return append(lines, s.params(params)...)
}

// params returns the lines with the hyperparameters for Optuna: those that differ between trials, with numbers
// as a range and all others as choices.
func (s *Study) params(params []map[string]any) []operation {
	var names []string
	for _, p := range params {
		for name := range p {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var lines []operation
	for _, name := range names {
		choices, low, high, floats := []string{}, 0.0, 0.0, true
		for i, p := range params {
			text, _ := json.Marshal(p[name]) // values come from JSON or YAML
			if !slices.Contains(choices, string(text)) {
				choices = append(choices, string(text))
			}
			x, ok := p[name].(float64)
			if floats = floats && ok; i == 0 {
				low, high = x, x
			}
			low, high = min(low, x), max(high, x)
		}
		if len(choices) < 2 {
			continue
		}
		distribution := map[string]any{"name": "CategoricalDistribution", "attributes": map[string]any{"choices": choices}}
		if floats {
			distribution = map[string]any{"name": "FloatDistribution", "attributes": map[string]any{"low": low, "high": high, "log": false, "step": nil}}
		}
		described, _ := json.Marshal(distribution)
		for trial, p := range params {
			o := s.operation(opParam)
			o["trial_id"], o["param_name"], o["distribution"] = trial, name, string(described)
			text, _ := json.Marshal(p[name])
			o["param_value_internal"] = slices.Index(choices, string(text))
			if floats {
				o["param_value_internal"] = p[name]
			}
			lines = append(lines, o)
		}
	}
	return lines
}

// locked locks the file, reads the new lines, and appends the lines that f returns.
func (s *Study) locked(f func() ([]operation, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock, err := lock(s.path)
	if err != nil {
		return err
	}
	var lines []operation
	if err = s.readAll(true); err == nil {
		lines, err = f()
	}
	if err == nil && len(lines) > 0 {
		err = s.write(lines)
	}
	return errors.Join(err, unlock())
}

// write appends lines to the file and syncs it.
func (s *Study) write(lines []operation) error {
	var buf bytes.Buffer
	for _, l := range lines {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		buf.Write(append(text, '\n'))
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(buf.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return s.readAll(false)
}

// readAll reads the new lines. If the file is locked, it removes an incomplete last line, which a crash has
// left.
func (s *Study) readAll(locked bool) error {
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(s.offset, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for _, line := range bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if err := s.apply(line); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	s.offset += int64(len(whole))
	if locked && len(whole) < len(text) {
		return f.Truncate(s.offset)
	}
	return nil
}

// apply applies a line of the journal.
func (s *Study) apply(line []byte) error {
	var o struct {
		Code    int                        `json:"op_code"`
		StudyID int                        `json:"study_id"`
		Trial   int                        `json:"trial_id"`
		State   State                      `json:"state"`
		Attr    map[string]json.RawMessage `json:"user_attr"`
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	switch {
	case o.Code == opStudyAttr && o.StudyID == 0 && o.Attr[specAttr] != nil:
		s.spec = o.Attr[specAttr]
	case o.Code == opState && s.states[o.Trial] == Running: // a final state stays
		s.states[o.Trial] = o.State
	case o.Code == opTrialAttr:
		for name, v := range o.Attr {
			if err := s.applyAttr(o.Trial, name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyAttr applies an attribute of a trial.
func (s *Study) applyAttr(trial int, name string, v json.RawMessage) error {
	if number, ok := strings.CutPrefix(name, resultAttr); ok {
		rung, err := strconv.Atoi(number)
		if it := (Item{trial, rung}); err == nil && s.results[it] == nil {
			s.results[it] = v
			delete(s.claims, it)
		}
		return err
	}
	number, ok := strings.CutPrefix(name, claimAttr)
	if !ok {
		return nil
	}
	rung, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	var c struct {
		Worker string `json:"worker"`
	}
	if err := json.Unmarshal(v, &c); err != nil {
		return err
	}
	if c.Worker == "" { // released
		delete(s.claims, Item{trial, rung})
		return nil
	}
	s.claims[Item{trial, rung}] = time.Now()
	return nil
}

// Result decodes the result of an item into v, and reports whether there is one.
func (s *Study) Result(it Item, v any) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results[it] == nil {
		return false, nil
	}
	return true, json.Unmarshal(s.results[it], v)
}

// Worker returns this process's name in the study.
func (s *Study) Worker() string { return s.worker }
