// Command site writes the generated pages of the documentation site as Markdown: one for each environment, from
// its Spec; for each command of trainer and server, from cobra; for each algorithm, from its Config; and the
// list of Go packages. tools/site/build.py makes HTML from them and from the repository's documents. Links are
// relative to the repository's root, and begin with a slash.
//
// Usage: go run ./tools/site --out FOLDER, in the repository's root
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	out := flag.String("out", "", "folder for the pages, which is made")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	for _, part := range []func(context.Context, pages) error{environments, commands, algorithmPages, packages} {
		if err := part(context.Background(), pages(*out)); err != nil {
			log.Fatal("site: ", err)
		}
	}
}

// pages is the output folder.
type pages string

// write writes a file into the folder.
func (p pages) write(name string, content []byte) error {
	path := filepath.Join(string(p), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// page is a Markdown text under construction.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// section writes a heading and a table below it, or nothing if the table has no rows.
func (p *page) section(heading string, columns []string, rows [][]string) {
	if len(rows) > 0 {
		p.printf("\n## %s\n\n", heading)
		p.table(columns, rows)
	}
}

// table writes a table. A column whose name begins with > is right-aligned; a column of empty cells is omitted.
func (p *page) table(columns []string, rows [][]string) {
	filled := func(c int) bool { return slices.ContainsFunc(rows, func(r []string) bool { return r[c] != "" }) }
	line := func(cell func(int) string) {
		for c := range columns {
			if filled(c) {
				p.printf("| %s ", cell(c))
			}
		}
		p.printf("|\n")
	}
	line(func(c int) string { return strings.TrimPrefix(columns[c], ">") })
	line(func(c int) string {
		if strings.HasPrefix(columns[c], ">") {
			return "--:"
		}
		return "---"
	})
	for _, r := range rows {
		line(func(c int) string { return strings.ReplaceAll(strings.ReplaceAll(r[c], "|", `\|`), "\n", " ") })
	}
}

// list writes the page of a group: a link to each page, and the tree for the site's menu.
func (p *page) list(columns []string, rows [][]string, names []string) {
	p.table(columns, rows)
	p.printf("\n```{toctree}\n:hidden:\n\n%s\n```\n", strings.Join(names, "\n"))
}

// plain escapes Markdown in a plain sentence.
func plain(s string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", "&lt;", "[", `\[`, "`", "\\`").Replace(s)
}

// code returns s as a code span, or "" for "".
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
