package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

const module = "github.com/kubernasium/kubernasium/"

// renderSteps is the number of steps before an environment is rendered.
const renderSteps = 40

// environments writes a page for each environment. The page of an original also describes its twin on an API
// server.
func environments(ctx context.Context, out pages) error {
	scores, err := readmeScores()
	if err != nil {
		return err
	}
	index := &page{}
	index.printf("# Environments\n\nMade from the `Spec` of each registered environment.\n\n")
	var rows [][]string
	var names []string
	for _, s := range envs.Specs() {
		if s.Backend != nil {
			continue
		}
		p, err := environment(ctx, out, s, scores[s.ID])
		if err != nil {
			return fmt.Errorf("%s: %w", s.ID, err)
		}
		name := slug(s.ID)
		if err := out.write("environments/"+name+".md", []byte(p)); err != nil {
			return err
		}
		rows = append(rows, []string{fmt.Sprintf("[`%s`](%s.md)", s.ID, name), plain(s.Doc)})
		names = append(names, name)
	}
	index.list([]string{"id", "task"}, rows, names)
	return out.write("environments/index.md", []byte(index.String()))
}

func slug(id string) string { return strings.ReplaceAll(id, "/", "-") }

// environment returns the page of s, and writes its picture if it has one.
func environment(ctx context.Context, out pages, s *envs.Spec, scores [][]string) (string, error) {
	v, err := envs.NewVec(s, 1, envs.VecOptions{Autoreset: envs.Disabled})
	if err != nil {
		return "", err
	}
	defer v.Close()
	obs, act := v.Spaces()
	p := &page{}
	p.printf("# %s\n\n%s\n\n", s.ID, plain(s.Doc))
	readme, err := readmeOf(s)
	if err != nil {
		return "", err
	}
	p.printf("[Rules, dynamics, sources](/%s)", readme)
	if _, err := os.Stat("models/pretrained/" + slug(s.ID) + "/card.md"); err == nil {
		p.printf(" · [trained models](/models/pretrained/%s/card.md)", slug(s.ID))
	}
	if twin := twinOf(s.ID); twin != "" {
		p.printf(" · twin on a [Kubernetes API server](/kwok/README.md): `%s`", twin)
	}
	p.printf("\n\n| | |\n|---|---|\n| observation space | %s |\n| action space | %s |\n", shortSpace(obs.Describe()), shortSpace(act.Describe()))
	if n := v.Env(0).MaxEpisodeSteps(); n > 0 {
		p.printf("| steps of an episode | at most %d |\n", n)
	}
	if s.HasThreshold {
		p.printf("| solved at a mean return of | %g |\n", s.RewardThreshold)
	}
	p.printf("| render modes | %s |\n", strings.Join(s.RenderModes, ", "))
	for _, m := range s.Metrics {
		unit := ""
		if m.Unit != "" {
			unit = " in " + m.Unit
		}
		p.printf("| metric | `%s`%s, %s is better |\n", m.Column, unit, map[bool]string{true: "lower", false: "higher"}[m.Lower])
	}
	if len(scores) > 0 {
		p.printf("\n## Scores\n\nOn held-out episodes; bold is better than every baseline ([method](/docs/results/method.md)).\n\n")
		p.table(scores[0], scores[1:])
	}
	if err := render(ctx, out, p, v, s); err != nil {
		return "", err
	}
	p.section("Options", []string{"name", "type", "default", "valid", "meaning"}, options(s))
	p.section("Observation", []string{"part", "element", ">index", ">low", ">high"}, elements(v.Features(), obs.Describe()))
	p.section("Action", []string{"part", "space", "low", "high"}, actions(act.Describe()))
	var baselines, parameters, info [][]string
	for _, b := range s.Baselines {
		knows := ""
		if b.Clairvoyant {
			knows = "clairvoyant"
		}
		baselines = append(baselines, []string{code(b.Name), knows, plain(b.Doc), code(b.StandsFor)})
		for _, a := range b.Parameters() {
			parameters = append(parameters, []string{code(b.Name), code(a.Name), a.Type, code(fmt.Sprint(a.Default)), tuned(a), plain(a.Doc)})
		}
	}
	p.section("Baselines", []string{"name", "", "policy", "stands for"}, baselines)
	p.section("Parameters of baselines", []string{"baseline", "parameter", "type", "default", "tuned in", "meaning"}, parameters)
	for _, c := range s.Info {
		info = append(info, []string{code(c.Name), c.DType, plain(c.Doc)})
	}
	p.section("Diagnostics", []string{"column of info", "dtype", "meaning"}, info)
	return p.String(), nil
}

// readmeOf returns the README in the folder of s's options, or in the nearest folder above.
func readmeOf(s *envs.Spec) (string, error) {
	folder := strings.TrimPrefix(reflect.TypeOf(s.Options).Elem().PkgPath(), module)
	for ; folder != "envs" && folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(folder + "/README.md"); err == nil {
			return folder + "/README.md", nil
		}
	}
	return "", errors.New("no README")
}

