package reproduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/sample"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

const goldenFile = "golden_recommender.json"

func newReproduceVPA() *cobra.Command {
	var dir, usage string
	var every int
	cmd := &cobra.Command{
		Use:   "vpa",
		Short: "Reproduce recommendations of the Kubernetes vertical pod autoscaler",
		Long: `Reproduce recommendations of the Kubernetes vertical pod autoscaler.

The recommender reads eight generated usage traces; each row is its recommendation after a number of
samples. A row that differs from the result of upstream's own code is shown, and is an error.

With --usage, the recommender runs on a CSV file with the columns time_s, cpu_m (millicores), mem_b
(bytes) and, if there are OOM kills, oom_request_b (the memory request in bytes of a container
killed after this sample, else empty or 0). Every --every samples it prints a line with a JSON object,
with or without --json.`,
		Example: `  trainer reproduce vpa --json
  trainer reproduce vpa --usage usage.csv --every 60`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if usage != "" {
				if cmd.Flags().Changed("data") {
					return errors.New("--data holds expected values of the scenarios, not of --usage: give one of them")
				}
				_, err := cli.Computed(cmd.Context(), func() (any, error) { return nil, replayUsage(cmd, usage, every) }) // it may wait for standard input
				return err
			}
			if cmd.Flags().Changed("every") {
				return errors.New("--every needs --usage")
			}
			rows, err := reproduceVPA(cmd, dir)
			if err != nil {
				return err
			}
			if err := printVPA(cmd, rows); err != nil {
				return err
			}
			return differences(rows)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data", "", "folder with "+goldenFile+" (default: vpa in the data folder, or a sample)")
	f.StringVar(&usage, "usage", "", "usage file for the recommender; - is standard input")
	f.IntVar(&every, "every", 1, "number of samples between recommendations")
	return cmd
}

// reproduceVPA runs the scenarios. It reads the expected values from dir, or if that is "" from the data folder
// or the sample.
func reproduceVPA(cmd *cobra.Command, dir string) ([]recommender.Row, error) {
	if dir == "" {
		var err error
		if dir, err = sample.Dir(cmd.Context(), cmd.ErrOrStderr(), "vpa"); err != nil {
			return nil, err
		}
	}
	file, err := os.Open(filepath.Join(dir, goldenFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := recommender.Reproduce(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return rows, nil
}

func printVPA(cmd *cobra.Command, rows []recommender.Row) error {
	t := tracking.NewTable("scenario", ">samples", ">lower", ">target", ">upper", "upstream")
	for _, r := range rows {
		verdict := "equal"
		if !r.Equal() {
			verdict = fmt.Sprintf("%v, %v, %v", r.Expected.Lower, r.Expected.Target, r.Expected.Upper)
		}
		t.Append(r.Scenario, fmt.Sprint(r.Samples), r.Lower.String(), r.Target.String(), r.Upper.String(), verdict)
	}
	return cli.Print(cmd, rows, t.WriteText)
}

// differences returns an error if a row differs from its expected values.
func differences(rows []recommender.Row) error {
	n := 0
	for _, r := range rows {
		if !r.Equal() {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%d of %d recommendations differ from the expected ones", n, len(rows))
	}
	return nil
}

// replayUsage prints recommendations for a usage file, one JSON object per line.
func replayUsage(cmd *cobra.Command, name string, every int) error {
	if every < 1 {
		return fmt.Errorf("--every %d, want at least 1", every)
	}
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	r, err := recommender.New(recommender.DefaultConfig())
	if err != nil {
		return err
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	err = recommender.Replay(r, in, every, func(samples int, b recommender.Bounds) error {
		return enc.Encode(struct {
			Samples int `json:"samples"`
			recommender.Bounds
		}{samples, b})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
