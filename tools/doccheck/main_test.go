package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestArchitecture(t *testing.T) {
	repo := fstest.MapFS{
		"models/pretrained/card.md":  {},
		"kwok/controlplane/go.mod":   {},
		"kwok/controlplane/main.go":  {},
		"agents/gone_into/orphan.go": {},
	}
	text := "# A\n\n## Packages\n\n| package | what |\n|---|---|\n| `envs`, `envs/gang` | `not` this |\n" +
		"| `models/pretrained`, `kwok/controlplane` | no code; a module of its own |\n" +
		"| `agents/gone`, `envs`, `agents/gone_into` | |\n\n## Imports\n\n| `elsewhere` | |\n"
	got := architecture(text, []string{"envs", "envs/gang", "envs/lra"}, repo)
	want := []string{
		"docs/architecture.md: agents/gone is no package",
		"docs/architecture.md: envs is named twice",
		"docs/architecture.md: agents/gone_into is no package",
		"docs/architecture.md: package envs/lra is not in the table of packages",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestLengths(t *testing.T) {
	docs := map[string]string{
		"README.md":           strings.Repeat("x\n", 111),
		"envs/gang/README.md": strings.Repeat("x\n", 201),
		"envs/lra/README.md":  strings.Repeat("x\n", 200),
		"docs/long.md":        strings.Repeat("x\n", 900),
	}
	want := []string{"README.md: 111 lines, want at most 110", "envs/gang/README.md: 201 lines, want at most 200"}
	if d := cmp.Diff(want, lengths(docs)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// readme is the README of an environment with the given sections, and a result.
func readme(sections []string, results string) string {
	var b strings.Builder
	for _, s := range sections {
		b.WriteString("## " + s + "\n")
		if s == "Results" {
			b.WriteString(results)
		}
	}
	return b.String()
}

func TestEnvironmentREADMEs(t *testing.T) {
	results := "\n| `static_3` | 12.5 | [3, 4] |\n\n[page](../../docs/results/a.md)\n"
	good := readme(sections, results)
	other := strings.Replace(strings.Replace(good, "## Action\n", "", 1), "## Options\n", "## Options\n## Action\n", 1)
	for name, tt := range map[string]struct {
		docs map[string]string
		envs []string
		want []string
	}{
		"all sections, README above": {
			map[string]string{"envs/a/README.md": good}, []string{"envs/a/one", "envs/a/two"}, nil,
		},
		"other order": {
			map[string]string{"envs/a/README.md": other}, []string{"envs/a"},
			[]string{`envs/a/README.md: sections ["Description" "Observation" "Reward" "Start and end" "Options" "Action" "Baselines" "Results" "Data and source" "Versions"], want ["Description" "Action" "Observation" "Reward" "Start and end" "Options" "Baselines" "Results" "Data and source" "Versions"]`},
		},
		"a package beside has some of them": {
			map[string]string{"envs/a/README.md": good, "envs/a/b/README.md": "## Use\n## Results\n## Versions\n"}, []string{"envs/a"}, nil,
		},
		"and in order": {
			map[string]string{"envs/a/README.md": good, "envs/a/b/README.md": "## Versions\n## Use\n## Results\n"}, []string{"envs/a"},
			[]string{`envs/a/b/README.md: sections ["Versions" "Results"], want ["Results" "Versions"]`},
		},
		"no README": {
			map[string]string{"envs/README.md": good, "README.md": good}, []string{"envs/a"},
			[]string{"envs/a: no README.md in this folder or above"},
		},
		"a figure that is on no page": {
			map[string]string{"envs/a/README.md": readme(sections, strings.Replace(results, "12.5", "12.6", 1))}, []string{"envs/a"},
			[]string{"envs/a/README.md: 12.6 in section Results is not on its page of docs/results"},
		},
		"no page": {
			map[string]string{"envs/a/README.md": readme(sections, "text\n")}, []string{"envs/a"},
			[]string{"envs/a/README.md: section Results links no page of docs/results"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.docs["docs/results/a.md"] = "| 12.5 [3, 4] | 112.6 |\n"
			var got []string
			for _, b := range environmentREADMEs(tt.docs, tt.envs) {
				if !strings.HasPrefix(b, "envs/README.md") {
					got = append(got, b)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	repo := fstest.MapFS{"docs/b.md": {}, "docs/img/p.png": {}, "envs/env.go": {}, "README.md": {}}
	docs := map[string]string{
		"README.md": "# A\n\n[b](docs/b.md#two-words-and-code), ![p](docs/img/p.png) and [`Task`](envs/env.go)\n" +
			"[self](#a) [out](https://example.org/x) [none](docs/c.md)\n" +
			"[gone](docs/b.md#three) `[no link](x.md)`\n\n    [code](y.md)\n\n```\n[fence](z.md)\n```\n",
		"docs/b.md": "# B\n\n## Two words, and `code`\n\n## Same\n## Same\n\n" +
			"[up](../README.md) [second](#same-1) [third](#same-2)\n\n- list\n\n    - [nested](gone.md)\n",
	}
	want := []string{
		"README.md:4: no file docs/c.md",
		"README.md:5: no heading #three in docs/b.md",
		"docs/b.md:8: no heading #same-2 in docs/b.md",
		"docs/b.md:12: no file docs/gone.md",
	}
	if d := cmp.Diff(want, links(docs, repo)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Folders of builds, of logs and of tools are left out.
func TestFiles(t *testing.T) {
	repo := fstest.MapFS{
		"README.md": {}, "docs/a.md": {Data: []byte("x")}, ".git/c.md": {}, "logs/d.md": {}, "docs/e.go": {}, "bin/f.md": {},
	}
	got, err := files(repo, ".md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"README.md": "", "docs/a.md": "x"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestTests(t *testing.T) {
	docs := map[string]string{
		"a.md": "`TestA` and `BenchmarkB/prepared`, `FuzzC`; TestD, `Testing`, `go test -run TestE`\n",
		"b.md": "`TestGone`, `TestA`\n",
	}
	code := map[string]string{"x/x_test.go": "func TestA(t *testing.T) {\n}\n\nfunc BenchmarkB(b *testing.B) {\n", "y_test.go": "// func FuzzC(f"}
	want := []string{"a.md: no test FuzzC", "b.md: no test TestGone"}
	if d := cmp.Diff(want, tests(docs, code)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
