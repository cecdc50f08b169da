package profile_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

func TestModelLevels(t *testing.T) {
	m := gangtest.LawModel(t, 5)
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
	_, p := gangtest.LawProfile(t, 8)
	for _, test := range []struct {
		change func(*profile.ModelConfig)
		want   string
	}{
		{func(c *profile.ModelConfig) { c.StartMilliCPU = 0 }, "gang: StartMilliCPU 0, want at least 1"},
		{func(c *profile.ModelConfig) { c.IncrementMilliCPU = 0 }, "gang: IncrementMilliCPU 0, want at least 1"},
		{func(c *profile.ModelConfig) { c.TotalMilliCPU = 7999 }, "gang: TotalMilliCPU 7999, want 8 tasks of 1000 and a multiple of 100 more"},
		{func(c *profile.ModelConfig) { c.TotalMilliCPU = 8050 }, "gang: TotalMilliCPU 8050, want 8 tasks of 1000 and a multiple of 100 more"},
		{func(c *profile.ModelConfig) { c.TotalMilliCPU = 8000000 }, "gang: TotalMilliCPU 8000000 is 79920 increments of 100, want at most 65533"},
		{func(c *profile.ModelConfig) { c.StaticMaxMilliCPU = 900 }, "gang: StaticMaxMilliCPU 900, want at least StartMilliCPU 1000"},
		{func(c *profile.ModelConfig) { c.StaticSize = math.NaN() }, "gang: StaticSize NaN, want a finite size"},
		{func(c *profile.ModelConfig) { c.Discount = 1.5 }, "gang: Discount 1.5 not in (0, 1]"},
	} {
		cfg := profile.DefaultModelConfig()
		test.change(&cfg)
		if _, err := profile.NewModel(p, cfg); err == nil || err.Error() != test.want {
			t.Errorf("NewModel: error %v, want %s", err, test.want)
		}
	}
}

func TestReferenceSpline(t *testing.T) {
	dir := envstest.Data(t, "gang", gangtest.ProfileFile)
	p, err := profile.Read(filepath.Join(dir, "profile", "workload_profiling.csv"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := profile.NewModel(p, profile.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	rows := gangtest.Reference(t, dir, "spline_points.csv")
	if len(rows) != 400 {
		t.Errorf("%d points, want 400", len(rows))
	}
	for _, row := range rows {
		k := slices.Index(p.Tasks, row["task"])
		size, share, want := gangtest.Number(t, row, "workload_size"), gangtest.Number(t, row, "cpu_millicores"), gangtest.Number(t, row, "duration_s")
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
