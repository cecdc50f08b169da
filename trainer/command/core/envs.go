package core

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// envDescription is an environment in the JSON of `trainer envs`.
type envDescription struct {
	ID               string            `json:"id"`
	Doc              string            `json:"doc"`
	ObservationSpace space.Description `json:"observation_space"` // with the default options
	ActionSpace      space.Description `json:"action_space"`
	Features         []featureDoc      `json:"features"` // of each element of an observation
	MaxEpisodeSteps  int               `json:"max_episode_steps"`
	RewardThreshold  *float64          `json:"reward_threshold"`
	Nondeterministic bool              `json:"nondeterministic"`
	RenderModes      []string          `json:"render_modes"`
	Options          []envs.Option     `json:"options"`
	Baselines        []baselineDoc     `json:"baselines"`
	Info             []infoDoc         `json:"info"`
}

// featureDoc names the elements of one part of an observation; see envs.Features.
type featureDoc struct {
	Part  string   `json:"part"`
	Row   string   `json:"row"`
	Names []string `json:"names"`
}

type baselineDoc struct {
	Name        string `json:"name"`
	Doc         string `json:"doc"`
	Clairvoyant bool   `json:"clairvoyant"`

	StandsFor  string         `json:"stands_for,omitempty"` // with tuned values: its name with parameters
	Parameters []parameterDoc `json:"parameters,omitempty"`
}

type infoDoc struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Doc   string `json:"doc"`
}

