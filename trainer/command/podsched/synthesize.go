package podsched

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// synthesized is the JSON of `podsched synthesize`.
type synthesized struct {
	File   string `json:"file"`
	Events int    `json:"events"`
	Bytes  int64  `json:"bytes"`
}

func newPodschedSynthesize() *cobra.Command {
	var law clustertrace.Synthetic
	var out string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "synthesize",
		Short: "Write a synthetic recording of a cluster: services, jobs and GPUs by stated laws",
		Long: `Write a synthetic recording of a cluster, in the format of ` + "`trainer kwok record`" + `:
services that run all the time and are rolled out and resized, jobs that come by a day's curve and
run for lognormal durations, nodes with and without GPUs, some of them cordoned for a while. Package
envs/dataset/clustertrace states the laws (type Synthetic). Equal seeds give equal recordings.`,
		Example: `  trainer podsched synthesize --out day.jsonl.zst
  trainer podsched synthesize --nodes 50 --pods 5000 --seed 1 --out small.jsonl.gz`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return errors.New("no file: give --out")
			}
			s, err := synthesize(out, law, seed)
			if err != nil {
				return err
			}
			return cli.Printf(cmd, s, "%s: %d events, %.1f MB\n", s.File, s.Events, float64(s.Bytes)/1e6)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "out", "o", "", "file to write, *.jsonl.zst, *.jsonl.gz or *.jsonl; it must not exist")
	f.IntVar(&law.Nodes, "nodes", 1000, "nodes")
	f.IntVar(&law.Pods, "pods", 100_000, "number of pods")
	f.DurationVar(&law.Span, "span", 24*time.Hour, "duration of the recording")
	f.Float64Var(&law.Load, "load", 0.6, "mean fraction of the CPU and of the GPUs that pods request")
	f.Float64Var(&law.GPUNodes, "gpu-nodes", 0.2, "fraction of the nodes with GPUs")
	f.Uint64Var(&seed, "seed", 0, "random seed")
	return cmd
}

// synthesize writes the recording. After an error it leaves no file.
func synthesize(path string, law clustertrace.Synthetic, seed uint64) (synthesized, error) {
	// The date is arbitrary but fixed, so that equal seeds give equal files.
	w, err := clustertrace.Create(path, clustertrace.Header{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Source: "trainer podsched synthesize"})
	if err != nil {
		return synthesized{}, err
	}
	err = errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(seed, 0))), w.Close(law.Span))
	if err != nil {
		return synthesized{}, errors.Join(err, os.Remove(path))
	}
	info, err := os.Stat(path)
	if err != nil {
		return synthesized{}, err
	}
	return synthesized{File: path, Events: w.Events(), Bytes: info.Size()}, nil
}
