package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/doc"
	"io"
	"os/exec"
	"strings"
)

// packages writes the list of the module's Go packages, with the first sentence of each.
func packages(ctx context.Context, out pages) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Doc", "./...")
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	p := &page{}
	p.printf("# Go packages\n\nThe packages of module `%s`; [architecture](/docs/architecture.md) says how they fit together. "+
		"`go doc` shows one, such as `go doc ./envs`.\n\n", strings.TrimSuffix(module, "/"))
	var rows [][]string
	for dec := json.NewDecoder(strings.NewReader(string(list))); ; {
		var pkg struct{ ImportPath, Doc string }
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		folder := strings.TrimPrefix(pkg.ImportPath, module)
		rows = append(rows, []string{fmt.Sprintf("[`%s`](/%s)", folder, folder), plain(pkg.Doc)})
	}
	p.table([]string{"package", "synopsis"}, rows)
	return out.write("go.md", []byte(p.String()))
}

// packageDoc returns the comment of the package in a folder.
func packageDoc(folder string) (string, error) {
	files, err := parseFolder(folder)
	for _, f := range files {
		if f.Doc != nil {
			return f.Doc.Text(), nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("package %s has no comment", folder))
}

// synopsis returns the first sentence of a package's comment.
func synopsis(text string) string { return new(doc.Package).Synopsis(text) }
