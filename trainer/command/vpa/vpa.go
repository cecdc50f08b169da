// Package vpa holds the commands below `trainer vpa`: generated and recorded workloads, their forecaster, and
// comparisons by type of workload.
package vpa

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// New returns the command vpa.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vpa",
		Short: "Vertical pod autoscaling: recorded and generated workloads, and their forecaster",
	}
	cmd.AddCommand(newVPAWorkload(), newVPARecord(), newVPAForecaster(), newVPAFamilies())
	return cmd
}

// workloadConfig holds the arguments of `vpa workload`.
type workloadConfig struct {
	kind, config, data, out string
	draw, plot              bool
	count, timesteps        int
	interval                float64
	seed                    uint64
	maxGap                  time.Duration
	prometheus              prometheusConfig
}

// workloadInfo is the content of a workload's info.json.
type workloadInfo struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Timesteps    int              `json:"timesteps"`
	TimeInterval float64          `json:"time_interval"` // seconds
	Source       string           `json:"source,omitempty"`
	Config       *workload.Config `json:"config,omitempty"` // of a generated workload
	Report       *workload.Report `json:"report,omitempty"` // length of the whole source
	Mean         usage            `json:"mean"`
	Max          usage            `json:"max"`
	Folder       string           `json:"folder"`
}

// usage is an amount of each resource in files and on standard output.
type usage struct {
	MilliCPU    int64 `json:"cpu_m"`
	MemoryBytes int64 `json:"mem_b"`
}

func newVPAWorkload() *cobra.Command {
	var c workloadConfig
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Write workloads: generated, read from traces, or queried from Prometheus",
		Long: `Write workloads to OUT/workloads/ID/: info.json (parameters and statistics), container.json
(requests and limits), series.csv (pod, time_s, cpu_m, mem_b) and, with --plot, workload.png.
The environments read the folder by their option data. Every fifth workload is held out, or the last
of fewer than five; a single one is played with split:all. A workload needs samples for the options
history_h and steps. With samples of a minute the defaults need 2880, a day for each option.

Without --data and --prometheus the workload is generated: with the type's parameters, those of
the JSON file --config over them, or with --draw parameters drawn by the seed as for an episode.`,
		Example: `  trainer vpa workload --workload-type sinusoidal --timesteps 2880 --out DIR --plot
  trainer vpa workload --workload-type borg --count 4 --timesteps 4320 --out DIR
  trainer vpa workload --config workload.json --out DIR
  trainer vpa workload --workload-type azure --data azure-public-dataset/ --out DIR
  trainer vpa workload --data usage.jsonl --out DIR       # of trainer vpa record
  trainer vpa workload --prometheus http://localhost:9090 --out DIR \
    --query 'sum by (pod) (rate(container_cpu_usage_seconds_total[2m]))' \
    --query 'sum by (pod) (container_memory_working_set_bytes)'
  trainer compare --env k8s/VerticalPodAutoscaler-v0 --env-kwargs data:DIR/workloads
  trainer compare --env k8s/VerticalPodAutoscaler-v0 --env-kwargs data:DIR/workloads/sinusoidal-42 --env-kwargs split:all`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorkload(cmd, c) },
	}
	f := cmd.Flags()
	f.StringVar(&c.kind, "workload-type", "", strings.Join(workload.Types(), ", ")+"; with --data also csv, prometheus, podmetrics and top (default: from its file names)")
	f.StringVar(&c.config, "config", "", "JSON file of parameters")
	f.StringVar(&c.data, "data", "", "file or folder of a trace to read")
	f.StringVarP(&c.out, "out", "o", "", "folder to write to")
	f.BoolVar(&c.draw, "draw", false, "draw the parameters from the seed, as for an episode")
	f.BoolVar(&c.plot, "plot", false, "also plot each workload")
	f.IntVar(&c.count, "count", 1, "number of generated workloads, with seeds from --seed on")
	f.IntVar(&c.timesteps, "timesteps", 0, "samples to generate (default: the type's)")
	f.Float64Var(&c.interval, "time-interval", 0, "seconds between samples (default 60)")
	f.Uint64Var(&c.seed, "seed", 42, "random seed")
	f.DurationVar(&c.maxGap, "max-gap", time.Hour, "longest gap in a trace that is filled with the previous values")
	c.prometheus.flags(cmd)
	return cmd
}

func runWorkload(cmd *cobra.Command, c workloadConfig) error {
	switch {
	case c.out == "":
		return errors.New("--out, the folder to write to, is required")
	case c.data != "" && c.prometheus.URL != "":
		return errors.New("want one of --data and --prometheus")
	case c.count < 1:
		return fmt.Errorf("--count is %d, want 1 or more", c.count)
	case !(c.interval >= 0) || c.timesteps < 0:
		return fmt.Errorf("--timesteps is %d and --time-interval %v, want more than 0, or 0 for the default", c.timesteps, c.interval)
	}
	var infos []workloadInfo
	var err error
	if c.data != "" || c.prometheus.URL != "" {
		for _, name := range []string{"config", "draw", "timesteps", "seed", "count"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is for generated workloads, not for those of --data and --prometheus", name)
			}
		}
		infos, err = c.read(cmd)
	} else {
		infos, err = c.generate(cmd)
	}
	if err != nil {
		return err
	}
	t := tracking.NewTable("id", "type", ">samples", ">interval", ">mean CPU", ">max CPU", ">mean memory", ">max memory", "folder")
	for _, i := range infos {
		t.Append(i.ID, i.Type, strconv.Itoa(i.Timesteps), fmt.Sprintf("%g s", i.TimeInterval), fmt.Sprintf("%d m", i.Mean.MilliCPU), fmt.Sprintf("%d m", i.Max.MilliCPU),
			fmt.Sprintf("%.0f MiB", float64(i.Mean.MemoryBytes)/(1<<20)), fmt.Sprintf("%.0f MiB", float64(i.Max.MemoryBytes)/(1<<20)), i.Folder)
	}
	return cli.Print(cmd, infos, t.WriteText)
}

