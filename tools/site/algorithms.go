package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents/algorithms"
)

// algorithmPages writes a page for each algorithm.
func algorithmPages(_ context.Context, out pages) error {
	index := &page{}
	index.printf("# Algorithms\n\nMade from the table of package [`agents/algorithms`](/agents/algorithms/algorithms.go). " +
		"How they are used: [training](/docs/training.md). What they reach: [published results](/docs/learning.md).\n\n")
	var rows [][]string
	var names []string
	for _, a := range slices.Concat(algorithms.All, algorithms.Offline) {
		p, short, err := algorithm(a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		if err := out.write("algorithms/"+a.Name+".md", []byte(p)); err != nil {
			return err
		}
		rows = append(rows, []string{fmt.Sprintf("[`%s`](%s.md)", a.Name, a.Name), short})
		names = append(names, a.Name)
	}
	index.list([]string{"`--algo`", "package"}, rows, names)
	return out.write("algorithms/index.md", []byte(index.String()))
}

// algorithm returns the page of an algorithm, and the first sentence of its package.
func algorithm(a algorithms.Algorithm) (text, short string, err error) {
	config := reflect.TypeOf(a.Defaults()).Elem()
	folder := strings.TrimPrefix(config.PkgPath(), module)
	doc, err := packageDoc(folder)
	if err != nil {
		return "", "", err
	}
	short = synopsis(doc)
	p := &page{}
	p.printf("# %s\n\n%s\n\n[Source](/%s)", a.Name, plain(short), folder)
	if _, err := os.Stat(folder + "/README.md"); err == nil {
		p.printf(" · [order of calls, equations, differences from Stable-Baselines3](/%s/README.md)", folder)
	}
	for _, tuned := range []string{"trainer/hyperparams/" + a.Name + ".yml", "trainer/searchspaces/" + a.Name + ".yml"} {
		if _, err := os.Stat(tuned); err == nil {
			p.printf(" · [%s](/%s)", path.Base(path.Dir(tuned)), tuned)
		}
	}
	p.printf("\n\n    trainer train --algo %s --env classic/CartPole-v1\n", a.Name)
	rows, err := hyperparameters(reflect.ValueOf(a.Defaults()).Elem())
	if err != nil {
		return "", "", err
	}
	if len(rows) == 0 {
		return "", "", fmt.Errorf("%s has no hyperparameters", config)
	}
	p.section("Hyperparameters", []string{"name (`--params name:value`)", "default", "meaning"}, rows)
	return p.String(), plain(short), nil
}

var toldDefault = regexp.MustCompile(`; default .*$`)

// hyperparameters lists the JSON names of a struct's fields with their values and comments.
func hyperparameters(v reflect.Value) (rows [][]string, err error) {
	docs, err := fieldDocs(v.Type())
	if err != nil {
		return nil, err
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			more, err := hyperparameters(v.Field(i))
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		default:
			value, err := json.Marshal(v.Field(i).Interface())
			if err != nil {
				return nil, err
			}
			if docs[f.Name] == "" {
				return nil, fmt.Errorf("%s.%s has no comment", v.Type(), f.Name)
			}
			rows = append(rows, []string{code(name), code(strings.Trim(string(value), `"`)), plain(toldDefault.ReplaceAllString(docs[f.Name], ""))})
		}
	}
	return rows, nil
}

// fieldDocs returns the comments of a struct's fields, above or beside them, by field name.
func fieldDocs(t reflect.Type) (map[string]string, error) {
	files, err := parseFolder(strings.TrimPrefix(t.PkgPath(), module))
	if err != nil {
		return nil, err
	}
	docs := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != t.Name() {
				return true
			}
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range f.Names {
					docs[name.Name] = strings.TrimSpace(f.Doc.Text() + " " + f.Comment.Text())
				}
			}
			return false
		})
	}
	return docs, nil
}

// parseFolder parses the Go files of a folder except its tests.
func parseFolder(folder string) (files []*ast.File, err error) {
	names, err := fs.Glob(os.DirFS(folder), "*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), folder+"/"+name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, err
}
