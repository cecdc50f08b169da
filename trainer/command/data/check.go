package data

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/convert"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

func newConvert() *cobra.Command {
	var from, to string
	var withConversion []string
	for _, d := range catalog.All() {
		if d.Convert != "" {
			withConversion = append(withConversion, fmt.Sprintf("  %-9s%s", d.Name, convert.Conversions[d.Convert].Doc))
		}
	}
	cmd := &cobra.Command{
		Use:   "convert NAME...",
		Short: "Convert published files to the formats that environments read, as fetch does",
		Long: `Convert published files to the formats that environments read, as fetch does.

Data sets that need a conversion:

` + strings.Join(withConversion, "\n") + `

NPZ files are read without Python's pickle: an array of pickled objects is refused, or left out with a
warning where environments do not need it. Where the manifest has a digest of a converted file, it
is verified.`,
		Example: `  trainer data convert nab
  trainer data convert metis --from downloads --to data`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			some, err := sets(args)
			if err != nil {
				return err
			}
			to = cmp.Or(to, folder(from))
			var rows []fetched
			for i := range some {
				d := &some[i]
				if d.Convert == "" {
					return fmt.Errorf("%s needs no conversion: environments read its files as published", d.Name)
				}
				made, err := convertSet(cmd.Context(), d, folder(from), to, newProgress(cmd).warn)
				if err != nil {
					return err
				}
				rows = append(rows, made...)
			}
			return printFetched(cmd, rows)
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "folder with the published files under the manifest's paths (default: the data folder)")
	f.StringVar(&to, "to", "", "folder to write to (default: that of --from)")
	return cmd
}

// errWrong is the error of a folder that differs from the manifest.
var errWrong = errors.New("not as the manifest says")

func newCheck() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Verify a data folder against the manifest",
		Long: `Verify a data folder against the manifest.

Each file is compared with its digest in the manifest, or else with the digest that fetch has recorded. A
file that differs is an error. With --set, missing files of that set are errors, too.`,
		Example: `  trainer data check
  trainer data check ../shared/data --set openb --json`,
		Aliases: []string{"verify"},
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			some, err := sets(names)
			if err != nil {
				return err
			}
			dir := folder(strings.Join(args, ""))
			var reports []catalog.Report
			for i := range some {
				r, err := some[i].Check(cmd.Context(), dir)
				if err != nil {
					return err
				}
				reports = append(reports, *r)
			}
			if err := cli.Print(cmd, reports, func(w io.Writer) error { return writeReports(w, reports) }); err != nil {
				return err
			}
			return verdict(dir, reports, len(names) > 0)
		},
	}
	cmd.Flags().StringArrayVar(&names, "set", nil, "data set that must be complete (repeat; default: all existing ones)")
	return cmd
}

// writeReports prints a row for each data set, and a row for each wrong or missing file of an existing set.
func writeReports(w io.Writer, reports []catalog.Report) error {
	t := tracking.NewTable("set", "state", ">ok", ">recorded", ">unpinned", ">missing", ">differ")
	var bad []string
	for _, r := range reports {
		count := map[catalog.State]int{}
		for _, f := range r.Files {
			count[f.State]++
			if f.State == catalog.Differs || f.State == catalog.Missing && r.State == catalog.Partial {
				bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s: %s %s", f.Path, f.State, f.Detail)))
			}
		}
		t.Append(r.Name, string(r.State), fmt.Sprint(count[catalog.OK]), fmt.Sprint(count[catalog.Recorded]), fmt.Sprint(count[catalog.Unpinned]),
			fmt.Sprint(count[catalog.Missing]), fmt.Sprint(count[catalog.Differs]))
	}
	t.WriteText(w)
	if len(bad) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(bad, "\n"))
	}
	return nil
}

// verdict returns an error if a set is wrong, if a set that must be complete is not, or if no set exists.
func verdict(dir string, reports []catalog.Report, complete bool) error {
	var bad []string
	for _, r := range reports {
		if r.State == catalog.Wrong || complete && r.State != catalog.Complete {
			bad = append(bad, fmt.Sprintf("%s is %s", r.Name, r.State))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: %w: %s", dir, errWrong, strings.Join(bad, ", "))
	}
	if !slices.ContainsFunc(reports, func(r catalog.Report) bool { return r.State != catalog.Absent }) {
		return fmt.Errorf("%s: %w: it has no file of any data set; trainer data fetch NAME --to %s gets one", dir, errWrong, cli.Quote(dir))
	}
	return nil
}