// twinOf returns the id of the same environment on an API server, or "".
func twinOf(id string) string {
	at := strings.LastIndex(id, "-v")
	if s, err := envs.Lookup(id[:at] + "Kwok" + id[at:]); err == nil && s.Backend != nil {
		return s.ID
	}
	return ""
}

func shortSpace(d space.Description) string {
	switch d.Kind {
	case "box":
		return fmt.Sprintf("Box%s", shape(d.Shape))
	case "discrete":
		return fmt.Sprintf("Discrete(%d)", d.N[0])
	case "multi_discrete":
		return fmt.Sprintf("MultiDiscrete%s", shape(d.N))
	case "multi_binary":
		return fmt.Sprintf("MultiBinary(%d)", d.N[0])
	}
	parts := make([]string, len(d.Keys))
	for i, k := range d.Keys {
		parts[i] = k + ": " + shortSpace(d.Parts[i])
	}
	return "Dict(" + strings.Join(parts, ", ") + ")"
}

func shape[T any](dims []T) string {
	words := make([]string, len(dims))
	for i, d := range dims {
		words[i] = fmt.Sprint(d)
	}
	return "(" + strings.Join(words, ", ") + ")"
}

func options(s *envs.Spec) (rows [][]string) {
	for _, o := range envs.DescribeOptions(s.Options) {
		value := fmt.Sprint(o.Default)
		if o.Type == "list" && value == "[]" {
			value = ""
		}
		rows = append(rows, []string{code(o.Name), o.Type, code(value), plain(o.Valid()), plain(o.Doc)})
	}
	return rows
}

// tuned describes where `trainer tune` searches a parameter.
func tuned(a envs.Parameter) string {
	switch {
	case len(a.Choices) > 0:
		return strings.Join(a.Choices, ", ")
	case a.Low < a.High && a.Log:
		return fmt.Sprintf("%g to %g, logarithmic", a.Low, a.High)
	case a.Low < a.High:
		return fmt.Sprintf("%g to %g", a.Low, a.High)
	}
	return ""
}

// elements describes each number of an observation.
func elements(features []envs.Features, d space.Description) (rows [][]string) {
	boxes := []space.Description{d}
	if d.Kind == "dict" {
		boxes = d.Parts
	}
	for i, f := range features {
		for k, name := range f.Names {
			part := f.Part
			if f.Row != "" {
				part = strings.TrimSpace(part + ", of each " + f.Row)
			}
			rows = append(rows, []string{plain(part), code(name), strconv.Itoa(k), bound(boxes[i].Low, k), bound(boxes[i].High, k)})
		}
	}
	return rows
}

func actions(d space.Description) (rows [][]string) {
	if d.Kind != "dict" {
		low, high := "", ""
		if d.Kind == "box" {
			low, high = bounds(d.Low), bounds(d.High)
		}
		return [][]string{{"", shortSpace(d), low, high}}
	}
	for i, k := range d.Keys {
		row := actions(d.Parts[i])[0]
		rows = append(rows, append([]string{code(k)}, row[1:]...))
	}
	return rows
}

func bound(b space.Bounds, k int) string {
	if len(b) == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(b[min(k, len(b)-1)]), 'g', 4, 32)
}

func bounds(b space.Bounds) string {
	words := make([]string, len(b))
	for i := range b {
		words[i] = bound(b, i)
	}
	return strings.Join(words, ", ")
}

// render shows an episode of the first baseline that is not clairvoyant, as a picture or else as text.
func render(ctx context.Context, out pages, p *page, v *envs.Vec, s *envs.Spec) error {
	if len(s.RenderModes) == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Baselines, func(b envs.Baseline) bool { return !b.Clairvoyant })
	if i < 0 {
		return errors.New("no baseline to play")
	}
	name := s.Baselines[i].Name
	policy, err := baseline.New(v, name, 1)
	if err != nil {
		return err
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: new(uint64(1))})
	_, act := v.Spaces()
	action := make([]float32, act.Size())
	steps := 0
	for ; err == nil && steps < renderSteps && !b.Done(0); steps++ {
		if err = policy.Act(b, action); err == nil {
			b, err = v.Step(ctx, action)
		}
	}
	if err != nil {
		return err
	}
	p.printf("\n## Render\n\n`%s` after %d steps of the episode of seed 1.\n", name, steps)
	if slices.Contains(s.RenderModes, "rgb_array") {
		img, err := v.RenderRGB(0)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		if err := png.Encode(&file, img); err != nil {
			return err
		}
		p.printf("\n![%s rendered](%s.png)\n", s.ID, slug(s.ID))
		if err := out.write("environments/"+slug(s.ID)+".png", file.Bytes()); err != nil {
			return err
		}
	}
	if slices.Contains(s.RenderModes, "ansi") {
		text, err := v.RenderANSI(0)
		if err != nil {
			return err
		}
		p.printf("\n```text\n%s\n```\n", strings.TrimRight(colours.ReplaceAllString(text, ""), "\n"))
	}
	return nil
}
