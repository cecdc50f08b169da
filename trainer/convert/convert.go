// Package convert converts published files to files that environments read: series, NPZ files and archives. It
// never decodes pickled objects.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/models"
)

// A Conversion produces the outputs of a data set. Paths in both folders are the manifest's.
type Conversion struct {
	Doc string
	run func(c *job) error
}

// Conversions holds the conversions by the manifest's names.
var Conversions = map[string]Conversion{
	"nab":     {"cuts series of the Numenta Anomaly Benchmark into those that the tasks of gang have", nab},
	"metis":   {"writes NPZ files of profiles and batches as CSV, and makes node tables and constraints of them", metis},
	"pai":     {"unpacks the tables of machines and tasks, and adds their header lines", pai},
	"philly":  {"unpacks the tables of machines and jobs", philly},
	"helios":  {"unpacks the tables of each cluster", helios},
	"alibaba": {"unpacks the tables of containers, and compresses each by gzip", alibaba},
}

// Names returns the names of the conversions.
func Names() []string {
	var names []string
	for name := range Conversions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// job is a running conversion.
type job struct {
	ctx      context.Context
	from, to string
	warn     func(format string, args ...any)
	written  []string
}

// Run converts the files below from to files below to, and returns the paths that it wrote, with slashes. It
// replaces each file atomically. It calls warn with what it omits.
func Run(ctx context.Context, name, from, to string, warn func(format string, args ...any)) ([]string, error) {
	c, ok := Conversions[name]
	if !ok {
		return nil, fmt.Errorf("convert: no conversion %q, want one of %s", name, strings.Join(Names(), ", "))
	}
	j := &job{ctx: ctx, from: from, to: to, warn: warn}
	err := c.run(j)
	if err != nil {
		err = fmt.Errorf("convert %s: %w", name, err)
	}
	return j.written, err
}

// in returns the path of an input file.
func (j *job) in(path string) string { return filepath.Join(j.from, filepath.FromSlash(path)) }

// write writes a file.
func (j *job) write(path string, write func(io.Writer) error) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	name := filepath.Join(j.to, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := models.WriteFileAtomic(name, write); err != nil {
		return err
	}
	j.written = append(j.written, path)
	return nil
}

// errNoFiles is the error of a conversion that finds none of its input files.
var errNoFiles = errors.New("none of its files is there")
