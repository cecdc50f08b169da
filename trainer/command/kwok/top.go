package kwok

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/poll"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gaugeWidth is the length of a full gauge.
const gaugeWidth = 20

func newKwokTop() *cobra.Command {
	var o kwok.Options
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the requests on each node live",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := kwok.Connect(cmd.Context(), o)
			if err != nil {
				return err
			}
			for {
				nodes, err := kwok.Usage(cmd.Context(), client)
				if cmd.Context().Err() != nil && !once {
					return nil
				}
				if err != nil {
					return err
				}
				if cli.WantJSON(cmd) {
					return cli.PrintJSON(cmd, nodes)
				}
				if err := printTop(cmd, nodes, !once); err != nil || once {
					return err
				}
				if poll.Sleep(cmd.Context(), every) != nil {
					return nil
				}
			}
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "refresh interval")
	cmd.Flags().BoolVar(&once, "once", false, "print once and exit")
	apiserver.Flags(cmd, &o)
	return cmd
}

// printTop prints a line for each node; with clear it starts at the top of the terminal.
func printTop(cmd *cobra.Command, nodes []kwok.NodeUsage, clear bool) error {
	var b bytes.Buffer
	if clear {
		b.WriteString("\x1b[H\x1b[J")
	}
	t := tracking.NewTable("node", "status", ">pods", ">CPU", "", ">memory, Gi", "")
	for _, n := range nodes {
		status := "Ready"
		if !n.Ready {
			status = "NotReady"
		}
		t.Append(n.Name, status, fmt.Sprintf("%d/%d", n.Pods, n.MaxPods),
			fmt.Sprintf("%g/%g", float64(n.Requested.MilliCPU)/1000, float64(n.Allocatable.MilliCPU)/1000), gauge(n.Requested.MilliCPU, n.Allocatable.MilliCPU),
			fmt.Sprintf("%.1f/%.1f", float64(n.Requested.MemoryBytes)/(1<<30), float64(n.Allocatable.MemoryBytes)/(1<<30)), gauge(n.Requested.MemoryBytes, n.Allocatable.MemoryBytes))
	}
	if err := t.WriteText(&b); err != nil {
		return err
	}
	l := kwok.Total(nodes)
	fmt.Fprintf(&b, "%d nodes; requested: CPU %.1f %%, memory %.1f %%, pods %.1f %%\n", len(nodes), 100*l.CPU, 100*l.Memory, 100*l.Pods)
	_, err := cmd.OutOrStdout().Write(b.Bytes())
	return err
}

func gauge(part, whole int64) string {
	n := int(float64(gaugeWidth) * float64(part) / float64(max(whole, 1)))
	n = min(max(n, 0), gaugeWidth)
	return strings.Repeat("#", n) + strings.Repeat(".", gaugeWidth-n)
}
