package vpa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// vpaRecording is the JSON of `vpa record`.
type vpaRecording struct {
	File string `json:"file"`
	metricsapi.Recording
}

func newVPARecord() *cobra.Command {
	var c metricsapi.RecordConfig
	var kubeconfig, out string
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record the usage of pods from the metrics API to a file that environments read",
		Long: `Record the usage of pods from the metrics API to a file that environments read.

The API server is that of --kubeconfig or of ` + kwok.KubeconfigVariable + `, or, in a pod, its own. It is only
read: podmetrics of metrics.k8s.io, and pods for what their containers request. Each reply is added to the file
as one line, a PodMetricsList, so that the same command resumes where an earlier one ended. metrics-server
has a new sample every 15 to 60 s; one that it repeats counts once.

Files of other recorders are read as well: what

  kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods >> usage.jsonl
  (date -Iseconds; kubectl top pod -A --containers) >> top.txt

give again and again, podmetrics and top of ` + "`vpa workload --workload-type`" + `.`,
		Example: `  trainer vpa record --namespace shop --interval 1m --samples 1440 -o usage.jsonl
  trainer vpa workload --data usage.jsonl --out DIR --plot
  trainer eval --env k8s/VerticalPodAutoscaler-v0 --baseline upstream --env-kwargs data:usage.jsonl --env-kwargs split:all`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Interval <= 0 || c.Samples < 0 {
				return fmt.Errorf("--interval is %v and --samples %d, want more than 0, and 0 or more", c.Interval, c.Samples)
			}
			if c.REST, err = apiServer(kubeconfig); err != nil {
				return err
			}
			c.Warn = func(err error) { fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err) }
			r := vpaRecording{File: out}
			if r.Recording, err = recordTo(cmd.Context(), out, c); err != nil && cmd.Context().Err() == nil {
				return err
			}
			if err := printRecording(cmd, &r); err != nil {
				return err
			}
			if err != nil {
				return fmt.Errorf("%w: %d samples are in %s, and the same command adds to them", cli.ErrInterrupted, r.Samples, out)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server (default: that of "+kwok.KubeconfigVariable+")")
	f.StringVarP(&out, "out", "o", "usage.jsonl", "file to append to")
	f.StringVarP(&c.Namespace, "namespace", "n", "", "namespace of the pods (default: all)")
	f.StringVarP(&c.Selector, "selector", "l", "", "label selector of the pods (default: all)")
	f.DurationVar(&c.Interval, "interval", time.Minute, "time between samples")
	f.IntVar(&c.Samples, "samples", 0, "number of samples (default: until interrupted)")
	return cmd
}

// recordTo appends a recording to a file.
func recordTo(ctx context.Context, out string, c metricsapi.RecordConfig) (r metricsapi.Recording, err error) {
	f, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return metricsapi.Record(ctx, f, c)
}

// apiServer returns the configuration for the API server of a kubeconfig file, of the variable's kubeconfig, or
// of the pod that this process runs in.
func apiServer(kubeconfig string) (*rest.Config, error) {
	kubeconfig = cmp.Or(kubeconfig, os.Getenv(kwok.KubeconfigVariable))
	if kubeconfig == "" {
		rc, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("neither --kubeconfig nor %s names an API server, and this is no pod", kwok.KubeconfigVariable)
		}
		return rc, err
	}
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	rc.QPS, rc.UserAgent, rc.WarningHandler = -1, "kubernasium", rest.NoWarnings{} // the interval limits the rate
	return rc, nil
}

func printRecording(cmd *cobra.Command, r *vpaRecording) error {
	t := tracking.NewTable("file", ">samples", ">failed", ">containers", ">readings", "first", "last")
	t.Append(r.File, fmt.Sprint(r.Samples), fmt.Sprint(r.Failed), fmt.Sprint(r.Containers), fmt.Sprint(r.Readings), r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339))
	return cli.Print(cmd, r, t.WriteText)
}
