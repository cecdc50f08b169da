package core

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// seedsFile is the file of a folder of models that lists trainings of several seeds for its card.
const seedsFile = "trainings.yml"

// seedsTraining is a training of several seeds in seedsFile. Its fields equal those of a part of tools/tables.
type seedsTraining struct {
	Name     string        `yaml:"name"`
	Record   string        `yaml:"record"` // path of a table of `compare --csv`, relative to the folder
	Episodes int           `yaml:"episodes"`
	Sealed   *sealedRecord `yaml:"sealed"` // nil if the training has not played the sealed block
}

// sealedRecord is the table of a training on the sealed block.
type sealedRecord struct {
	Table    string `yaml:"table"`
	Episodes int    `yaml:"episodes"`
}

// seedsTable is a line of the card's section on several seeds.
type seedsTable struct {
	training string // empty if the line above has it
	path     string // of the table, relative to the card
	episodes int
	sealed   bool
	row      *play.SeedsRow
}

// seedsSection returns the card's section on the trainings of several seeds that a folder's seedsFile lists. Without that
// file it is empty. The options are those of the folder's models.
func seedsSection(folder string, spec *envs.Spec, kwargs map[string]any) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, seedsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	tables, err := readSeedsTables(text, folder, spec, kwargs)
	if err != nil {
		return "", fmt.Errorf("%s: %w", seedsFile, err)
	}
	metric := envs.Metric{Column: "return"}
	if ranking := spec.Ranking(kwargs); len(ranking) > 0 {
		metric = ranking[0]
	}
	return seedsText(tables, metric), nil
}

// readSeedsTables reads the tables that text, the content of the folder's seedsFile, lists.
func readSeedsTables(text []byte, folder string, spec *envs.Spec, kwargs map[string]any) ([]seedsTable, error) {
	var list []seedsTraining
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("want at least one training")
	}
	var all []seedsTable
	add := func(training, path string, episodes int, sealed bool) error {
		if path == "" || episodes < 2 {
			return errors.New("want a table, and at least 2 episodes")
		}
		row, err := readSeedsRow(filepath.Join(folder, filepath.FromSlash(path)), spec, kwargs)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, seedsTable{training, path, episodes, sealed, row})
		return nil
	}
	for i, t := range list {
		err := add(t.Name, t.Record, t.Episodes, false)
		if t.Name == "" {
			err = errors.New("want a name")
		}
		if err == nil && t.Sealed != nil {
			err = add("", t.Sealed.Table, t.Sealed.Episodes, true)
		}
		if err != nil {
			return nil, fmt.Errorf("training %s: %w", cmp.Or(t.Name, fmt.Sprint(i+1)), err)
		}
	}
	return all, nil
}

// readSeedsRow reads the training of several seeds in a table of the environment.
func readSeedsRow(path string, spec *envs.Spec, kwargs map[string]any) (*play.SeedsRow, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := tracking.ReadCSV(f)
	if err != nil {
		return nil, err
	}
	row, err := play.ReadSeedsRow(t)
	if err != nil {
		return nil, err
	}
	return row, row.CheckEnv(spec, kwargs)
}

// seedsText returns the section with a line for each table.
func seedsText(all []seedsTable, metric envs.Metric) string {
	unit, better := "", "higher"
	if metric.Unit != "" {
		unit = " in " + metric.Unit
	}
	if metric.Lower {
		better = "lower"
	}
	once := ""
	if slices.ContainsFunc(all, func(s seedsTable) bool { return s.sealed }) {
		once = " Sealed episodes were played once."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Several seeds\n\n"+
		"Each model above is from one training. These are trainings with several seeds. They are parts of `make results`, some\n"+
		"with other options of the environment than above. Mean %s%s over all seeds and held-out episodes; %s is better.\n"+
		"Intervals and p-values are over seeds and episodes ([method](../../../docs/results/method.md#several-seeds)). The\n"+
		"numbers of episodes link to the tables of all policies.%s\n\n", metric.Column, unit, better, once)
	t := tracking.NewTable("training", ">episodes", ">seeds", ">mean", ">best seed", ">worst seed", "best baseline", ">its mean", ">difference", ">95 % interval", ">p (Holm)", "verdict")
	for _, s := range all {
		r, episodes := s.row, fmt.Sprint(s.episodes)
		if s.sealed {
			episodes += " sealed"
		}
		t.Append(s.training, fmt.Sprintf("[%s](%s)", episodes, s.path), fmt.Sprint(r.Seeds), r.Mean, modelText(r.Best), modelText(r.Worst),
			r.BestBaseline, r.BaselineMean, r.Difference, r.Interval, r.P, r.Verdict)
	}
	t.WriteMarkdown(&b)
	return b.String()
}

func modelText(m play.ModelMean) string {
	if m == (play.ModelMean{}) {
		return ""
	}
	return fmt.Sprintf("%s (%s)", m.Mean, m.Model)
}
