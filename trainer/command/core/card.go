package core

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// maxPretrained is the maximum size in bytes of a model with a card.
const maxPretrained = 1 << 20

// trainingOnly lists prefixes of tensors that only a training needs. A policy may need the other tensors to
// act.
var trainingOnly = []string{
	models.OptimizerPrefix, models.StatePrefix + "envs", models.StatePrefix + "ep_", models.StatePrefix + "rng",
	models.StatePrefix + "target.", models.StatePrefix + "replay", models.StatePrefix + "lstm", run.TrainingTensor,
}

func newCard() *cobra.Command {
	var paths []string
	var dir string
	var episodes int
	cmd := &cobra.Command{
		Use:   "card",
		Short: "Publish models without their training state, with a card of their scores",
		Long: `Publish models without their training state, with a card of their scores.

Each model is written to DIR/<env>/<algo>.safetensors and replaces an existing one. Then all models of
that folder, each also without use of its state, and every baseline play the same held-out episodes. card.md
reports their scores, their trainings and the data. If the folder has a trainings.yml, the card also reports
the trainings of several seeds that it lists: a list of name, record (a table of compare --csv, relative to the
folder), episodes, and sealed (table and episodes). make pretrained does so for models/pretrained.`,
		Example: `  trainer card --model logs/ppo/classic-CartPole-v1_1/best_model.safetensors --model logs/a2c/classic-CartPole-v1_1/best_model.safetensors
  trainer eval --model models/pretrained/classic-CartPole-v1/ppo.safetensors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(paths) == 0 {
				return errors.New("want --model")
			}
			folders := map[string]bool{}
			for _, path := range paths {
				folder, err := publish(path, dir)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				folders[folder] = true
			}
			var cards []string
			for folder := range folders {
				card, err := writeCard(cmd, folder, episodes)
				if err != nil {
					return fmt.Errorf("%s: %w", folder, err)
				}
				cards = append(cards, card)
			}
			slices.Sort(cards)
			return cli.Printf(cmd, map[string]any{"cards": cards}, "%s\n", strings.Join(cards, "\n"))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&paths, "model", nil, "model file, in its log folder (repeat)")
	f.StringVar(&dir, "dir", filepath.Join("models", "pretrained"), "folder of models by environment")
	f.IntVar(&episodes, "episodes", 100, "held-out episodes for the scores")
	return cmd
}

// publish writes the model without the tensors that only its training needs, and returns its new folder.
func publish(path, dir string) (string, error) {
	f, err := models.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := checkPublic(f.Meta); err != nil {
		return "", err
	}
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool {
		return slices.ContainsFunc(trainingOnly, func(p string) bool { return strings.HasPrefix(t.Name, p) })
	})
	command, err := commandOf(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if command != "" {
		if f.Meta.Metadata == nil {
			f.Meta.Metadata = map[string]string{}
		}
		f.Meta.Metadata[cli.CommandKey] = command
	}
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		return "", err
	}
	if buf.Len() > maxPretrained {
		return "", fmt.Errorf("%d bytes without the training's state, want at most %d", buf.Len(), maxPretrained)
	}
	folder := filepath.Join(dir, run.EnvName(f.Meta.Env))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	return folder, models.WriteFileAtomic(filepath.Join(folder, f.Meta.Algo+models.Ext), func(w io.Writer) error {
		_, err := w.Write(buf.Bytes())
		return err
	})
}

// checkPublic returns an error for an option of the model's environment that names a file: users of the model
// do not have the file.
func checkPublic(meta models.Checkpoint) error {
	spec, err := envs.Lookup(meta.Env)
	if err != nil {
		return err
	}
	kwargs, err := (&play.Model{Meta: meta}).EnvKwargs()
	if err != nil {
		return err
	}
	for _, o := range envs.DescribeOptions(spec.Options) {
		if v := kwargs[o.Name]; o.NamesFile(v) {
			return fmt.Errorf("trained with the option %s:%v, which names files that others lack", o.Name, v)
		}
	}
	return nil
}

// commandOf returns the command that started the training in a log folder, or "" if the folder is not one.
func commandOf(folder string) (string, error) {
	a, err := run.ReadArgs(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return a.Command, err
}

// withoutDefaults returns the options that differ from the environment's defaults. An option with its default
// value makes no other environment.
func withoutDefaults(id string, kwargs map[string]any) (map[string]any, error) {
	spec, err := envs.Lookup(id)
	if err != nil {
		return nil, err
	}
	differ := maps.Clone(kwargs)
	for _, o := range envs.DescribeOptions(spec.Options) {
		if v, ok := differ[o.Name]; ok && fmt.Sprint(v) == fmt.Sprint(o.Default) {
			delete(differ, o.Name)
		}
	}
	return differ, nil
}

// writeCard compares the models of the folder with the baselines and writes card.md.
func writeCard(cmd *cobra.Command, folder string, episodes int) (string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
	if err != nil {
		return "", err
	}
	id, kwargs, err := play.EnvOf("", paths)
	if err != nil {
		return "", err
	}
	if kwargs, err = withoutDefaults(id, kwargs); err != nil {
		return "", err
	}
	card := &card{folder: folder}
	for _, path := range paths {
		m, err := describeModel(path)
		if err != nil {
			return "", err
		}
		if m.kwargs, err = withoutDefaults(m.meta.Env, m.kwargs); err != nil {
			return "", err
		}
		if m.meta.Env != id || fmt.Sprint(m.kwargs) != fmt.Sprint(kwargs) {
			return "", fmt.Errorf("%s was trained on %s with %v, %s on %s with %v: one card cannot compare them",
				filepath.Base(path), m.meta.Env, m.kwargs, filepath.Base(paths[0]), id, kwargs)
		}
		card.models = append(card.models, m)
	}
	if card.spec, err = envs.Lookup(id); err != nil {
		return "", err
	}
	if card.seeds, err = seedsSection(folder, card.spec, kwargs); err != nil {
		return "", err
	}
	card.comparison, err = play.Compare(cmd.Context(), play.CompareConfig{Spec: card.spec, Trained: kwargs, Models: paths, Episodes: episodes, Seed: play.CompareSeed, Ablate: true})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "card.md")
	return path, models.WriteFileAtomic(path, card.write)
}

// card is the content of a card.
type card struct {
	folder     string
	spec       *envs.Spec
	models     []cardModel
	seeds      string // the section on several seeds, or ""
	comparison *play.Comparison
}

// cardModel is a model of a card.
type cardModel struct {
	file       string
	meta       models.Checkpoint
	kwargs     map[string]any
	bytes      int64
	parameters int
}

func describeModel(path string) (cardModel, error) {
	f, err := models.ReadFile(path)
	if err != nil {
		return cardModel{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return cardModel{}, err
	}
	m := cardModel{file: filepath.Base(path), meta: f.Meta, bytes: info.Size()}
	for _, p := range models.NewParams(f.Meta.Spec) {
		m.parameters += len(p.Value)
	}
	m.kwargs, err = (&play.Model{Path: path, Meta: f.Meta}).EnvKwargs()
	return m, err
}

func (c *card) write(out io.Writer) error {
	w := bufio.NewWriter(out) // returns the first error at the end
	fmt.Fprintf(w, "# %s: pretrained models\n\n%s\n\n", c.spec.ID, c.spec.Doc)
	fmt.Fprintf(w, "`make pretrained` trains these models anew and writes this card with `trainer card`.\n\n## Scores\n\n")
	res := c.comparison
	unit := ""
	if len(res.Metrics) > 0 && res.Metrics[0].Unit != "" {
		unit = " in " + res.Metrics[0].Unit
	}
	fmt.Fprintf(w, "Mean %s%s over %d held-out episodes, the same for all; %s is better. Clairvoyant policies know what no agent can.\n"+
		"Bold policies are better than every baseline that is not clairvoyant ([method](../../../docs/results/method.md)).\n\n", res.Metric, unit, res.Episodes, res.Better())
	c.scores().WriteMarkdown(w)
	fmt.Fprintf(w, "\n")
	for _, v := range res.Verdict[:len(c.models)] { // without their mean, because the algorithms differ
		fmt.Fprintf(w, "- %s\n", v)
	}
	for _, v := range res.Verdict[len(res.Verdict)-len(res.States):] {
		fmt.Fprintf(w, "- %s\n", v)
	}
	fmt.Fprintf(w, "%s\n## Models\n\n", c.seeds)
	t := tracking.NewTable("file", "algorithm", ">seed", ">timesteps", ">parameters", ">bytes")
	for _, m := range c.models {
		t.Append("`"+m.file+"`", m.meta.Algo, fmt.Sprint(m.meta.Seed), fmt.Sprint(m.meta.Timesteps), fmt.Sprint(m.parameters), fmt.Sprint(m.bytes))
	}
	t.WriteMarkdown(w)
	fmt.Fprintf(w, "\nEach is a model of one training, chosen by nothing but that training's own evaluations, whose episodes\nare others than those of the scores:\n\n")
	for _, m := range c.models {
		fmt.Fprintf(w, "    %s\n", cmp.Or(m.meta.Metadata[cli.CommandKey], "# "+m.meta.Algo+": not on record"))
	}
	fmt.Fprintf(w, "\n## Data\n\nOptions of the environment: %s in training, %s for the scores;\nits README says which instances they are. Seeds of episodes: in training from the command's on, in\n"+
		"its evaluations from %d, of the scores from %d.\n", kwargsText(c.models[0].kwargs), kwargsText(res.EnvKwargs), play.EvalSeed, res.Seed)
	c.writeUse(w)
	return w.Flush()
}

// writeUse describes how to play the models, and with which options of the environment.
func (c *card) writeUse(w io.Writer) {
	path := func(m cardModel) string { return filepath.ToSlash(filepath.Join(c.folder, m.file)) }
	var dense []string // the other models score nodes with shared layers
	export := ""       // the first model that ONNX and Stable-Baselines3 support: without such layers and LSTMs
	for _, m := range c.models {
		if m.meta.Spec.Nodes != nil {
			continue
		}
		dense = append(dense, "`"+m.file+"`")
		if export == "" && len(m.meta.Spec.LSTMs) == 0 {
			export = path(m)
		}
	}
	fmt.Fprintf(w, "\n## Use\n\n    go run ./trainer eval --model %[1]s\n    go run ./trainer enjoy --model %[1]s\n", path(c.models[0]))
	if export != "" {
		fmt.Fprintf(w, "    go run ./trainer export --model %[1]s --onnx model.onnx\n    python -m kubernasium.load_sb3 %[1]s model.zip\n", export)
	}
	switch len(dense) {
	case len(c.models):
		fmt.Fprintf(w, "\nA model acts on the observations of this environment with options that leave its spaces as they are; others refuse it.\n")
	case 0:
		fmt.Fprintf(w, "\nA model acts on the observations of this environment with any number of nodes (`--env-kwargs`), and otherwise\n"+
			"with options that leave its spaces as they are; others refuse it.\n")
	default:
		fmt.Fprintf(w, "\nA model acts on the observations of this environment with options that leave its spaces as they are, and with any\n"+
			"number of nodes but for %s, whose network is dense; others refuse it.\n", strings.Join(dense, ", "))
	}
}

// scores returns the table of the comparison, best first.
func (c *card) scores() *tracking.Table {
	res := c.comparison
	decimals := res.Decimals()
	number := func(x float64) string { return fmt.Sprintf("%.*f", decimals, x) }
	t := tracking.NewTable("policy", ">mean", ">std", ">95 % interval", ">difference to "+res.BestBaseline, ">95 % interval", ">return")
	for _, r := range res.Rows {
		name := r.Policy
		switch {
		case r.Claim.Better():
			name = "**" + name + "**"
		case r.Kind == play.KindClairvoyant:
			name += " (clairvoyant)"
		}
		cells := []string{name, number(r.Mean), number(tracking.Deviation(r.Values)), cli.Interval(r.Low, r.High, decimals), "", "", number(r.MeanReturn)}
		if r.Difference != nil {
			cells[4], cells[5] = fmt.Sprintf("%+.*f", decimals, r.Difference.Mean), cli.Interval(r.Difference.Low, r.Difference.High, decimals)
		}
		t.Append(cells...)
	}
	return t
}

func kwargsText(kwargs map[string]any) string {
	if len(kwargs) == 0 {
		return "the defaults"
	}
	var words []string
	for k, v := range kwargs {
		words = append(words, fmt.Sprintf("`%s:%v`", k, v))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}
