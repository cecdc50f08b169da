package gang_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang"
)

// saturating holds A, a, b and Cmax of the law D = A·W^a·min(C, Cmax)^−b, for W units of
// work on C cores, that fits stress-ng's stressors.
var saturating = [][4]float64{
	{8.201, 1.001, 1.043, 5.66},
	{13.709, 1.004, 1.058, 7.74},
	{25.251, 0.987, 1.236, 8.38},
	{12.963, 0.963, 1.218, 6.76},
	{12.694, 1.001, 1.444, 4.71},
	{11.209, 0.995, 0.977, 8.89},
	{17.783, 0.991, 1.250, 8.16},
	{14.187, 0.994, 1.242, 8.29},
}

// lawProfile returns a profile of n tasks that follow the law, in CSV and parsed. Every
// third point is off by a fifth, so that the profile is not monotone.
func lawProfile(tb testing.TB, n int) (string, *gang.Profile) {
	tb.Helper()
	var b strings.Builder
	b.WriteString("Task Name, Workload Size, CPU Shares, Duration\n")
	for k := range n {
		law := saturating[k%len(saturating)]
		for i, size := range []float64{10, 18, 26, 36, 50} {
			for j := range 12 {
				share := 1000 + 500*j
				d := law[0] * math.Pow(size, law[1]) * math.Pow(min(float64(share)/1000, law[3]), -law[2])
				d *= 1 + 0.2*float64((i*5+j*7+k)%3/2)
				fmt.Fprintf(&b, "task-%d, %v, %d, %v\n", k, size, share, d)
			}
		}
	}
	p, err := gang.ParseProfile("law.csv", strings.NewReader(b.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return b.String(), p
}

// lawModel returns a model of n tasks with room for increments of 100 m on average 10 each.
func lawModel(tb testing.TB, n int) *gang.Model {
	tb.Helper()
	_, p := lawProfile(tb, n)
	cfg := gang.DefaultModelConfig()
	cfg.TotalMilliCPU = 2000 * n
	m, err := gang.NewModel(p, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestModelLevels(t *testing.T) {
	m := lawModel(t, 5)
	p := m.Profile()
	for k := range p.Tasks {
		for i, size := range p.Sizes {
			for j, share := range p.Shares {
				if got, want := m.Duration(k, size, share), p.Duration(k, i, j); math.Abs(got-want) > 1e-9 {
					t.Errorf("Duration(%d, %v, %v) = %v, want the profile's %v", k, size, share, got, want)
				}
			}
		}
		for _, size := range []float64{3, 10, 17.3, 49.9, 50, 99} {
			for l := range m.Increments() + 1 {
				got, want := m.DurationAt(k, size, l), m.Duration(k, size, float64(m.MilliCPU(l)))
				if math.Abs(got-want) > 1e-9 {
					t.Errorf("DurationAt(%d, %v, %d) = %v, want %v", k, size, l, got, want)
				}
			}
		}
	}
	last := m.Duration(0, 50, 6500)
	for _, at := range [][2]float64{{50, 1e6}, {1e9, 6500}, {math.MaxFloat64, math.MaxFloat64}} {
		if got := m.Duration(0, at[0], at[1]); got != last {
			t.Errorf("Duration(0, %v, %v) = %v, want %v of the grid's edge", at[0], at[1], got, last)
		}
	}
}

func TestNewModelErrors(t *testing.T) {
	_, p := lawProfile(t, 8)
	for _, test := range []struct {
		change func(*gang.ModelConfig)
		want   string
	}{
		{func(c *gang.ModelConfig) { c.StartMilliCPU = 0 }, "gang: StartMilliCPU 0, want at least 1"},
		{func(c *gang.ModelConfig) { c.IncrementMilliCPU = 0 }, "gang: IncrementMilliCPU 0, want at least 1"},
		{func(c *gang.ModelConfig) { c.TotalMilliCPU = 7999 }, "gang: TotalMilliCPU 7999, want 8 tasks of 1000 and a multiple of 100 more"},
		{func(c *gang.ModelConfig) { c.TotalMilliCPU = 8050 }, "gang: TotalMilliCPU 8050, want 8 tasks of 1000 and a multiple of 100 more"},
		{func(c *gang.ModelConfig) { c.TotalMilliCPU = 8000000 }, "gang: TotalMilliCPU 8000000 is 79920 increments of 100, want at most 65533"},
		{func(c *gang.ModelConfig) { c.StaticMaxMilliCPU = 900 }, "gang: StaticMaxMilliCPU 900, want at least StartMilliCPU 1000"},
		{func(c *gang.ModelConfig) { c.StaticSize = math.NaN() }, "gang: StaticSize NaN, want a finite size"},
		{func(c *gang.ModelConfig) { c.Discount = 1.5 }, "gang: Discount 1.5 not in (0, 1]"},
	} {
		cfg := gang.DefaultModelConfig()
		test.change(&cfg)
		if _, err := gang.NewModel(p, cfg); err == nil || err.Error() != test.want {
			t.Errorf("NewModel: error %v, want %s", err, test.want)
		}
	}
}

func TestReferenceSpline(t *testing.T) {
	dir := dataDir(t)
	p, err := gang.ReadProfile(filepath.Join(dir, "profile", "workload_profiling.csv"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := gang.NewModel(p, gang.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	rows := reference(t, dir, "spline_points.csv")
	if len(rows) != 400 {
		t.Errorf("%d points, want 400", len(rows))
	}
	for _, row := range rows {
		k := slices.Index(p.Tasks, row["task"])
		size, share, want := number(t, row, "workload_size"), number(t, row, "cpu_millicores"), number(t, row, "duration_s")
		if got := m.Duration(k, size, share); math.Abs(got-want) > 1e-9 {
			t.Errorf("Duration(%s, %v, %v) = %v, want %v", row["task"], size, share, got, want)
		}
	}
	// Computed with scipy 1.10.1, RectBivariateSpline.
	for _, point := range []struct {
		task        string
		size, share float64
		want        float64
	}{
		{"atomic", 30, 3500, 98.80628366640605},
		{"atomic", 30, 3600, 95.26264946198023},
		{"atomic", 32, 3700, 102.13699121110663},
		{"affinity", 11.5, 1250, 73.90616304407972},
		{"chmod", 27.3, 4321, 39.961387484857184},
		{"cap", 50, 1234.5, 443.1663192710731},
		{"bsearch", 50, 9000, 87.04329788684845},
		{"zero", 25, 2250, 125.69934886715089},
	} {
		k := slices.Index(p.Tasks, point.task)
		if got := m.Duration(k, point.size, point.share); math.Abs(got-point.want) > 1e-9 {
			t.Errorf("Duration(%s, %v, %v) = %v, want %v", point.task, point.size, point.share, got, point.want)
		}
	}
}

// reference returns the rows of a file of reference results by column.
func reference(tb testing.TB, dir, name string) []map[string]string {
	tb.Helper()
	f, err := os.Open(filepath.Join(dir, "reference", name))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := make(map[string]string, len(line))
		for i, field := range line {
			row[lines[0][i]] = field
		}
		rows = append(rows, row)
	}
	return rows
}

func number(tb testing.TB, row map[string]string, column string) float64 {
	tb.Helper()
	v, err := strconv.ParseFloat(row[column], 64)
	if err != nil {
		tb.Fatalf("column %s: %v", column, err)
	}
	return v
}
