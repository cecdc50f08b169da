// Command boardbundle bundles the page of package board: board/ui into board/dist. With --check it only
// compares, and fails if they differ. It uses esbuild as a library, so that it needs no Node.
//
// Usage: go run ./tools/boardbundle [--check] (in the repository's root)
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	source = "board/ui"
	target = "board/dist"
	others = source + "/third_party"
)

func main() {
	check := flag.Bool("check", false, "compare only")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "boardbundle:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	files, err := bundle()
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(target, name)
		if !check {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
			continue
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
			return fmt.Errorf("%s is not what %s gives: run go run ./tools/boardbundle", path, source)
		}
	}
	return nil
}

// bundle returns the files of the page.
func bundle() (map[string][]byte, error) {
	absolute := func(path string) string {
		full, err := filepath.Abs(filepath.Join(others, path))
		if err != nil { // there is no working directory
			panic(err)
		}
		return full
	}
	res := api.Build(api.BuildOptions{
		EntryPoints:       []string{source + "/src/main.tsx"},
		Bundle:            true,
		MinifySyntax:      true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		JSXFactory:        "h",
		JSXFragment:       "Fragment",
		LegalComments:     api.LegalCommentsInline,
		Alias: map[string]string{
			"preact": absolute("preact/preact.module.js"), "preact/hooks": absolute("preact/hooks.module.js"), "uplot": absolute("uplot/uPlot.esm.js"),
		},
	})
	var errs []error
	for _, m := range res.Errors {
		errs = append(errs, fmt.Errorf("%+v: %s", m.Location, m.Text))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	files := map[string][]byte{"app.js": res.OutputFiles[0].Contents}
	for name, parts := range map[string][]string{
		"index.html":   {source + "/index.html"},
		"app.css":      {others + "/uplot/uPlot.min.css", source + "/style.css"},
		"licences.txt": {others + "/preact/LICENSE", others + "/uplot/LICENSE"},
	} {
		for _, p := range parts {
			text, err := os.ReadFile(p)
			if err != nil {
				return nil, err
			}
			files[name] = append(files[name], text...)
		}
	}
	return files, nil
}
