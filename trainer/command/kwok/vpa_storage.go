package kwok

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/kwok/vpa"
	"github.com/kubernasium/kubernasium/kwok/vpa/history"
)

// Values of --storage, as in upstream's recommender.
const (
	storageCheckpoint = "checkpoint"
	storagePrometheus = "prometheus"
)

// storageFlags configure the initial knowledge of a recommender. Names, defaults and variables are upstream's.
type storageFlags struct {
	storage   string
	tokenFile string
	history   history.Config
}

func (s *storageFlags) add(cmd *cobra.Command) {
	f, h := cmd.Flags(), &s.history
	*h = history.DefaultConfig()
	f.StringVar(&s.storage, "storage", "", storageCheckpoint+" or "+storagePrometheus+" (default: a restart forgets everything)")
	f.StringVar(&h.Address, "prometheus-address", h.Address, "Prometheus server")
	f.BoolVar(&h.Insecure, "prometheus-insecure", h.Insecure, "do not check its certificate")
	f.DurationVar(&h.QueryTimeout, "prometheus-query-timeout", h.QueryTimeout, "timeout of a reply")
	f.StringVar(&h.Length, "history-length", h.Length, "how far back to query")
	f.StringVar(&h.Resolution, "history-resolution", h.Resolution, "time between samples, over which CPU is averaged")
	f.StringVar(&h.Job, "prometheus-cadvisor-job-name", h.Job, "job that scrapes cAdvisor; empty: any")
	f.StringVar(&h.CPUMetric, "history-cpu-metric", h.CPUMetric, "metric of CPU, in cumulative seconds")
	f.StringVar(&h.MemoryMetric, "history-memory-metric", h.MemoryMetric, "metric of memory, in bytes")
	f.StringVar(&h.ContainerNamespaceLabel, "container-namespace-label", h.ContainerNamespaceLabel, "label with a container's namespace")
	f.StringVar(&h.ContainerPodNameLabel, "container-pod-name-label", h.ContainerPodNameLabel, "label with a container's pod")
	f.StringVar(&h.ContainerNameLabel, "container-name-label", h.ContainerNameLabel, "label with a container's name")
	f.StringVar(&h.PodLabelsMetric, "metric-for-pod-labels", h.PodLabelsMetric, "query whose series have the labels of pods")
	f.StringVar(&h.PodLabelPrefix, "pod-label-prefix", h.PodLabelPrefix, "prefix of these labels")
	f.StringVar(&h.PodNamespaceLabel, "pod-namespace-label", h.PodNamespaceLabel, "label with the pod's namespace")
	f.StringVar(&h.PodNameLabel, "pod-name-label", h.PodNameLabel, "label with the pod's name")
	f.StringVar(&h.Username, "username", "", "name for Prometheus (default: that of PROMETHEUS_USERNAME)")
	f.StringVar(&h.Password, "password", "", "password for Prometheus (default: that of PROMETHEUS_PASSWORD)")
	f.StringVar(&s.tokenFile, "prometheus-bearer-token-file", "", "file with the bearer token for Prometheus")
}

// apply configures what the recommender stores or reads.
func (s *storageFlags) apply(c *vpa.Config) error {
	switch s.storage {
	case "":
		return nil
	case storageCheckpoint:
		c.Checkpoints = true
		return nil
	case storagePrometheus:
	default:
		return fmt.Errorf("--storage %q, want %s or %s", s.storage, storageCheckpoint, storagePrometheus)
	}
	h := s.history
	h.Namespace = c.Namespace
	h.Username, h.Password = cmp.Or(h.Username, os.Getenv("PROMETHEUS_USERNAME")), cmp.Or(h.Password, os.Getenv("PROMETHEUS_PASSWORD"))
	if s.tokenFile != "" {
		token, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return fmt.Errorf("--prometheus-bearer-token-file: %w", err)
		}
		h.BearerToken = strings.TrimSpace(string(token))
	}
	r, err := history.NewReader(h)
	if err != nil {
		return err
	}
	c.History = func(ctx context.Context) (map[history.Pod]*history.PodHistory, error) { return r.Read(ctx, time.Now()) }
	return nil
}
