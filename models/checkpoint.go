package models

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Format is the version of the checkpoints that [Write] writes, and the newest that [Read] accepts.
// Since format 2 the digest covers header and tensors; in format 1 it covers the tensors only.
const Format = 2

// metadataKey is the metadata key of a safetensors file under which a Checkpoint is stored.
const metadataKey = "kubernasium"

var (
	// ErrFormat is wrapped by the error of [Read] about a file that is not a checkpoint or has a
	// newer format.
	ErrFormat = errors.New("models: not a checkpoint that this version can read")

	// ErrMismatch is wrapped by the errors of [Checkpoint.Match], [ReadParams] and the methods of
	// [File] about contents other than the expected ones.
	ErrMismatch = errors.New("models: checkpoint does not match")
)

// A Checkpoint describes the training and the network of the tensors of a [File]. It is stored as JSON.
type Checkpoint struct {
	Format           int               `json:"format"` // set by Write
	Algo             string            `json:"algo"`   // such as "ppo"
	Env              string            `json:"env"`    // id of the environment
	EnvKwargs        json.RawMessage   `json:"env_kwargs,omitempty"`
	ObservationSpace string            `json:"observation_space"` // as its String describes it
	ActionSpace      string            `json:"action_space"`
	Spec             Spec              `json:"spec"`
	Seed             uint64            `json:"seed"`
	Timesteps        int64             `json:"timesteps"`          // environment steps so far
	Config           json.RawMessage   `json:"config,omitempty"`   // hyperparameters
	State            json.RawMessage   `json:"state,omitempty"`    // numbers of the learner, for resuming
	Metadata         map[string]string `json:"metadata,omitempty"` // anything else
}

// Match returns an error if c differs from want in algorithm, environment, spaces or spec. A zero
// field of want matches everything, so a policy can be loaded into another environment with the
// same spaces. Specs with different numbers of nodes differ; see [Spec.WithNodes]. The error wraps
// [ErrMismatch].
func (c Checkpoint) Match(want Checkpoint) error {
	for _, f := range []struct{ what, got, want string }{
		{"algorithm", c.Algo, want.Algo},
		{"environment", c.Env, want.Env},
		{"observation space", c.ObservationSpace, want.ObservationSpace},
		{"action space", c.ActionSpace, want.ActionSpace},
	} {
		if f.want != "" && f.got != f.want {
			return fmt.Errorf("%w: %s is %q, want %q", ErrMismatch, f.what, f.got, f.want)
		}
	}
	if want.Spec.Inputs != 0 && !c.Spec.Equal(want.Spec) {
		return fmt.Errorf("%w: network is %v, want %v", ErrMismatch, c.Spec, want.Spec)
	}
	return nil
}

// Ext is the extension of model files.
const Ext = ".safetensors"

// A File is a checkpoint in memory. Parameters have their own names. The state of an optimizer has
// the prefix "optimizer." and PyTorch's names, such as "optimizer.exp_avg.action_net.weight". The
// state of a learner, such as that of its random generator, has the prefix "state.".
type File struct {
	Meta    Checkpoint
	Tensors []safetensors.Tensor
}

// Write writes f in the current format. Equal files give equal bytes.
func Write(w io.Writer, f File) error {
	f.Meta.Format = Format
	text, err := json.Marshal(f.Meta)
	if err != nil {
		return fmt.Errorf("models: encode checkpoint: %w", err)
	}
	return safetensors.Write(w, f.Tensors, map[string]string{metadataKey: string(text), "format": "pt"})
}

// Read reads a file that [Write] wrote, to the end of r. The error wraps
// [safetensors.ErrCorrupt], [ErrFormat] or [ErrSpec], or is that of r.
func Read(r io.Reader) (File, error) {
	sf, err := safetensors.Read(r)
	if err != nil {
		return File{}, err
	}
	f := File{Tensors: sf.Tensors}
	text, ok := sf.Metadata[metadataKey]
	if !ok {
		return File{}, fmt.Errorf("%w: no %q in the metadata", ErrFormat, metadataKey)
	}
	// Read the version first: the rest may have another form in a newer format.
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if version.Format < 1 || version.Format > Format {
		return File{}, fmt.Errorf("%w: format %d, want 1 to %d", ErrFormat, version.Format, Format)
	}
	if _, ok := sf.Metadata[safetensors.DigestKey]; !ok && version.Format >= 2 {
		return File{}, fmt.Errorf("%w: altered: no %q in the metadata, which format %d has", ErrFormat, safetensors.DigestKey, version.Format)
	}
	if err := json.Unmarshal([]byte(text), &f.Meta); err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := f.Meta.Spec.Validate(); err != nil {
		return File{}, err
	}
	return f, f.checkFinite()
}

// checkFinite rejects parameters that are not finite: every output would be NaN.
func (f *File) checkFinite() error {
	for _, t := range f.Tensors {
		data, ok := t.Data.([]float32)
		if !ok || strings.HasPrefix(t.Name, "state.") {
			continue
		}
		for i, v := range data {
			if v-v != 0 { // of NaN and the infinities
				return fmt.Errorf("%w: tensor %s has %v at %d, want finite numbers", ErrFormat, t.Name, v, i)
			}
		}
	}
	return nil
}

// WriteFile writes f to path as [WriteFileAtomic] does.
func WriteFile(path string, f File) error {
	return WriteFileAtomic(path, func(w io.Writer) error { return Write(w, f) })
}

// ReadFile reads the checkpoint at path. The error names the path.
func ReadFile(path string) (File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe may block
		return File{}, fmt.Errorf("read %s: it is no regular file", path)
	}
	r, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer r.Close()
	f, err := Read(bufio.NewReader(r))
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// Tensor returns the named tensor. The error wraps [ErrMismatch].
func (f File) Tensor(name string) (safetensors.Tensor, error) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, nil
		}
	}
	return safetensors.Tensor{}, fmt.Errorf("%w: no tensor %q", ErrMismatch, name)
}
