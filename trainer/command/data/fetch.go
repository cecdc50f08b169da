package data

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/convert"
	"github.com/kubernasium/kubernasium/trainer/fetch"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// fetchFlags holds the arguments of `data fetch`.
type fetchFlags struct {
	to, mirror, parts string
	noConvert, force  bool
	fetcher           fetch.Fetcher
}

// fetched is a file in the JSON of `data fetch`.
type fetched struct {
	Set     string `json:"set"`
	Path    string `json:"path"`
	URL     string `json:"url,omitempty"`
	Status  string `json:"status"` // fetched, present or converted
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	Pinned  bool   `json:"pinned"` // the digest equals the manifest's
	Resumed int64  `json:"resumed,omitempty"`
}

// errInterrupted tells the user how to resume.
var errInterrupted = fmt.Errorf("%w: the same command resumes", cli.ErrInterrupted)

func newFetch() *cobra.Command {
	var o fetchFlags
	cmd := &cobra.Command{
		Use:   "fetch NAME...",
		Short: "Download data sets, verify them, and convert them to the formats that environments read",
		Long: `Download data sets, verify them, and convert them to the formats that environments read.

An existing correct file is not downloaded again. An interrupted download resumes. A file with a digest
in the manifest is compared with it; the digests of other files are recorded in
` + catalog.LockFile + ` of the folder, with which check compares them later. No file is there before it is complete.

Names: ` + nameList() + `.
Sets in parts (azure, borg) are large: --part takes some of them. Without a network, it says
which file to put where.

--mirror takes files from another server, which serves a data folder: MIRROR/openb/openb_node_list_gpu_node.csv.`,
		Example: `  trainer data fetch openb
  trainer data fetch nab metis --to data
  trainer data fetch azure --part 1-2
  trainer data fetch openb --mirror http://files.example.org/data`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			some, err := sets(args)
			if err != nil {
				return err
			}
			if o.parts != "" && (len(some) != 1 || some[0].Parts == nil) {
				return errors.New("--part is for one data set in parts: azure or borg")
			}
			rows, err := o.run(cmd, some)
			if len(rows) > 0 {
				err = errors.Join(printFetched(cmd, rows), err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", folderUsage)
	f.StringVar(&o.mirror, "mirror", "", "address of a data folder on another server, instead of the sources")
	f.StringVar(&o.parts, "part", "", "numbers of parts, such as 1,4-6 (default: the first)")
	f.BoolVar(&o.noConvert, "no-convert", false, "leave files as published")
	f.BoolVar(&o.force, "force", false, "download existing files again")
	f.IntVar(&o.fetcher.Attempts, "attempts", 5, "attempts for each file")
	f.DurationVar(&o.fetcher.Stall, "timeout", time.Minute, "maximum time without a byte")
	return cmd
}

// run fetches and converts. The rows are those of the complete files, even if there is an error.
func (o *fetchFlags) run(cmd *cobra.Command, some []catalog.Dataset) (rows []fetched, err error) {
	if o.fetcher.Attempts < 1 || o.fetcher.Stall <= 0 {
		return nil, fmt.Errorf("--attempts is %d and --timeout %v, want at least 1 and more than 0", o.fetcher.Attempts, o.fetcher.Stall)
	}
	dir := folder(o.to)
	lock, err := catalog.ReadLock(dir)
	if err != nil {
		return nil, err
	}
	bar := newProgress(cmd)
	o.fetcher.Warn = bar.warn
	for i := range some {
		d := &some[i]
		files, err := o.files(d)
		if err != nil {
			return rows, err
		}
		if d.Licence == catalog.NoLicence {
			bar.warn("%s: no licence is stated (%s): its owner keeps all rights", d.Name, d.Terms)
		}
		var missing []catalog.File
		var refused error
		for k := range files {
			row, err := o.file(cmd.Context(), d, &files[k], dir, lock, bar)
			if errors.Is(err, fetch.ErrStatus) { // an error of this file; others may still be available
				missing, refused = append(missing, files[k]), errors.Join(refused, err)
				continue
			}
			if err != nil {
				return rows, o.explain(cmd.Context(), err, d, append(missing, files[k:]...), dir)
			}
			rows = append(rows, *row)
		}
		if refused != nil {
			return rows, o.explain(cmd.Context(), refused, d, missing, dir)
		}
		if d.Convert == "" || o.noConvert {
			continue
		}
		made, err := convertSet(cmd.Context(), d, dir, dir, bar.warn)
		rows = append(rows, made...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// files returns the files of a data set to fetch.
func (o *fetchFlags) files(d *catalog.Dataset) ([]catalog.File, error) {
	files := slices.Clone(d.Files)
	if d.Parts == nil {
		return files, nil
	}
	numbers := []int{d.Parts.First}
	if o.parts != "" {
		var err error
		if numbers, err = parseParts(o.parts); err != nil {
			return nil, err
		}
	}
	for _, n := range numbers {
		f, err := d.Parts.Part(n)
		if err != nil {
			return nil, fmt.Errorf("--part: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

const maxParts = 10_000

// parseParts reads a list of numbers and ranges.
func parseParts(text string) ([]int, error) {
	var numbers []int
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(low)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(high)
		}
		if err != nil || a < 0 || b < a || b-a >= maxParts || len(numbers)+b-a >= maxParts {
			return nil, fmt.Errorf("--part %q, want numbers and ranges such as 1,4-6", text)
		}
		for n := a; n <= b; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// file fetches a file unless it exists.
func (o *fetchFlags) file(ctx context.Context, d *catalog.Dataset, f *catalog.File, dir string, lock catalog.Lock, bar *progress) (*fetched, error) {
	row := &fetched{Set: d.Name, Path: f.Path, Status: "present", Pinned: f.Pinned()}
	name := filepath.Join(dir, filepath.FromSlash(f.Path))
	if !o.force {
		r, err := f.Check(ctx, dir, lock)
		if err != nil {
			return nil, err
		}
		if r.State == catalog.OK || r.State == catalog.Recorded {
			row.Bytes = r.Bytes
			if row.SHA256 = f.SHA256; !f.Pinned() {
				row.SHA256 = lock[f.Path].SHA256
			}
			return row, nil
		}
		if r.State == catalog.Unpinned { // a user put it there
			sum, n, err := catalog.Digest(ctx, name)
			if err != nil {
				return nil, err
			}
			bar.warn("%s is there; the manifest has no digest to compare it with: its own is recorded", f.Path)
			row.Bytes, row.SHA256 = n, sum
			lock[f.Path] = catalog.LockEntry{SHA256: sum, Bytes: n}
			return row, writeLock(dir, lock)
		}
		if r.State == catalog.Differs {
			return nil, fmt.Errorf("%s is there, and %s: --force replaces it", name, r.Detail)
		}
	}
	if err := fetch.Folder(name); err != nil {
		return nil, err
	}
	url := d.URL(f, o.mirror)
	o.fetcher.Progress = bar.file(f.Path)
	got, err := o.fetcher.File(ctx, url, name, fetch.Want{Bytes: f.Bytes, SHA256: f.SHA256})
	bar.end()
	if err != nil {
		return nil, err
	}
	row.URL, row.Status, row.Bytes, row.SHA256, row.Resumed = url, "fetched", got.Bytes, got.SHA256, got.Resumed
	if f.Pinned() {
		return row, nil
	}
	lock[f.Path] = catalog.LockEntry{URL: url, SHA256: got.SHA256, Bytes: got.Bytes}
	return row, writeLock(dir, lock)
}

// writeLock records the fetched files.
func writeLock(dir string, lock catalog.Lock) error {
	return models.WriteFileAtomic(filepath.Join(dir, catalog.LockFile), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(lock)
	})
}

// explain adds to an error what the user must do: run the command again, or put files in place by hand.
func (o *fetchFlags) explain(ctx context.Context, err error, d *catalog.Dataset, missing []catalog.File, dir string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", errInterrupted, err)
	}
	if !errors.Is(err, fetch.ErrOnline) && !errors.Is(err, fetch.ErrStatus) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWithout a network: download on another machine, and put\n")
	for i := range missing {
		f := &missing[i]
		fmt.Fprintf(&b, "  %s\n    as %s\n", d.URL(f, ""), filepath.Join(dir, filepath.FromSlash(f.Path)))
	}
	fmt.Fprintf(&b, "then: trainer data fetch %s --to %s", d.Name, cli.Quote(dir))
	if d.Convert != "" {
		fmt.Fprintf(&b, ", which converts them")
	}
	return fmt.Errorf("%w%s", err, b.String())
}

// convertSet converts the files of a data set and compares the outputs with the manifest.
func convertSet(ctx context.Context, d *catalog.Dataset, from, to string, warn func(string, ...any)) ([]fetched, error) {
	written, err := convert.Run(ctx, d.Convert, from, to, warn)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w (%w)", errInterrupted, err)
		}
		return nil, err
	}
	var rows []fetched
	for _, path := range written {
		i := slices.IndexFunc(d.Outputs, func(f catalog.File) bool { return f.Path == path })
		if i < 0 {
			return rows, fmt.Errorf("conversion %s has written %s, which the manifest does not list", d.Convert, path)
		}
		f := &d.Outputs[i]
		name := filepath.Join(to, filepath.FromSlash(path))
		sum, n, err := catalog.Digest(ctx, name)
		if err != nil {
			return rows, err
		}
		if f.Pinned() && sum != f.SHA256 {
			return rows, errors.Join(fmt.Errorf("%s is converted to sha256 %s, want %s: its source is not the published file", name, sum, f.SHA256), os.Remove(name))
		}
		rows = append(rows, fetched{Set: d.Name, Path: path, Status: "converted", Bytes: n, SHA256: sum, Pinned: f.Pinned()})
	}
	return rows, nil
}

func printFetched(cmd *cobra.Command, rows []fetched) error {
	t := tracking.NewTable("set", "file", "status", ">size", "digest")
	for _, r := range rows {
		digest := "recorded"
		if r.Pinned {
			digest = "verified"
		} else if r.Status == "converted" {
			digest = "none is known"
		}
		t.Append(r.Set, r.Path, r.Status, megabytes(r.Bytes), digest)
	}
	return cli.Print(cmd, rows, t.WriteText)
}
