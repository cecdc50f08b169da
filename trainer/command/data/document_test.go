package data

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

var update = flag.Bool("update-table", false, "write the table of docs/data.md")

const (
	document = "../../../docs/data.md"
	begin    = "<!-- begin: table of data sets, made by go test ./trainer/command/data -run TestDocument -args -update-table -->\n"
	end      = "<!-- end -->\n"
)

// table returns the data sets as Markdown.
func table() string {
	var b strings.Builder
	b.WriteString("| set | licence | files | size | digests | read by |\n|---|---|---|---|---|---|\n")
	for _, d := range catalog.All() {
		pinned, all := 0, 0
		for _, f := range d.Files {
			all++
			if f.Pinned() {
				pinned++
			}
		}
		digests := fmt.Sprintf("%d of %d", pinned, all)
		if d.Parts != nil {
			digests += ", none of the parts"
		}
		fmt.Fprintf(&b, "| [`%s`](%s): %s | %s: %s | %s | %s | %s | %s |\n", d.Name, d.Source, d.Title, d.Licence, d.Terms, fileCount(&d), size(&d), digests, d.Reads)
	}
	b.WriteString("\nCite:\n\n")
	for _, d := range catalog.All() {
		fmt.Fprintf(&b, "- `%s` at revision %s: %s\n", d.Name, d.Revision, d.Citation)
	}
	return b.String()
}

// TestDocument: the table of the document is the manifest's.
func TestDocument(t *testing.T) {
	head, rest, ok := strings.Cut(envstest.Read(t, document), begin)
	if !ok {
		t.Fatalf("%s has no line %s", document, begin)
	}
	got, tail, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no line %s", document, end)
	}
	if *update {
		envstest.Write(t, document, head+begin+table()+end+tail)
		return
	}
	if got != table() {
		t.Errorf("the table of %s is not the manifest's: go test ./trainer/command/data -run TestDocument -args -update-table", document)
	}
}
