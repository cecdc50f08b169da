package core

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

var updateCards = flag.Bool("update-cards", false, "rewrite the sections on several seeds of models/pretrained")

// handTable is a table of compare with three seeds of CartPole. Its means are 480, 470 and 445, together 465; the best
// baseline has 475.
const handTable = `policy,mean return,95 % interval,difference to pole-angle,95 % interval,p (Holm),verdict
ppo seed_2,480.00,"[470.00, 490.00]",+5.00,"[1.00, 9.00]",0.03,better
pole-angle,475.00,"[465.00, 485.00]",,,,
ppo seed_1,470.00,"[460.00, 480.00]",-5.00,"[-11.00, 1.00]",0.2,undecided
"ppo, 3 seeds",465.00,"[440.00, 490.00]",-10.00,"[-40.00, 20.00]",0.4,undecided
ppo seed_3,445.00,"[430.00, 460.00]",-30.00,"[-40.00, -20.00]",0.0001,worse
lean,40.00,"[38.00, 42.00]",-435.00,"[-437.00, -433.00]",,
random,22.00,"[20.00, 24.00]",-453.00,"[-455.00, -451.00]",,
`

// seedsFolder returns a folder with a seedsFile of this content and the given tables.
func seedsFolder(t *testing.T, list string, tables map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range tables {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, seedsFile), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestSeedsSection: a card's section has a line for each table, with the best and the worst seed and the verdict over
// seeds and episodes. The lines are those of handTable.
func TestSeedsSection(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := seedsSection(t.TempDir(), spec, nil); got != "" || err != nil {
		t.Errorf("a folder without %s: %q, %v", seedsFile, got, err)
	}
	pair := strings.NewReplacer("ppo seed_1", "a2c seed_1", "3 seeds", "2 seeds").Replace(handTable) // no row for each seed
	folder := seedsFolder(t, "- {name: long poles, record: a.csv, episodes: 100, sealed: {table: b.csv, episodes: 300}}\n",
		map[string]string{"a.csv": handTable, "b.csv": pair})
	got, err := seedsSection(folder, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `
## Several seeds

Each model above is from one training. These are trainings with several seeds. They are parts of ` + "`make results`" + `, some
with other options of the environment than above. Mean return over all seeds and held-out episodes; higher is better.
Intervals and p-values are over seeds and episodes ([method](../../../docs/results/method.md#several-seeds)). The
numbers of episodes link to the tables of all policies. Sealed episodes were played once.

| training   |            episodes | seeds |   mean |       best seed |      worst seed | best baseline | its mean | difference |   95 % interval | p (Holm) | verdict   |
| ---------- | ------------------: | ----: | -----: | --------------: | --------------: | ------------- | -------: | ---------: | --------------: | -------: | --------- |
| long poles |        [100](a.csv) |     3 | 465.00 | 480.00 (seed_2) | 445.00 (seed_3) | pole-angle    |   475.00 |     -10.00 | [-40.00, 20.00] |      0.4 | undecided |
|            | [300 sealed](b.csv) |     2 | 465.00 |                 |                 | pole-angle    |   475.00 |     -10.00 | [-40.00, 20.00] |      0.4 | undecided |
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("section (-want +got):\n%s", d)
	}
}

// TestSeedsSectionErrors: a table of another environment or without one training of several seeds, and a list without
// what a line needs, are errors that name what is wrong.
func TestSeedsSectionErrors(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	const list = "- {name: long poles, record: a.csv, episodes: 100}\n"
	change := func(old, new string) string { return strings.ReplaceAll(handTable, old, new) }
	for _, tc := range []struct{ name, list, table, want string }{
		{"another metric", list, change("mean return", "mean cost"), "trainings.yml: training long poles: a.csv: a table of another environment: its metric is cost, that of classic/CartPole-v1 is return"},
		{"another baseline", list, change("lean", "Greedy"), "a table of another environment: classic/CartPole-v1 has no baseline Greedy"},
		{"a clairvoyant one", list, change("lean", "lean (clairvoyant)"), "classic/CartPole-v1 has no baseline lean (clairvoyant)"},
		{"no training", list, change(`"ppo, 3 seeds"`, "ppo seed_4"), "a.csv: 0 trainings of several seeds, want one"},
		{"two trainings", list, change("ppo seed_3", `"a2c, 2 seeds"`), "2 trainings of several seeds, want one"},
		{"no baselines", list, "policy,mean return,95 % interval,difference to ,95 % interval\n\"ppo, 3 seeds\",1,2,,\n", "want those of compare --csv"},
		{"no best baseline", list, change("pole-angle,475", "lean,475"), `no row of the best baseline, "pole-angle"`},
		{"another table", list, "policy,seed,timesteps,mean_return\nPPO,1,5,2\n", "want those of compare --csv"},
		{"no table", "- {name: long poles, record: none.csv, episodes: 100}\n", handTable, "none.csv: open "},
		{"no name", "- {record: a.csv, episodes: 100}\n", handTable, "training 1: want a name"},
		{"no episodes", "- {name: x, record: a.csv}\n", handTable, "training x: want a table, and at least 2 episodes"},
		{"an unknown key", "- {name: x, table: a.csv, episodes: 100}\n", handTable, "field table not found"},
		{"nothing", "[]\n", handTable, "want at least one training"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := seedsSection(seedsFolder(t, tc.list, map[string]string{"a.csv": tc.table}), spec, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestPretrainedSeeds: the card of each environment with a list of trainings of several seeds has their section right after
// the scores, and other cards have none. -update-cards rewrites the sections from the tables, without playing.
func TestPretrainedSeeds(t *testing.T) {
	cards, err := filepath.Glob("../../../models/pretrained/*/card.md")
	if err != nil || len(cards) == 0 {
		t.Fatalf("%d cards, %v", len(cards), err)
	}
	with := 0
	for _, path := range cards {
		folder := filepath.Dir(path)
		files, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		id, kwargs, err := play.EnvOf("", files)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := envs.Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		want, err := seedsSection(folder, spec, kwargs)
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		if want != "" {
			with++
		}
		text := envstest.Read(t, path)
		head, rest, ok := strings.Cut(text, "\n## Models\n")
		scores, _, _ := strings.Cut(head, "\n## Several seeds\n")
		whole := scores + want + "\n## Models\n" + rest
		switch {
		case !ok:
			t.Errorf("%s has no section Models", path)
		case whole == text:
		case *updateCards:
			if err := os.WriteFile(path, []byte(whole), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("the section on several seeds of %s differs from its tables; -update-cards rewrites it (-want +got):\n%s", path, cmp.Diff(whole, text))
		}
	}
	if with == 0 {
		t.Error("no card has trainings of several seeds")
	}
}
