package podsched

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/mirror"
	"github.com/kubernasium/kubernasium/kwok/scorer"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// simulateFlags holds the arguments of `podsched simulate`.
type simulateFlags struct {
	workload, config string
	seed             int64
	model, scorer    string
	scorerTimeout    time.Duration
	deschedule       gpushare.DescheduleOptions
	snapshots        []string
	points           []snapshotRequest
	objects          *kubeyaml.Objects
	w                *kubeyaml.Workload
}

func newPodschedSimulate() *cobra.Command {
	var o simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Place the pods of Kubernetes YAML onto its nodes by a scheduler configuration, a model or an HTTP scorer",
		Long: `Place the pods of Kubernetes YAML onto its nodes by a scheduler configuration, a model or an HTTP scorer.

The input is a file or a folder of Nodes and Pods, or an export of kube-scheduler-simulator. Pods arrive by
priority, then in the order of the files. Deployments, ReplicaSets, ReplicationControllers, StatefulSets,
Jobs, CronJobs and DaemonSets become pods as in Alibaba's open-simulator (Simon), after the Pods. A Config
of Simon is also accepted: its cluster and applications, the order and the tuning of the workload,
descheduling and snapshots of pods. One of these options chooses nodes:

  -s        a KubeSchedulerConfiguration, which enables score plugins with weights: those of
            kube-scheduler, which are on by default, and the policies ` + strings.Join(gpushare.PolicyNames()[:5], ", ") + `,
            ` + strings.Join(gpushare.PolicyNames()[5:], ", ") + ` by their names (KubeResources
            and KubeDefault are sets of kube-scheduler's own). Simon's configurations are read as they
            are: FGDScore and the like at score, Open-Gpu-Share with its gpuSelMethod at reserve. A
            plugin that is enabled without what it needs is an error.
  --model   a trained model of k8s/GPUPodScheduling-v0 or k8s/PodBalance-v0, for any number of nodes
  --scorer  an HTTP service: POST {"pod": Pod, "nodes": [Node, ...], "free": {NAME: {"cpu_m", "memory_mib",
            "gpu_m": [thousandths of each device]}}} with the nodes on which the pod fits; the reply
            is {"scores": {NAME: number}}, and the highest wins. ` + "`trainer kwok schedule`" + ` is such a service.

With --deschedule-policy, placed pods are evicted when all have had their turn, and placed again;
pods that had failed are then tried once more. cosSim takes pods from nodes with much free GPU and
little free CPU, fragOnePod one pod from each node whose fragmentation that lowers, fragMultiPod as
many as lower it.

--snapshot writes the cluster as YAML that -f reads, with nodes and devices of what is placed, at a
moment: after so many decisions, "scheduled" (before any eviction), "evicted", or "end".`,
		Example: `  trainer podsched simulate -f cluster.yaml -s scheduler.yaml
  trainer podsched simulate -f manifests/ -s scheduler.yaml --json
  trainer podsched simulate -f manifests/ --model models/pretrained/k8s-GPUPodScheduling-v0/ppo.safetensors
  trainer podsched simulate -f manifests/ --scorer http://127.0.0.1:5000/score
  trainer podsched simulate -f manifests/ -s scheduler.yaml --deschedule-policy fragMultiPod --deschedule-ratio 0.1 \
    --snapshot scheduled=before.yaml --snapshot after.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := o.run(cmd)
			if err != nil {
				return err
			}
			for _, kind := range slices.Sorted(maps.Keys(o.objects.Ignored)) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d of kind %s left out: neither a Node nor a Pod nor a workload\n", o.objects.Ignored[kind], kind)
			}
			return cli.Print(cmd, report, func(w io.Writer) error { return printSimulation(w, report) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.workload, "filename", "f", "", "file or folder of Nodes, Pods and workloads, or a Config of Simon")
	f.StringVarP(&o.config, "scheduler-config", "s", "", "file of a KubeSchedulerConfiguration")
	f.Int64Var(&o.seed, "seed", 0, "random seed of the plugin Random")
	f.StringVar(&o.model, "model", "", "model file that chooses nodes instead of plugins")
	f.StringVar(&o.scorer, "scorer", "", "URL of a service that scores nodes instead of plugins")
	f.DurationVar(&o.scorerTimeout, "scorer-timeout", 5*time.Second, "timeout of a reply of --scorer")
	f.StringVar(&o.deschedule.Policy, "deschedule-policy", "", "evict placed pods and place them again: "+strings.Join(gpushare.DeschedulePolicies(), ", "))
	f.Float64Var(&o.deschedule.Ratio, "deschedule-ratio", 0.1, "maximum fraction of the placed pods to evict, 0 to 1")
	f.StringArrayVar(&o.snapshots, "snapshot", nil, "[POINT=]FILE: write the cluster at that point, by default the end (repeat)")
	return cmd
}

// run reads, simulates and writes snapshots.
func (o *simulateFlags) run(cmd *cobra.Command) (*gpushare.Report, error) {
	if o.workload == "" || o.config == "" && o.model == "" && o.scorer == "" {
		return nil, errors.New("-f and -s are needed: the cluster's Nodes and Pods, and a KubeSchedulerConfiguration; or --model or --scorer in place of -s")
	}
	if given := []string{o.config, o.model, o.scorer}; len(slices.DeleteFunc(given, func(s string) bool { return s == "" })) > 1 {
		return nil, errors.New("want one of -s, --model and --scorer")
	}
	if o.deschedule.Policy == "" && cmd.Flags().Changed("deschedule-ratio") {
		return nil, fmt.Errorf("--deschedule-ratio needs --deschedule-policy: one of %s", strings.Join(gpushare.DeschedulePolicies(), ", "))
	}
	var err error
	if o.points, err = o.parseSnapshots(); err != nil {
		return nil, err
	}
	var c *kubeyaml.Config
	if o.config != "" {
		if c, err = kubeyaml.ReadConfig(o.config); err != nil {
			return nil, err
		}
	}
	if err := o.read(cmd); err != nil {
		return nil, err
	}
	if o.w, err = o.objects.Workload(); err != nil {
		return nil, err
	}
	profiles := make([]gpushare.Profile, len(o.w.Schedulers))
	for i := range profiles {
		profiles[i].Devices = "BestFit" // the decider chooses nodes
	}
	if c != nil {
		if profiles, err = c.Profiles(o.w); err != nil {
			return nil, err
		}
	}
	decider, closer, err := o.decider()
	if err != nil {
		return nil, err
	}
	report, err := o.simulate(cmd.Context(), profiles, gpushare.SimulationOptions{Seed: o.seed, Decider: decider, Types: o.w.Types})
	return report, errors.Join(err, closer())
}

// read reads the objects of -f, and the settings of a Simon configuration.
func (o *simulateFlags) read(cmd *cobra.Command) error {
	simon, err := kubeyaml.ReadSimon(o.workload)
	if err != nil {
		return err
	}
	if simon == nil {
		o.objects, err = kubeyaml.Read(o.workload)
		return err
	}
	for _, note := range simon.Notes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", o.workload, note)
	}
	custom := &simon.Spec.CustomConfig
	if o.deschedule.Policy == "" && custom.DescheduleConfig.Policy != "" {
		o.deschedule.Policy, o.deschedule.Ratio = custom.DescheduleConfig.Policy, custom.DescheduleConfig.Ratio
	}
	if prefix := custom.ExportConfig.PodSnapshotYamlFilePrefix; prefix != "" {
		stages := map[string]string{atScheduled: "InitSchedule"}
		if o.deschedule.Policy != "" {
			stages[atEnd] = "PostDeschedule"
		}
		for moment, stage := range stages {
			dir := filepath.Join(prefix, stage)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			o.points = append(o.points, snapshotRequest{name: moment, file: filepath.Join(dir, "pod-snapshot.yaml")})
		}
	}
	o.objects, err = simon.Objects()
	return err
}

// decider returns the model or the scorer, or nil without either, and a function that closes it.
func (o *simulateFlags) decider() (gpushare.Decider, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case o.model != "":
		p, err := live.Open(live.Args{Model: o.model}, len(o.objects.Nodes))
		if err != nil {
			return nil, nil, err
		}
		s, err := mirror.Simulate(p, o.objects.Nodes, o.w.Objects)
		if err != nil {
			return nil, nil, errors.Join(err, p.Close())
		}
		return s, p.Close, nil
	case o.scorer != "":
		h, err := scorer.New(o.scorer, o.scorerTimeout, o.objects.Nodes, o.w.Objects)
		return h, nothing, err
	}
	return nil, nothing, nil
}

// simulate plays the simulation.
func (o *simulateFlags) simulate(ctx context.Context, profiles []gpushare.Profile, options gpushare.SimulationOptions) (*gpushare.Report, error) {
	s, err := gpushare.NewSimulation(o.w.Nodes, o.w.Pods, profiles, options)
	if err != nil {
		return nil, err
	}
	for _, m := range o.points {
		if m.name == "" && m.decisions > s.Pending() {
			return nil, fmt.Errorf("--snapshot %d=%s: want at most %d, the number of pods to decide on", m.decisions, m.file, s.Pending())
		}
	}
	for n := 0; ; n++ {
		if err := o.snapshot(s, snapshotRequest{decisions: n}); err != nil {
			return nil, err
		}
		if s.Pending() == 0 {
			break
		}
		if err := s.Step(ctx); err != nil {
			return nil, err
		}
	}
	if err := o.snapshot(s, snapshotRequest{name: atScheduled}); err != nil {
		return nil, err
	}
	if o.deschedule.Policy != "" {
		o.deschedule.Evicted = func() error { return o.snapshot(s, snapshotRequest{name: atEvicted}) }
		if _, err := s.Deschedule(ctx, o.deschedule); err != nil {
			return nil, err
		}
	}
	return s.Report(), o.snapshot(s, snapshotRequest{name: atEnd})
}

// Named points of --snapshot.
const (
	atScheduled = "scheduled"
	atEvicted   = "evicted"
	atEnd       = "end"
)

// snapshotRequest names a point of a simulation at which to write a file.
type snapshotRequest struct {
	name      string // "": after a number of decisions
	decisions int
	file      string // at which to write
}

func (o *simulateFlags) parseSnapshots() ([]snapshotRequest, error) {
	var all []snapshotRequest
	for _, text := range o.snapshots {
		m := snapshotRequest{name: atEnd, file: text}
		if moment, file, ok := strings.Cut(text, "="); ok {
			m = snapshotRequest{name: moment, file: file}
		}
		switch n, err := strconv.Atoi(m.name); {
		case err == nil && n >= 0:
			m.name, m.decisions = "", n
		case m.name == atEvicted && o.deschedule.Policy == "":
			return nil, fmt.Errorf("--snapshot %s: nothing is evicted without --deschedule-policy", text)
		case !slices.Contains([]string{atScheduled, atEvicted, atEnd}, m.name):
			return nil, fmt.Errorf("--snapshot %s: moment %q, want a number of decisions, %s, %s or %s", text, m.name, atScheduled, atEvicted, atEnd)
		}
		if m.file == "" {
			return nil, fmt.Errorf("--snapshot %s: no file", text)
		}
		all = append(all, m)
	}
	return all, nil
}

// snapshot writes the files that are due at a point of the simulation.
func (o *simulateFlags) snapshot(s *gpushare.Simulation, now snapshotRequest) error {
	for _, m := range o.points {
		if m.name != now.name || m.decisions != now.decisions {
			continue
		}
		if err := cli.WriteTo(m.file, func(w io.Writer) error { return kubeyaml.WriteSnapshot(w, o.objects, o.w, s) }); err != nil {
			return err
		}
	}
	return nil
}

func printSimulation(w io.Writer, r *gpushare.Report) error {
	t := tracking.NewTable("pod", "node", "devices")
	for _, p := range r.Placements {
		t.Append(p.Pod, p.Node, strings.Trim(fmt.Sprint(p.Devices), "[]"))
	}
	t.WriteText(w)
	if len(r.Failed) > 0 {
		fmt.Fprintln(w)
		t = tracking.NewTable("failed pod", "why")
		for _, f := range r.Failed {
			t.Append(f.Pod, failure(r.Nodes, f.Reasons))
		}
		t.WriteText(w)
	}
	if d := r.Descheduling; d != nil {
		printDescheduling(w, d)
	}
	_, err := fmt.Fprintf(w, "\n%d placed, %d failed\nallocated: GPU %.2f %%, CPU %.2f %%, memory %.2f %%\nfragmented: %.0f of %d milli-GPU free\n",
		len(r.Placements), len(r.Failed), percent(r.MilliGPU, r.AllMilliGPU), percent(r.MilliCPU, r.AllMilliCPU), percent(r.MemoryMiB, r.AllMemoryMiB),
		r.FragMilliGPU, r.AllMilliGPU-r.MilliGPU)
	return err
}

func percent(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return 100 * float64(a) / float64(b)
}

// printDescheduling prints the evictions, and the cluster before and after.
func printDescheduling(w io.Writer, d *gpushare.Descheduling) {
	fmt.Fprintln(w)
	t := tracking.NewTable("evicted pod", "from", "to")
	for _, m := range d.Moves {
		t.Append(m.Pod, m.From, cmp.Or(m.To, "nowhere: it fits no node"))
	}
	t.WriteText(w)
	fmt.Fprintln(w)
	t = tracking.NewTable("moment", ">pods", ">used nodes", ">GPU allocated", ">milli-GPU free", ">of it fragmented", ">in percent")
	for _, one := range []struct {
		moment string
		u      gpushare.Usage
	}{{"before " + d.Policy, d.Before}, {"evicted", d.Evicted}, {"placed again", d.After}, {fmt.Sprintf("and %d retried", d.Retried), d.End}} {
		free := one.u.AllMilliGPU - one.u.MilliGPU
		part := 0.0
		if free > 0 {
			part = 100 * one.u.FragMilliGPU / float64(free)
		}
		t.Append(one.moment, strconv.Itoa(one.u.Pods), strconv.Itoa(one.u.UsedNodes), fmt.Sprintf("%.2f %%", percent(one.u.MilliGPU, one.u.AllMilliGPU)),
			strconv.FormatInt(free, 10), fmt.Sprintf("%.0f", one.u.FragMilliGPU), fmt.Sprintf("%.1f %%", part))
	}
	t.WriteText(w)
}

// failure returns why a pod was not placed, in kube-scheduler's words.
func failure(nodes int, reasons map[string]int) string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", reasons[why], why))
	}
	return fmt.Sprintf("0/%d nodes are available: %s", nodes, strings.Join(parts, ", "))
}
