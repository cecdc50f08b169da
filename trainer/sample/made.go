package sample

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/kubernasium/kubernasium/agents/seriesforecast"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/envs/gang/published"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// finishGang makes a profile with the environment's generator, and forecasts of the series by exponential
// smoothing.
func finishGang(ctx context.Context, dir string) error {
	for _, folder := range []string{"profile", "forecasts"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			return err
		}
	}
	p := profile.Generate(rand.New(pcg.New(0)))
	if err := cli.WriteTo(filepath.Join(dir, "profile", "workload_profiling.csv"), func(w io.Writer) error { return profile.Write(w, p) }); err != nil {
		return err
	}
	for _, task := range published.Tasks {
		s, err := series.Read(filepath.Join(dir, "series", task.Series+".csv"), series.HeldOutRows+1)
		if err != nil {
			return err
		}
		values := s.Used()
		first := len(values) - series.HeldOutRows
		m, err := seriesforecast.Fit(ctx, seriesforecast.Config{Model: seriesforecast.HoltWinters, Day: s.StepsPerDay(), Horizon: series.ForecastColumns}, values[:first])
		if err != nil {
			return err
		}
		rows, err := seriesforecast.Rows(ctx, m, values, first, series.ForecastRows, series.ForecastColumns)
		if err != nil {
			return err
		}
		if err := cli.WriteTo(filepath.Join(dir, "forecasts", task.Series+"_forecasts.csv"), rows.WriteForecasts); err != nil {
			return err
		}
	}
	return nil
}

// finishMetis predicts the node table of the profile, as trainer data convert does.
func finishMetis(_ context.Context, dir string) error {
	measured, err := files.ReadProfileFile(filepath.Join(dir, "profile_p20_2008.csv"))
	if err != nil {
		return err
	}
	table, _, err := throughput.Predict(measured, nil)
	if err != nil {
		return err
	}
	return cli.WriteTo(filepath.Join(dir, "node_table_p20.csv"), func(w io.Writer) error { return files.WriteTable(w, table) })
}