func newEnvs() *cobra.Command {
	return &cobra.Command{
		Use:   "envs [ID]",
		Short: "List the environments, or describe one: spaces, options, baselines",
		Example: `  trainer envs
  trainer envs k8s/GangWindow-v0
  trainer envs --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			specs := envs.Specs()
			if len(args) == 1 {
				s, err := envs.Lookup(args[0])
				if err != nil {
					return err
				}
				specs = []*envs.Spec{s}
			}
			var all []envDescription
			for _, s := range specs {
				d, err := describeEnv(s)
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			if len(args) == 1 {
				return cli.Print(cmd, all[0], all[0].print)
			}
			t := tracking.NewTable("id", "observation", "action", ">steps", "what")
			for _, d := range all {
				t.Append(d.ID, shortSpace(d.ObservationSpace), shortSpace(d.ActionSpace), fmt.Sprint(d.MaxEpisodeSteps), d.Doc)
			}
			return cli.Print(cmd, all, t.WriteText)
		},
	}
}

func describeEnv(s *envs.Spec) (envDescription, error) {
	v, err := envs.NewVec(s, 1, envs.VecOptions{})
	if err != nil {
		return envDescription{}, err
	}
	defer v.Close()
	obs, act := v.Spaces()
	d := envDescription{
		ID: s.ID, Doc: s.Doc, ObservationSpace: obs.Describe(), ActionSpace: act.Describe(),
		MaxEpisodeSteps: v.Env(0).MaxEpisodeSteps(), Nondeterministic: s.Nondeterministic,
		RenderModes: s.RenderModes, Options: envs.DescribeOptions(s.Options),
	}
	if s.HasThreshold {
		d.RewardThreshold = &s.RewardThreshold
	}
	for _, f := range v.Features() {
		d.Features = append(d.Features, featureDoc(f))
	}
	for _, b := range s.Baselines {
		d.Baselines = append(d.Baselines, baselineDoc{b.Name, b.Doc, b.Clairvoyant, b.StandsFor, parameterDocs(&b)})
	}
	for _, c := range s.Info {
		d.Info = append(d.Info, infoDoc(c))
	}
	return d, nil
}

func (d envDescription) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n  %s\n\nobservation  %s\naction       %s\nsteps        %d\n\nOptions (--env-kwargs name:value)\n",
		d.ID, d.Doc, shortSpace(d.ObservationSpace), shortSpace(d.ActionSpace), d.MaxEpisodeSteps)
	t := tracking.NewTable("name", "type", "default", "valid", "what")
	for _, o := range d.Options {
		t.Append(o.Name, o.Type, fmt.Sprint(o.Default), o.Valid(), o.Doc)
	}
	t.WriteText(w)
	fmt.Fprintln(w, "\nObservation")
	t = tracking.NewTable(">index", "element", ">min", ">max")
	for _, e := range observationElements(d) {
		t.Append(e[:]...)
	}
	t.WriteText(w)
	fmt.Fprintln(w, "\nBaselines")
	t = tracking.NewTable("name", "what")
	for _, b := range d.Baselines {
		t.Append(b.Name, b.Doc)
	}
	t.WriteText(w)
	printParameters(w, d.Baselines)
	fmt.Fprintln(w, "\nInfo")
	t = tracking.NewTable("name", "dtype", "what")
	for _, c := range d.Info {
		t.Append(c.Name, c.DType, c.Doc)
	}
	return t.WriteText(w)
}

// parameterDoc describes a parameter of a baseline.
type parameterDoc struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Default any      `json:"default"`
	Doc     string   `json:"doc"`
	Low     *float64 `json:"low,omitempty"` // range in which tuning searches
	High    *float64 `json:"high,omitempty"`
	Log     bool     `json:"log,omitempty"`
	Choices []string `json:"choices,omitempty"`
}

func parameterDocs(b *envs.Baseline) []parameterDoc {
	var docs []parameterDoc
	for _, p := range b.Parameters() {
		d := parameterDoc{Name: p.Name, Type: p.Type, Default: p.Default, Doc: p.Doc, Log: p.Log, Choices: p.Choices}
		if p.Low < p.High {
			d.Low, d.High = &p.Low, &p.High
		}
		docs = append(docs, d)
	}
	return docs
}

// printParameters lists the parameters of the baselines that have any.
func printParameters(w io.Writer, baselines []baselineDoc) {
	t := tracking.NewTable("baseline", "parameter", "type", "default", "tuned in", "what")
	for _, b := range baselines {
		for _, p := range b.Parameters {
			where := strings.Join(p.Choices, ", ")
			if p.Low != nil {
				where = fmt.Sprintf("%v to %v", *p.Low, *p.High)
			}
			t.Append(b.Name, p.Name, p.Type, fmt.Sprint(p.Default), where, p.Doc)
		}
	}
	if len(t.Rows) > 0 {
		fmt.Fprintln(w, "\nParameters of baselines (name:parameter=value,…)")
		t.WriteText(w)
	}
}

// observationElements returns the index, name and bounds of each element of an observation. For a part with
// several rows, the first row represents all.
func observationElements(d envDescription) [][4]string {
	boxes := []space.Description{d.ObservationSpace}
	if d.ObservationSpace.Kind == "dict" {
		boxes = d.ObservationSpace.Parts
	}
	bound := func(b space.Bounds, i int) string {
		if len(b) == 1 {
			i = 0
		}
		return strconv.FormatFloat(float64(b[i]), 'g', 4, 32)
	}
	var elements [][4]string
	for i, f := range d.Features {
		for k, name := range f.Names {
			if f.Row != "" {
				name = f.Row + "[i]." + name
			}
			if f.Part != "" {
				name = f.Part + "/" + name
			}
			elements = append(elements, [4]string{strconv.Itoa(k), name, bound(boxes[i].Low, k), bound(boxes[i].High, k)})
		}
	}
	return elements
}

// shortSpace formats a space as Gymnasium does, without bounds.
func shortSpace(d space.Description) string {
	switch d.Kind {
	case "box":
		return fmt.Sprintf("Box%v", d.Shape)
	case "discrete":
		return fmt.Sprintf("Discrete(%d)", d.N[0])
	case "multi_discrete":
		return fmt.Sprintf("MultiDiscrete%v", d.N)
	case "multi_binary":
		return fmt.Sprintf("MultiBinary(%d)", d.N[0])
	}
	return "Dict(" + strings.Join(d.Keys, ", ") + ")"
}
