package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSnippets(t *testing.T) {
	block := "# A\n\n```go\nimport (\n\t\"a\"\n)\n\nx := 1 // one\nuse(x)\n```\n"
	example := "package a\n\nfunc Example() {\n\tdefer func() {}()\n\tx := 1 //   one\n\tuse(x)\n\t// Output: 1\n}\n\nfunc use(int) {}\n"
	missing := []string{"a.md: no example with an output has the block x := 1 // one use(x)"}
	for name, test := range map[string]struct {
		document, code string
		want           []string
	}{
		"example":          {block, example, nil},
		"no example":       {block, "package a\n", missing},
		"other code":       {block, "package a\n\nfunc Example() {\n\tx := 2 // one\n\tuse(x)\n\t// Output: 1\n}\n", missing},
		"without output":   {block, "package a\n\nfunc Example() {\n\tx := 1 // one\n\tuse(x)\n}\n\nfunc f() {\n\t// Output: 1\n}\n", missing},
		"other function":   {block, "package a\n\nfunc Example() {\n\t// Output: 1\n}\n\nfunc f() {\n\tx := 1 // one\n\tuse(x)\n\t// Output: 1\n}\n", missing},
		"targets":          {"`make lint` and\n\n    make a bin/b C=d    # and gone\n\n```sh\nmake lint\n```\n", "", nil},
		"no target":        {"    make a gone\n\n```sh\nmake off\n```\n\nmake believe in prose `make lost V=1`\n", "", []string{"a.md: make has no target gone", "a.md: make has no target off", "a.md: make has no target lost"}},
		"message of wires": {"A client sends `make`.\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := snippets(map[string]string{"a.md": test.document, "docs/tutorials/x.md": "```go\nleft out\n```\n"},
				map[string]string{"a_test.go": test.code}, "a lint: ## help\nbin/b: c\n\techo\nX := 1\n")
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
