package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/kubernasium/kubernasium/models"
)

// journalName is the file, in a study's folder, from which the study can resume: a line of JSON with the study,
// and then one for each finished trial and rung.
const journalName = "journal.jsonl"

// journal is the record of a study of type S with results of type R. It is safe for concurrent use.
type journal[S, R any] struct {
	study   S
	results []R

	mu   sync.Mutex
	file *os.File
}

// createJournal creates the journal of a study in the folder.
func createJournal[S, R any](folder, name string, s S) (*journal[S, R], error) {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal[S, R]{study: s, file: f}
	if err = j.line(s); err == nil {
		err = models.SyncDir(folder)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// resumeJournal opens the journal in the folder. Its study and results must pass check. It drops a last line
// that a crash has truncated.
func resumeJournal[S, R any](folder, name string, check func(*S, []R) error) (*journal[S, R], error) {
	path := filepath.Join(folder, name)
	f, err := os.OpenFile(path, os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal[S, R]{file: f}
	if err := j.read(path, check); err != nil {
		return nil, errors.Join(fmt.Errorf("resume %s: %w", path, err), f.Close())
	}
	return j, nil
}

func (j *journal[S, R]) read(path string, check func(*S, []R) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for i, line := range bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")) {
		if i == 0 {
			err = json.Unmarshal(line, &j.study)
		} else {
			var r R
			err = json.Unmarshal(line, &r)
			j.results = append(j.results, r)
		}
		if err == nil {
			err = check(&j.study, j.results)
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

// add writes a result to disk.
func (j *journal[S, R]) add(r R) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results = append(j.results, r)
	return j.line(r)
}

func (j *journal[S, R]) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

func (j *journal[S, R]) close() error {
	if j.file == nil { // nil for a shared study, which has its own journal
		return nil
	}
	return j.file.Close()
}
