package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// generate runs a part of the generator in the repository's root and returns how to read a page.
func generate(t *testing.T, parts ...func(pages) error) func(name string) string {
	t.Helper()
	t.Chdir("../..")
	out := t.TempDir()
	for _, part := range parts {
		if err := part(pages(out)); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string {
		t.Helper()
		return envstest.Read(t, filepath.Join(out, name))
	}
}

func contains(t *testing.T, name, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q", name, w)
		}
	}
}

// TestEnvironments: each environment has a page with all sections; CartPole's figures are Gymnasium's.
func TestEnvironments(t *testing.T) {
	read := generate(t, func(p pages) error { return environments(t.Context(), p) })
	index := read("environments/index.md")
	count := 0
	for _, s := range envs.Specs() {
		if s.Backend != nil {
			continue
		}
		count++
		name := slug(s.ID) + ".md"
		contains(t, "the index", index, "]("+name+")")
		contains(t, name, read("environments/"+name), "# "+s.ID+"\n", "\n## Render\n", "\n## Options\n", "\n## Observation\n", "\n## Baselines\n", "/README.md)")
	}
	if count < 10 {
		t.Errorf("%d environments, want all", count)
	}
	contains(t, "CartPole", read("environments/classic-CartPole-v1.md"), "| observation space | Box(4) |", "| action space | Discrete(2) |",
		"| steps of an episode | at most 500 |", "| solved at a mean return of | 475 |", "| `pole_angle` | 2 | -0.4189 | 0.4189 |", "## Scores")
	if png := read("environments/classic-CartPole-v1.png"); !strings.HasPrefix(png, "\x89PNG") {
		t.Error("the picture of CartPole is no PNG file")
	}
}

// TestAlgorithms: PPO's defaults are those of Stable-Baselines3's documentation.
func TestAlgorithms(t *testing.T) {
	read := generate(t, func(p pages) error { return algorithmPages(t.Context(), p) })
	contains(t, "ppo", read("algorithms/ppo.md"), "| `gae_lambda` | `0.95` | λ of", "| `clip_range` | `0.2` |", "| `n_steps` | `2048` |", "(/agents/ppo/README.md)")
	contains(t, "ppo_lstm", read("algorithms/ppo_lstm.md"), "| `n_steps` | `128` |")
}

// TestCommands: subcommands have pages that link each other.
func TestCommands(t *testing.T) {
	read := generate(t, func(p pages) error { return commands(t.Context(), p) })
	contains(t, "the index", read("commands/index.md"), "[`trainer kwok shadow`](trainer_kwok_shadow.md)", "[`server`](server.md)")
	contains(t, "train", read("commands/trainer_train.md"), "# trainer train\n", "--reward-threshold float", "(trainer.md)")
	contains(t, "server", read("commands/server.md"), "--deny-files")
	if text := read("commands/trainer.md"); strings.Contains(text, "completion") {
		t.Error("trainer links the page of completion, which is not written")
	}
}

// TestPlain: a sentence stays what it is in Markdown.
func TestPlain(t *testing.T) {
	if got, want := plain("a_b in [0, 1] of <x> * `c`"), "a\\_b in \\[0, 1] of &lt;x> \\* \\`c\\`"; got != want {
		t.Errorf("plain() = %s, want %s", got, want)
	}
}
