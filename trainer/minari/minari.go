// Package minari reads and writes datasets of Minari 0.5 in its Arrow format, so that
// minari.load_dataset reads what this package wrote, and this package reads what Minari's
// DataCollector wrote with data_format="arrow".
//
// A dataset is a folder <root>/<id>/data with metadata.json and, for each episode, a folder with
// metadata.json and a file of the Arrow IPC format. The file has a row for each step and one more
// for the last observation, whose action, reward and ends are padding. Dict observations are
// structs, arrays are lists of a fixed size, and masks are the part action_mask of infos.
//
// Layout: Minari 0.5.4, minari/dataset/minari_storage.py and _storages/arrow_storage.py.
package minari

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs/space"
)

const (
	format       = "arrow"
	version      = "0.5.4" // version of Minari with this layout
	metadataName = "metadata.json"
	maskName     = "action_mask" // key in infos, as in the Python client
	maxRows      = 1 << 17       // maximum steps of an episode: pyarrow puts them into one batch, and Minari reads only the first batch
)

// An Episode has T steps. Arrays are row-major.
type Episode struct {
	Obs                   []float32 // (T+1, observation)
	Mask                  []bool    // (T+1, mask): the permitted actions; nil permits all
	Action                []float32 // (T, action)
	Reward                []float64 // (T)
	Terminated, Truncated []bool    // (T)
}

// Meta describes a dataset.
type Meta struct {
	ID        string         // such as "cartpole/mixed-v0"; empty for a dataset named by its path
	Env       string         // id of the environment; empty if unknown
	EnvKwargs map[string]any // options of the environment
	Algorithm string         // name of the policy
	Episodes  int
	Steps     int
}

// metadata is the content of metadata.json.
type metadata struct {
	Episodes         int     `json:"total_episodes"`
	Steps            int     `json:"total_steps"`
	Format           string  `json:"data_format"`
	JPEG             bool    `json:"jpeg_encoding"`
	ObservationSpace string  `json:"observation_space"`
	ActionSpace      string  `json:"action_space"`
	EnvSpec          string  `json:"env_spec,omitempty"`
	ID               string  `json:"dataset_id"`
	Algorithm        string  `json:"algorithm_name,omitempty"`
	Version          string  `json:"minari_version"`
	Size             float64 `json:"dataset_size"` // MB
}

// episodeMetadata is the content of metadata.json in an episode's folder.
type episodeMetadata struct {
	ID    int `json:"id"`
	Steps int `json:"total_steps"`
}

// ids matches Minari's dataset ids: a namespace, a name and a version.
var ids = regexp.MustCompile(`^([-_\w][-_\w/]*[-_\w]+/)?[-_\w]+-v\d+$`)

// IsPath reports whether a dataset is given by its folder, with a leading dot or separator.
func IsPath(dataset string) bool { return strings.HasPrefix(dataset, ".") || filepath.IsAbs(dataset) }

// Folder returns the folder of a dataset. The dataset is an id of Minari, below the environment variable
// MINARI_DATASETS_PATH or ~/.minari/datasets, or the path of a folder; see [IsPath].
func Folder(dataset string) (string, error) {
	if IsPath(dataset) {
		return dataset, nil
	}
	if !ids.MatchString(dataset) {
		return "", fmt.Errorf("dataset %q, want Minari's id such as cartpole/mixed-v0, or a folder with a leading ./ or /", dataset)
	}
	root := os.Getenv("MINARI_DATASETS_PATH")
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(home, ".minari", "datasets")
	}
	return filepath.Join(root, filepath.FromSlash(dataset)), nil
}