// read writes the workloads of a trace or of Prometheus.
func (c *workloadConfig) read(cmd *cobra.Command) ([]workloadInfo, error) {
	grid := workload.Grid{Interval: time.Duration(cmp.Or(c.interval, 60) * float64(time.Second)), MaxGap: c.maxGap}
	var all []workload.Series
	var report workload.Report
	var err error
	source := c.data
	if source != "" {
		all, report, err = workload.ReadFiles(c.data, c.kind, grid)
	} else {
		source = c.prometheus.URL
		all, report, err = c.prometheus.read(cmd.Context(), grid)
	}
	if err != nil {
		return nil, err
	}
	play.WarnOnce(report.Holes)
	var infos []workloadInfo
	for i := range all {
		kind := cmp.Or(c.kind, "trace")
		info := workloadInfo{ID: kind + "-" + safeName(all[i].ID), Type: kind, Source: source, Report: &report}
		if slices.ContainsFunc(infos, func(o workloadInfo) bool { return o.ID == info.ID }) {
			info.ID += "-" + strconv.Itoa(i)
		}
		if err := c.write(&info, &all[i]); err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// generate writes generated workloads.
func (c *workloadConfig) generate(cmd *cobra.Command) ([]workloadInfo, error) {
	base, err := c.parameters()
	if err != nil {
		return nil, err
	}
	if c.timesteps > 0 {
		base.Timesteps = c.timesteps
	}
	if c.interval > 0 {
		base.TimeInterval = c.interval
	}
	if cmd.Flags().Changed("seed") || c.config == "" {
		base.Seed = c.seed
	}
	var infos []workloadInfo
	for i := range uint64(c.count) {
		config := base
		config.Seed += i
		if c.draw {
			config = workload.Draw(base.Type, base.Timesteps, base.TimeInterval, rand.New(pcg.New(config.Seed)))
			config.Seed = base.Seed + i
		}
		s, err := config.Series()
		if err != nil {
			return nil, err
		}
		info := workloadInfo{ID: s.ID, Type: config.Type, Config: &config}
		if err := c.write(&info, &s); err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (c *workloadConfig) parameters() (workload.Config, error) {
	if c.config == "" {
		return workload.DefaultConfig(c.kind)
	}
	f, err := os.Open(c.config)
	if err != nil {
		return workload.Config{}, err
	}
	defer f.Close()
	base, err := workload.ReadConfig(f)
	if err == nil && c.kind != "" && c.kind != base.Type {
		err = fmt.Errorf("type %q, but --workload-type is %q", base.Type, c.kind)
	}
	if err != nil {
		return base, fmt.Errorf("%s: %w", c.config, err)
	}
	return base, nil
}

// safeName converts an id to a folder name of letters, digits, dots, dashes and underscores.
func safeName(id string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, id)
	const most = 100
	return strings.TrimLeft(safe[:min(len(safe), most)], ".")
}

// write writes the files of a workload and completes its info.
func (c *workloadConfig) write(info *workloadInfo, s *workload.Series) error {
	dir := filepath.Join(c.out, "workloads", info.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info.Folder, info.Timesteps, info.TimeInterval, info.Max = dir, len(s.Usage), s.Interval.Seconds(), usage(workload.Max(s.Usage))
	for _, u := range s.Usage {
		info.Mean.MilliCPU += u.MilliCPU
		info.Mean.MemoryBytes += u.MemoryBytes
	}
	info.Mean.MilliCPU /= int64(len(s.Usage))
	info.Mean.MemoryBytes /= int64(len(s.Usage))
	amounts := func(r cluster.Resources) workload.Amounts {
		return workload.Amounts{CPU: float64(r.MilliCPU), Memory: float64(r.MemoryBytes) / (1 << 20)}
	}
	for name, v := range map[string]any{
		"info.json":            info,
		workload.ContainerFile: workload.Container{Requests: amounts(s.Requests), Limits: amounts(s.Limits)},
	} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if err := writeSeries(filepath.Join(dir, "series.csv"), info.ID, s); err != nil {
		return err
	}
	if !c.plot {
		return nil
	}
	return plotWorkload(filepath.Join(dir, "workload.png"), s)
}

func writeSeries(path, id string, s *workload.Series) error {
	var rows [][]string
	for i, u := range s.Usage {
		at := time.Duration(i) * s.Interval
		rows = append(rows, []string{id, strconv.FormatFloat(at.Seconds(), 'f', -1, 64), strconv.FormatInt(u.MilliCPU, 10), strconv.FormatInt(u.MemoryBytes, 10)})
	}
	return cli.WriteCSV(path, []string{"pod", "time_s", "cpu_m", "mem_b"}, rows)
}

func plotWorkload(path string, s *workload.Series) error {
	var x, cpu, mem []float64
	for i, u := range s.Usage {
		x = append(x, (time.Duration(i) * s.Interval).Hours())
		cpu = append(cpu, float64(u.MilliCPU)/1000)
		mem = append(mem, float64(u.MemoryBytes)/(1<<30))
	}
	return tracking.Timeline(path, s.ID, "hours", x, []tracking.Panel{
		{YLabel: "CPU, cores", Lines: []tracking.PanelLine{{Name: "usage", Y: cpu}}},
		{YLabel: "memory, GiB", Lines: []tracking.PanelLine{{Name: "usage", Y: mem}}},
	}, nil)
}
