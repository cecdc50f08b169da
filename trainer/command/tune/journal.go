package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// journalName is the file in a study's folder from which the study can be resumed: a line of
// JSON with the study, and then one for each trial and rung that was finished.
const journalName = "journal.jsonl"

// journal is the record of a study. It is safe for concurrent use.
type journal struct {
	study   study
	results []rungResult

	mu   sync.Mutex
	file *os.File
}

// createJournal begins the journal of a study in the folder.
func createJournal(folder string, s study) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(folder, journalName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{study: s, file: f}
	if err := j.line(s); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// resumeJournal opens the journal in the folder. A last line that a crash cut short is dropped.
func resumeJournal(folder string) (*journal, error) {
	path := filepath.Join(folder, journalName)
	f, err := os.OpenFile(path, os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f}
	if err := j.read(path); err != nil {
		return nil, errors.Join(fmt.Errorf("resume %s: %w", path, err), f.Close())
	}
	return j, nil
}

func (j *journal) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for i, line := range bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")) {
		if i == 0 {
			err = json.Unmarshal(line, &j.study)
			if err == nil && len(j.study.Rungs) == 0 {
				err = errors.New("a study without rungs, of an older trainer, whose trials of a rung were not trained for as long: begin it anew")
			}
		} else {
			var r rungResult
			err = json.Unmarshal(line, &r)
			if err == nil && (r.Trial < 0 || r.Trial >= j.study.Trials) {
				err = fmt.Errorf("trial %d of %d", r.Trial, j.study.Trials)
			}
			j.results = append(j.results, r)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if err := j.file.Truncate(int64(len(whole))); err != nil {
		return err
	}
	_, err = j.file.Seek(int64(len(whole)), 0)
	return err
}

// add records a result and brings it to disk.
func (j *journal) add(r rungResult) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results = append(j.results, r)
	return j.line(r)
}

func (j *journal) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

// find returns the result of a trial at a rung, if it is on record.
func (j *journal) find(trial, rung int) (rungResult, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.results {
		if r.Trial == trial && r.Rung == rung {
			return r, true
		}
	}
	return rungResult{}, false
}

func (j *journal) close() error { return j.file.Close() }
