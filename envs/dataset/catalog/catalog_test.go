package catalog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// entry is a manifest of one data set. The digest is of "abc" (FIPS 180-2, appendix B.1).
const entry = `- name: one
  title: t
  source: https://example.org/one
  revision: r1
  base: https://example.org/one/raw/
  licence: MIT
  terms: none
  citation: c
  reads: nobody
  files:
    - {path: one/a b.csv, bytes: 3, sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad}
    - {path: one/c.csv, from: x/y.csv}
  verified: by nobody
`

func mustRead(t *testing.T, text string) *Dataset {
	t.Helper()
	sets, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return &sets[0]
}

// TestManifest: the manifest can be read, and has what the package's users ask for.
func TestManifest(t *testing.T) {
	if _, err := Read(bytes.NewReader(manifest)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openb", "gang", "nab", "metis", "azure", "borg", "alibaba"} {
		if !slices.Contains(Names(), name) {
			t.Errorf("no data set %s among %q", name, Names())
		}
	}
	// Of SHA256SUMS beside the trace.
	openb, err := Lookup("openb")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(openb.Files, func(f File) bool { return f.Path == "openb/openb_pod_list_multigpu20.csv" })
	if i < 0 || openb.Files[i].SHA256 != "d9ec6f6c74fb980cc0b81239470c6353fceea077ea9abd610003b604c7cc2b01" || openb.Files[i].Bytes != 271530 {
		t.Errorf("openb's list multigpu20 is number %d of %+v", i, openb.Files)
	}
	if _, err := Lookup("none"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Lookup(none): %v, want %v", err, ErrUnknown)
	}
}

func TestURL(t *testing.T) {
	d := mustRead(t, entry)
	for i, want := range []string{"https://example.org/one/raw/a%20b.csv", "https://example.org/one/raw/x/y.csv"} {
		if got := d.URL(&d.Files[i], ""); got != want {
			t.Errorf("URL %s, want %s", got, want)
		}
	}
	for _, mirror := range []string{"http://m/data", "http://m/data/"} {
		if got := d.URL(&d.Files[0], mirror); got != "http://m/data/one/a%20b.csv" {
			t.Errorf("with mirror %s: %s", mirror, got)
		}
	}
}

func TestReadErrors(t *testing.T) {
	replace := func(old, with string) string { return strings.Replace(entry, old, with, 1) }
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "EOF"},
		{"unknown field", entry + "  size: 3\n", "field size not found"},
		{"twice", entry + entry, `"one" is there twice`},
		{"no licence", replace("licence: MIT", "licence: ''"), "no licence"},
		{"no citation", replace("citation: c", "citation: ''"), "no citation"},
		{"out of the folder", replace("path: one/c.csv", "path: ../c.csv"), `path "../c.csv", want one below`},
		{"absolute", replace("path: one/c.csv", "path: /one/c.csv"), "want one below"},
		{"not clean", replace("path: one/c.csv", "path: one/../../c.csv"), "want one below"},
		{"no folder", replace("path: one/c.csv", "path: c.csv"), "want one below"},
		{"short digest", replace("ba7816", ""), "want 64 hexadecimal digits"},
		{"upper case", replace("ba7816", "BA7816"), "want 64 hexadecimal digits"},
		{"negative size", replace("bytes: 3, ", "bytes: -3, "), "-3 bytes, want the size"},
		{"size without a digest", replace("sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "sha256: ''"), "want 64 hexadecimal digits"},
		{"no word on unpinned files", replace("  verified: by nobody\n", ""), "1 files without sha256"},
		{"base", replace("raw/", "raw"), "want a slash at its end"},
		{"address", replace("source: https:", "source: ftp:"), "want an http or https URL"},
		{"convert without outputs", entry + "  convert: nab\n", "with 0 outputs"},
		{"another digest", entry + strings.Replace(replace("name: one", "name: two"), "sha256: ba", "sha256: aa", 1), "another digest in another data set"},
		{"parts", entry + "  parts: {path: one/%d, from: '%d', first: 3, last: 2}\n", "part 3, want 3 to 2"},
	} {
		if _, err := Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	d := mustRead(t, entry)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "one"), 0o755); err != nil {
			t.Fatal(err)
		}
		envstest.Write(t, filepath.Join(dir, name), text)
	}
	check := func(set SetState, files ...State) {
		t.Helper()
		r, err := d.Check(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []State
		for _, f := range r.Files {
			got = append(got, f.State)
		}
		if diff := cmp.Diff(files, got); diff != "" || r.State != set {
			t.Errorf("the set is %s, want %s; files (-want +got):\n%s", r.State, set, diff)
		}
	}
	check(Absent, Missing, Missing)
	write("one/a b.csv", "abc")
	check(Partial, OK, Missing)
	write("one/c.csv", "anything")
	check(Complete, OK, Unpinned)
	write(LockFile, `{"one/c.csv": {"url": "u", "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "bytes": 3}}`)
	check(Wrong, OK, Differs)
	write("one/c.csv", "abc")
	check(Complete, OK, Recorded)
	write("one/a b.csv", "abcd")
	check(Wrong, Differs, Recorded)
	write(LockFile, "no JSON")
	if _, err := d.Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "remove it, and fetch again") {
		t.Errorf("a broken record: %v", err)
	}
	write(LockFile, "{}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Check(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if err := os.RemoveAll(filepath.Join(dir, "one")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "one/c.csv"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder in a file's place: %v", err)
	}
}

// TestCheckOutputs: a set is complete with what its conversion makes, without the files that this is made of.
func TestCheckOutputs(t *testing.T) {
	d := mustRead(t, entry+"  convert: x\n  outputs: [{path: out/d.csv}]\n")
	dir := t.TempDir()
	for _, step := range []struct {
		path string
		want SetState
	}{{"one/c.csv", Partial}, {"out/d.csv", Complete}} {
		name := filepath.Join(dir, step.path)
		envstest.Write(t, name, "")
		if r, err := d.Check(t.Context(), dir); err != nil || r.State != step.want {
			t.Errorf("with %s: %v, %v; want %s", step.path, r.State, err, step.want)
		}
	}
}

// TestCheckParts: of a set in parts, those that are there are compared.
func TestCheckParts(t *testing.T) {
	d := mustRead(t, entry+"  parts: {path: one/p-%d-of-9.gz, from: p-%d, first: 1, last: 9}\n")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "one"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p-2-of-9.gz", "p-9-of-9.gz", "p-10-of-9.gz", "p-02-of-9.gz", ".p-3-of-9.gz.part"} {
		envstest.Write(t, filepath.Join(dir, "one", name), "")
	}
	r, err := d.Check(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, f := range r.Files {
		if f.State != Missing {
			there = append(there, f.Path)
		}
	}
	if diff := cmp.Diff([]string{"one/p-2-of-9.gz", "one/p-9-of-9.gz"}, there); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// FuzzRead: whatever is read as a manifest names files below the data folder only.
func FuzzRead(f *testing.F) {
	f.Add(entry)
	f.Add(strings.Replace(entry, "one/c.csv", "one/../../c.csv", 1))
	f.Add(entry + "  parts: {path: one/%d, from: '%d', first: 0, last: 2}\n")
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, d := range sets {
			for _, file := range append(d.Files, d.Outputs...) {
				if !filepath.IsLocal(filepath.FromSlash(file.Path)) {
					t.Errorf("path %q leaves the data folder", file.Path)
				}
			}
		}
	})
}
