// Package sample embeds small samples of public data sets, with which commands work without the sets.
//
// A sample has the file names of its set. It is written to a folder in the user's cache, so that models that
// were trained on it find it again. Parts without a permissive licence are generated there: the profile of gang
// by the environment's generator, its forecasts and the node table of metis by our forecaster and regressor.
package sample

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/kubernasium/kubernasium/trainer/cli"
)

//go:embed data
var data embed.FS

// A Set is the sample of a data set.
type Set struct {
	Name    string // folder in the data folder
	Needs   string // file whose absence means that the data folder lacks the set
	What    string // contents of the sample
	Licence string // SPDX id, and the licensed contents

	finish func(ctx context.Context, dir string) error // generates the files that are not embedded
}

// sets are the samples.
var sets = []Set{
	{"gang", "profile/workload_profiling.csv", "the last 1,360 rows of eight series, with a profile and forecasts made here", "MIT", finishGang},
	{"metis", "batch_set_200.csv", "a profile of 1,313 states, six sets of batches, and a node table predicted here", "Apache-2.0", finishMetis},
	{"openb", "openb_node_list_gpu_node.csv", "every tenth row: 122 nodes and two lists of 816 pods", "Apache-2.0", nil},
	{"vpa", "golden_recommender.json", "70 recommendations of upstream's code for eight traces", "Apache-2.0", nil},
}

// Dir returns the folder of the named set in the data folder if it exists. Otherwise it returns the folder of
// the sample, which it writes if necessary, and prints a line about that to notes. A name without a sample is
// an error.
func Dir(ctx context.Context, notes io.Writer, name string) (string, error) {
	for i := range sets {
		s := &sets[i]
		if s.Name != name {
			continue
		}
		root := cli.DataFolder()
		if root != "" {
			dir := filepath.Join(root, name)
			_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(s.Needs)))
			if !errors.Is(err, fs.ErrNotExist) {
				return dir, err
			}
			root = " in " + dir
		}
		dir, err := s.Folder(ctx)
		if err != nil {
			return "", fmt.Errorf("sample of %s: %w", name, err)
		}
		_, err = fmt.Fprintf(notes, "no %s data%s: using the embedded sample: %s (%s), in %s\n", name, root, s.What, s.Licence, dir)
		return dir, err
	}
	return "", fmt.Errorf("no sample of %s", name)
}

// Folder returns the folder of the sample, which it writes unless it exists. The folder is in the user's cache,
// and its name changes with the contents. Without a cache it is a new temporary folder.
func (s *Set) Folder(ctx context.Context) (string, error) {
	base, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(filepath.Join(base, "kubernasium"), 0o755)
	}
	if err != nil { // such as for a user without a home folder; existing temporary folders may be another user's, and are not trusted
		if base, err = os.MkdirTemp("", "kubernasium-"); err != nil {
			return "", err
		}
	}
	digest, err := s.digest()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "kubernasium", "sample-"+digest, s.Name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	// Written beside and renamed, so that no other process sees a partial sample.
	temp, err := os.MkdirTemp(filepath.Dir(dir), s.Name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := s.write(ctx, temp); err != nil {
		return "", err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, other := os.Stat(dir); other == nil { // another process was faster
			return dir, nil
		}
		return "", err
	}
	return dir, nil
}

// write writes the embedded files to dir, and generates the others.
func (s *Set) write(ctx context.Context, dir string) error {
	files, err := fs.Sub(data, path.Join("data", s.Name))
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	if s.finish == nil {
		return nil
	}
	return s.finish(ctx, dir)
}

// generation is incremented when the output of finish changes, so that folders of older programs are not used.
const generation = "1"

// digest identifies the contents of the sample.
func (s *Set) digest() (string, error) {
	h := sha256.New()
	io.WriteString(h, generation)
	err := fs.WalkDir(data, path.Join("data", s.Name), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := data.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12], err
}

// NodeTable returns the path of the node table of 20 % of the states in a folder of metis: the one that trainer
// data convert predicts, or else that of Metis's random forest.
func NodeTable(dir string) string {
	forest := filepath.Join(dir, "node_table_rf_p20.csv")
	if _, err := os.Stat(forest); err == nil {
		return forest
	}
	return filepath.Join(dir, "node_table_p20.csv")
}
