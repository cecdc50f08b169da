// Command notices collects the licences of the modules that programs are built from. It fails if a licence is
// missing or is not on the list of those that are compatible with Apache-2.0.
//
// Usage: go run ./tools/notices [-C folder] [-tags list] [-o file] [packages]
//
// It reads the modules from the build of the packages for each system of the releases. The file contains every
// licence and NOTICE once, below the list of its modules. Without -o it prints a table of modules and licences.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/licensecheck"
)

// allowed holds the SPDX ids of licences that a program under Apache-2.0 may contain.
var allowed = map[string]bool{
	"0BSD": true, "Apache-2.0": true, "BSD-2-Clause": true, "BSD-2-Clause-Views": true, "BSD-3-Clause": true,
	"CC0-1.0": true, "ISC": true, "MIT": true, "OFL-1.1": true, "Unlicense": true, "Zlib": true,
	"BSL-1.0": true, "FTL": true, "HPND": true, "NCSA": true,
	"CC-BY-4.0": true, // of svgo; the notices contain its attribution
	"MPL-2.0":   true, // of unmodified files
}

// A choice overrides the licence that the files in a module's folder show.
type choice struct {
	id    string // of the licence
	files []string
}

// choices lists modules whose terms a person has read.
var choices = map[string]choice{
	// The FreeType licence or GPL-2.0, as the user prefers.
	"github.com/golang/freetype": {"FTL", []string{"LICENSE", "licenses/ftl.txt"}},
	// LICENSE.txt also has the licences of C++ libraries such as OpenSSL, which no Go package contains.
	"github.com/apache/arrow/go/arrow": {"Apache-2.0", []string{"LICENSE.txt"}},
	// LICENSE.docs, with CC-BY-SA-4.0, applies to its documents, which no program contains.
	"github.com/opencontainers/go-digest": {"Apache-2.0", []string{"LICENSE"}},
}

// systems are the systems of the releases; some modules are built for only one.
var systems = []string{"linux", "darwin", "windows"}

// licenceFile matches names of files with licences and notices.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|ofl)([-._].*)?$`)

type module struct {
	Path, Version, Dir string
	Main               bool
}

func main() {
	folder := flag.String("C", ".", "folder of the module that has the packages")
	tags := flag.String("tags", "", "build tags of the programs")
	out := flag.String("o", "", "file to write")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./server", "./trainer"}
	}
	if err := run(*folder, *tags, *out, patterns, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(folder, tags, out string, patterns []string, stdout io.Writer) error {
	modules, err := modulesOf(folder, tags, patterns)
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	modules = append(modules, module{Path: "the Go standard library", Dir: strings.TrimSpace(string(goroot))})
	texts, rows, err := collect(modules)
	if err != nil {
		return err
	}
	if out == "" {
		_, err := fmt.Fprintln(stdout, strings.Join(rows, "\n"))
		return err
	}
	return os.WriteFile(out, []byte(render(texts)), 0o644)
}

// modulesOf returns the modules of the packages' builds except those of this repository, and the folders with a
// licence that it embeds, by path.
func modulesOf(folder, tags string, patterns []string) ([]module, error) {
	found := map[string]module{}
	for _, system := range systems {
		cmd := exec.Command("go", append([]string{"list", "-tags", tags, "-deps", "-json=ImportPath,Dir,EmbedFiles,Module"}, patterns...)...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		data, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(data))); ; {
			var p struct {
				ImportPath, Dir string
				EmbedFiles      []string
				Module          *module
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if m := p.Module; m != nil && !m.Main && !strings.HasPrefix(m.Path, "github.com/kubernasium/kubernasium") {
				found[m.Path] = *m
				continue
			}
			for _, file := range p.EmbedFiles { // third-party data that a package of this repository embeds
				if folder := filepath.Dir(file); licenceFile.MatchString(filepath.Base(file)) {
					name := p.ImportPath + "/" + filepath.ToSlash(folder)
					found[name] = module{Path: name, Dir: filepath.Join(p.Dir, folder)}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b module) int { return strings.Compare(a.Path, b.Path) }), nil
}

// A text is a licence or a notice with its modules.
type text struct {
	modules []string
	content string
}

// collect returns the texts in the order of their first modules, and a row for each module. The error names
// every module without a licence, or with one that is not allowed.
func collect(modules []module) (texts []*text, rows []string, err error) {
	byHash := map[[32]byte]*text{}
	var bad []error
	for _, m := range modules {
		ids, contents, e := licences(m)
		name := strings.TrimSpace(m.Path + " " + m.Version)
		rows = append(rows, name+"\t"+strings.Join(ids, ", "))
		switch {
		case e != nil:
			bad = append(bad, fmt.Errorf("%s: %w", name, e))
		case len(ids) == 0:
			bad = append(bad, fmt.Errorf("%s: no licence found in %s", name, m.Dir))
		}
		for _, id := range ids {
			if !allowed[id] {
				bad = append(bad, fmt.Errorf("%s: licence %s is not on the list of tools/notices", name, id))
			}
		}
		for _, c := range contents {
			key := sha256.Sum256([]byte(c))
			if byHash[key] == nil {
				byHash[key] = &text{content: c}
				texts = append(texts, byHash[key])
			}
			byHash[key].modules = append(byHash[key].modules, name)
		}
	}
	return texts, rows, errors.Join(bad...)
}

// licences returns the SPDX ids of a module's licences, and the texts in its folder.
func licences(m module) (ids, contents []string, err error) {
	chosen, ok := choices[m.Path]
	if !ok {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && licenceFile.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") {
				chosen.files = append(chosen.files, e.Name())
			}
		}
	}
	found := map[string]bool{}
	for _, name := range chosen.files {
		data, err := os.ReadFile(filepath.Join(m.Dir, name))
		if err != nil {
			return nil, nil, err
		}
		contents = append(contents, clean(data))
		for _, match := range licensecheck.Scan(data).Match {
			if !match.IsURL {
				found[match.ID] = true
			}
		}
	}
	if ok {
		found = map[string]bool{chosen.id: true}
	}
	return slices.Sorted(maps.Keys(found)), contents, nil
}

// clean returns a text as UTF-8 with Unix line endings. It reads other encodings as Latin-1.
func clean(data []byte) string {
	s := string(data)
	if !utf8.Valid(data) {
		runes := make([]rune, len(data))
		for i, b := range data {
			runes[i] = rune(b)
		}
		s = string(runes)
	}
	return strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
}

// render returns the contents of the notices file.
func render(texts []*text) string {
	var b strings.Builder
	b.WriteString("This program contains software of others. Their licences and notices follow.\n")
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(t.modules, "\n"), strings.Repeat("=", 80), t.content)
	}
	return b.String()
}
