package play

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
)

// sealedHeader holds the columns of the file that records uses of the sealed block.
var sealedHeader = []string{"env", "options", "episodes", "policies", "digest"}

// sealedUse is a use of the sealed block's episodes of an environment with some options.
type sealedUse struct{ env, options, episodes, policies, digest string }

// sealedUse describes the comparison with these options. Its digest covers the contents of the models, searched ones too.
func (c *CompareConfig) sealedUse(kwargs map[string]any) (sealedUse, error) {
	options, err := json.Marshal(kwargs)
	if err != nil {
		return sealedUse{}, err
	}
	u := sealedUse{env: c.Spec.ID, options: string(options), episodes: strconv.Itoa(c.Episodes)}
	if c.SealedFirst > 0 {
		u.episodes = fmt.Sprintf("%d..%d", c.SealedFirst, c.SealedFirst+c.Episodes-1)
	}
	var policies []string
	digest := sha256.New()
	paths := slices.Clone(c.Models)
	for _, text := range c.Searches {
		config, err := search.Parse(text)
		if err != nil {
			return u, err
		}
		if config.OverModel() && !slices.Contains(paths, config.Base) {
			paths = append(paths, config.Base)
		}
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return u, err
		}
		f, err := models.ReadFile(path)
		if err != nil {
			return u, err
		}
		policies = append(policies, fmt.Sprintf("%s seed %d", f.Meta.Algo, f.Meta.Seed))
		fmt.Fprintf(digest, "%x\n", sha256.Sum256(data))
	}
	policies = append(policies, append(c.baselineNames(), c.Searches...)...)
	u.policies = strings.Join(policies, "; ")
	fmt.Fprintln(digest, u.env, u.options, u.episodes, u.policies)
	u.digest = fmt.Sprintf("%x", digest.Sum(nil)[:8])
	return u, nil
}

// sealedRange returns the first episode of a use and the first after it. The text is a number of episodes or FIRST..LAST.
func sealedRange(text string) (first, end int, err error) {
	from, to, both := strings.Cut(text, "..")
	if !both {
		end, err = strconv.Atoi(text)
		return 0, end, err
	}
	first, err = strconv.Atoi(from)
	last, lastErr := strconv.Atoi(to)
	return first, last + 1, errors.Join(err, lastErr)
}

// changedOptions returns the options in an object of JSON that differ from the environment's defaults.
func (c *CompareConfig) changedOptions(text string) (map[string]any, error) {
	given := map[string]any{}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, err
	}
	for _, o := range envs.DescribeOptions(c.Spec.Options) {
		value, err := json.Marshal(given[o.Name])
		usual, usualErr := json.Marshal(o.Default)
		if err := errors.Join(err, usualErr); err != nil {
			return nil, err
		}
		if given[o.Name] == nil || bytes.Equal(value, usual) {
			delete(given, o.Name)
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	return given, nil
}

// useSealed records in the file at path that the comparison plays the sealed block, before it plays, and
// returns a note for the output. Someone who knows the results could select policies by them. Therefore the
// episodes are used up for this environment with these options: only the same policies may play them again, which gives
// the same results. The file is under version control, so that a review shows removed lines.
func (c *CompareConfig) useSealed(path string, kwargs map[string]any) (note string, err error) {
	use, err := c.sealedUse(kwargs)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	changed, err := c.changedOptions(use.options)
	if err != nil {
		return "", err
	}
	for i, row := range rows {
		if len(row) != len(sealedHeader) {
			return "", fmt.Errorf("%s: line %d has %d columns, want %d", path, i+1, len(row), len(sealedHeader))
		}
		if row[0] != use.env {
			continue
		}
		of, err := c.changedOptions(row[1])
		if err != nil {
			return "", fmt.Errorf("%s: line %d: options: %w", path, i+1, err)
		}
		if !reflect.DeepEqual(of, changed) {
			continue
		}
		if row[4] == use.digest {
			return fmt.Sprintf("sealed block: the same policies again as in line %d of %s", i+1, path), nil
		}
		first, end, err := sealedRange(row[2])
		if err != nil {
			return "", fmt.Errorf("%s: line %d: episodes: %w", path, i+1, err)
		}
		if c.SealedFirst < end && first < c.SealedFirst+c.Episodes {
			return "", fmt.Errorf("the sealed block of %s with the options %s is used up: line %d of %s records a comparison of %s over %s episodes, and these are other policies or episodes; --sealed-first %d begins after them",
				use.env, use.options, i+1, path, row[3], row[2], end)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	w := csv.NewWriter(f)
	if len(rows) == 0 {
		_ = w.Write(sealedHeader) // Flush keeps the error
	}
	_ = w.Write([]string{use.env, use.options, use.episodes, use.policies, use.digest})
	w.Flush()
	if err := errors.Join(w.Error(), f.Sync(), f.Close()); err != nil {
		return "", err
	}
	return fmt.Sprintf("sealed block: used up for this environment with these options, as recorded in %s", path), nil
}
