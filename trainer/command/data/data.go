// Package data holds the commands below `trainer data`, which list, download, convert and verify public data
// sets.
package data

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/convert"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// New returns the command data.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Public data sets: list, fetch, convert and verify them",
		Long: `Public data sets: list, fetch, convert and verify them.

Environments generate their own instances and need no data set. Published results need the published data.
Each set has its owner's licence, which list shows.`,
		Example: `  trainer data list
  trainer data fetch openb nab
  trainer data check`,
	}
	cmd.AddCommand(newList(), newFetch(), newConvert(), newCheck())
	return cmd
}

// sets returns the named data sets, or all.
func sets(names []string) ([]catalog.Dataset, error) {
	if len(names) == 0 {
		return catalog.All(), nil
	}
	var some []catalog.Dataset
	for _, name := range names {
		d, err := catalog.Lookup(name)
		if err != nil {
			return nil, err
		}
		some = append(some, *d)
	}
	return some, nil
}

// folder returns the data folder: the given one, or that of the other commands, or ../shared/data.
func folder(given string) string {
	return cmp.Or(given, cli.DataFolder(), filepath.Join("..", "shared", "data"))
}

const folderUsage = "data folder (default: that of " + cli.DataVariable + ", or ../shared/data beside the repository)"

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List the data sets: licence, size, source and readers",
		Long: `List the data sets: licence, size, source and readers.

With names, it prints their details: citation, revision, files with their sizes and digests, and how
files without a digest are verified.`,
		Example: `  trainer data list
  trainer data list metis
  trainer data list --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			some, err := sets(args)
			if err != nil {
				return err
			}
			t := tracking.NewTable("name", "licence", ">files", ">size", "what it is", "source")
			for i := range some {
				d := &some[i]
				t.Append(d.Name, d.Licence, fileCount(d), size(d), d.Title, d.Source)
			}
			return cli.Print(cmd, some, func(w io.Writer) error {
				if len(args) == 0 {
					return t.WriteText(w)
				}
				for i := range some {
					describe(w, &some[i])
				}
				return nil
			})
		},
	}
}

// fileCount returns the number of published files.
func fileCount(d *catalog.Dataset) string {
	text := fmt.Sprint(len(d.Files))
	if d.Parts != nil {
		text += " + parts"
	}
	return text
}

// size returns the size of the published files, as far as it is known.
func size(d *catalog.Dataset) string {
	known, unknown := d.Bytes()
	switch {
	case known == 0:
		return "unknown"
	case unknown > 0:
		return megabytes(known) + " + unknown"
	}
	return megabytes(known)
}

// describe prints an entry of the manifest.
func describe(out io.Writer, d *catalog.Dataset) {
	fmt.Fprintf(out, "%s: %s\n", d.Name, d.Title)
	for _, line := range [][2]string{
		{"source", d.Source}, {"revision", d.Revision}, {"licence", d.Licence + " (" + d.Terms + ")"}, {"citation", d.Citation},
		{"read by", d.Reads}, {"unpinned files", d.Verified}, {"conversion", convert.Conversions[d.Convert].Doc},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "  %-16s%s\n", line[0]+":", line[1])
		}
	}
	t := tracking.NewTable("file", ">bytes", "sha256", "address")
	for i := range d.Files {
		f := &d.Files[i]
		t.Append(f.Path, bytesText(f), sumText(f), d.URL(f, ""))
	}
	if p := d.Parts; p != nil {
		t.Append(p.Path, "", "unpinned", fmt.Sprintf("%s%s, %d to %d", d.Base, p.From, p.First, p.Last))
	}
	for i := range d.Outputs {
		f := &d.Outputs[i]
		t.Append(f.Path, bytesText(f), sumText(f), "converted")
	}
	t.WriteText(out)
	fmt.Fprintln(out)
}

func bytesText(f *catalog.File) string {
	if f.Bytes == 0 {
		return ""
	}
	return fmt.Sprint(f.Bytes)
}

func sumText(f *catalog.File) string {
	if !f.Pinned() {
		return "unpinned"
	}
	return f.SHA256
}

// nameList joins names for usage texts.
func nameList() string { return strings.Join(catalog.Names(), ", ") }