// readMetadata reads the metadata of the dataset in a folder.
func readMetadata(folder string) (metadata, error) {
	var m metadata
	path := filepath.Join(folder, "data", metadataName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("no dataset in %s: it has no data/%s", folder, metadataName)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(finite(text), &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	m.Format = cmp.Or(m.Format, "hdf5") // of Minari before 0.5
	if m.Format != format {
		return m, fmt.Errorf("%s has the data_format %q, want %q: record with minari.DataCollector(env, data_format=%q), or convert as docs/training.md shows", path, m.Format, format, format)
	}
	if m.Episodes < 1 || m.Steps < 1 {
		return m, fmt.Errorf("%s has %d episodes and %d steps, want at least 1 of each", path, m.Episodes, m.Steps)
	}
	return m, nil
}

// ReadMeta returns the description of a dataset.
func ReadMeta(folder string) (Meta, error) {
	m, err := readMetadata(folder)
	if err != nil {
		return Meta{}, err
	}
	out := Meta{ID: m.ID, Algorithm: m.Algorithm, Episodes: m.Episodes, Steps: m.Steps}
	if m.EnvSpec == "" {
		return out, nil
	}
	var spec struct {
		ID     string         `json:"id"`
		Kwargs map[string]any `json:"kwargs"`
	}
	if err := json.Unmarshal(finite([]byte(m.EnvSpec)), &spec); err != nil {
		return out, fmt.Errorf("%s: env_spec: %w", folder, err)
	}
	// Other arguments of the Python client's Env are not options.
	for _, name := range []string{"env_id", "render_mode", "url", "timeout", "reconnect", "max_episode_steps", "env_error", "obs_keys"} {
		delete(spec.Kwargs, name)
	}
	out.Env, out.EnvKwargs = spec.ID, spec.Kwargs
	return out, nil
}

// nonFinite matches the numbers that Python writes but JSON does not permit.
var nonFinite = regexp.MustCompile(`-?\bInfinity\b|\bNaN\b`)

// finite replaces non-finite numbers in JSON that Python wrote by null.
func finite(text []byte) []byte { return nonFinite.ReplaceAll(text, []byte("null")) }

// Episodes splits steps at the ends of episodes. If the last episode has not ended, it counts as truncated, as
// in Minari. Masks that permit every action are omitted.
func Episodes(t replay.Transitions, obs, act space.Space) []Episode {
	var episodes []Episode
	size, width, mask := obs.Size(), act.Size(), space.MaskSize(act)
	masked := slices.Contains(t.Mask, false) || slices.Contains(t.NextMask, false)
	for from, i := 0, 0; i < t.Len(); i++ {
		if last := i == t.Len()-1; !t.Terminated[i] && !t.Truncated[i] && !last {
			continue
		}
		e := Episode{
			Obs:    slices.Concat(t.Obs[from*size:(i+1)*size], t.NextObs[i*size:(i+1)*size]),
			Action: t.Action[from*width : (i+1)*width], Reward: t.Reward[from : i+1],
			Terminated: t.Terminated[from : i+1], Truncated: slices.Clone(t.Truncated[from : i+1]),
		}
		if masked {
			e.Mask = slices.Concat(t.Mask[from*mask:(i+1)*mask], t.NextMask[i*mask:(i+1)*mask])
		}
		if !t.Terminated[i] {
			e.Truncated[i-from] = true
		}
		episodes, from = append(episodes, e), i+1
	}
	return episodes
}

// Transitions returns the steps of episodes in the form that learners use.
func Transitions(episodes []Episode, obs, act space.Space) replay.Transitions {
	var t replay.Transitions
	size, mask := obs.Size(), space.MaskSize(act)
	for _, e := range episodes {
		n := len(e.Reward)
		t.Obs, t.NextObs = append(t.Obs, e.Obs[:n*size]...), append(t.NextObs, e.Obs[size:]...)
		t.Action, t.Reward = append(t.Action, e.Action...), append(t.Reward, e.Reward...)
		t.Terminated, t.Truncated = append(t.Terminated, e.Terminated...), append(t.Truncated, e.Truncated...)
		if e.Mask != nil {
			t.Mask, t.NextMask = append(t.Mask, e.Mask[:n*mask]...), append(t.NextMask, e.Mask[mask:]...)
		}
	}
	return t
}
