package kwok

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/trace"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

func newKwokReplay() *cobra.Command {
	var server kwok.Options
	var o trace.ReplayOptions
	speed := "1"
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay a recording on a control plane",
		Long: `Replay a recording on a control plane: KWOK simulates the recorded nodes, and pods are created, bound and
ended as recorded. With --scheduler-name a scheduler places the pods instead; each runs for its recorded
duration, and finished pods are deleted. Persistent volumes are not replayed.`,
		Example: `  trainer kwok replay cluster.jsonl.zst --speed max
  trainer kwok replay day.jsonl.zst --speed 60 --scheduler-name default-scheduler`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := parseSpeed(speed, &o.Speed); err != nil {
				return err
			}
			client, err := kwok.Connect(cmd.Context(), server)
			if err != nil {
				return err
			}
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			r, err := trace.Replay(cmd.Context(), client, args[0], o)
			if err != nil && !errors.Is(err, clustertrace.ErrCut) && cmd.Context().Err() == nil {
				return err
			}
			if err := printReplay(cmd, r); err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return fmt.Errorf("%w: what was replayed is on the control plane", cli.ErrInterrupted)
			}
			return err // of a truncated recording
		},
	}
	f := cmd.Flags()
	f.StringVar(&speed, "speed", speed, "factor of the recorded speed; max does not wait")
	f.StringVar(&o.Scheduler, "scheduler-name", "", "scheduler that places the pods (default: the recorded bindings)")
	apiserver.Flags(cmd, &server)
	return cmd
}

// parseSpeed reads a factor, or max, which becomes 0.
func parseSpeed(text string, speed *float64) error {
	if text == "max" {
		*speed = 0
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= 1e6) {
		return fmt.Errorf("--speed is %q, want max or a number above 0, up to 1e6", text)
	}
	*speed = v
	return nil
}

func printReplay(cmd *cobra.Command, r trace.Report) error {
	return cli.Printf(cmd, r, "%d nodes and %d pods in %.1f s: %d bound, %d finished, %d deleted; %d events skipped, at most %.1f s late\n",
		r.Nodes, r.Pods, r.Seconds, r.Bound, r.Finished, r.Deleted, r.Skipped, r.LateS)
}
