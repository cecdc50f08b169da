package profile_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

func TestWriteProfile(t *testing.T) {
	_, want := gangtest.LawProfile(t, 3)
	var b strings.Builder
	if err := profile.Write(&b, want); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(b.String(), "\n"); first != "Task Name,Workload Size,CPU Shares,Duration" {
		t.Errorf("header %q", first)
	}
	got, err := profile.Parse("p.csv", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profile differs (-want +got):\n%s", diff)
	}
}

// sparse writes points of two tasks, see byHand, and leaves out those to skip.
func sparse(tb testing.TB, skip func(task string, size, cores int) bool) string {
	tb.Helper()
	var b strings.Builder
	b.WriteString("Task Name,Workload Size,CPU Shares,Duration\n")
	for _, task := range []string{"a", "b"} {
		for _, size := range []int{10, 20, 40, 80} {
			for _, cores := range []int{1, 2, 4, 8} {
				if !skip(task, size, cores) {
					fmt.Fprintf(&b, "%s,%d,%d,%v\n", task, size, 1000*cores, byHand(task, float64(size), float64(cores)))
				}
			}
		}
	}
	path := filepath.Join(tb.TempDir(), "sparse.csv")
	envstest.Write(tb, path, b.String())
	return path
}

// byHand returns the seconds for a size: 2·w/c on up to c = 4 cores of task a, 1000/(w·√c) of b.
func byHand(task string, size, cores float64) float64 {
	if task == "a" {
		return 2 * size / min(cores, 4)
	}
	return 1000 / size / math.Sqrt(cores)
}

// TestFillProfile: what is missing is the law's, what is there stays, and the grid takes more points.
func TestFillProfile(t *testing.T) {
	path := sparse(t, func(task string, size, cores int) bool { return size == 20 && cores != 1 || task == "b" && cores == 2 })
	p, err := profile.Fill(path, []float64{60, 10}, []float64{3000}, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]float64{{10, 20, 40, 60, 80}, {1000, 2000, 3000, 4000, 8000}}, [][]float64{p.Sizes, p.Shares}); diff != "" {
		t.Errorf("grid (-want +got):\n%s", diff)
	}
	if p.Measured != 23 || p.Missing != 50-23 {
		t.Errorf("%d points measured and %d filled in, want 23 and 27", p.Measured, p.Missing)
	}
	for k, task := range p.Tasks {
		for i, size := range p.Sizes {
			for j, share := range p.Shares {
				if got, want := p.Duration(k, i, j), byHand(task, size, share/1000); math.Abs(got-want) > 1e-6*want {
					t.Errorf("%s, size %v, %v millicores: %v s, want %v", task, size, share, got, want)
				}
			}
		}
	}
	if l := p.Laws[0]; l.Task != "a" || math.Abs(l.CMax-4) > 1e-9 || math.Abs(l.A-2) > 1e-6 || l.RMS > 1e-6 {
		t.Errorf("law %+v, want 2·w/min(c, 4)", l)
	}
}

// TestFillProfileOnRecord takes two of three points out of the published profile. The law gives them
// back within its residuals on record, and with smooth all points are the law's.
func TestFillProfileOnRecord(t *testing.T) {
	whole, err := profile.Read(filepath.Join(envstest.Data(t, "gang", gangtest.ProfileFile), "profile", "workload_profiling.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("Task Name,Workload Size,CPU Shares,Duration\n")
	for k, task := range whole.Tasks {
		for i, size := range whole.Sizes {
			for j, share := range whole.Shares {
				if (i+j)%3 == 0 {
					fmt.Fprintf(&b, "%s,%v,%v,%v\n", task, size, share, whole.Duration(k, i, j))
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "third.csv")
	envstest.Write(t, path, b.String())
	for _, smooth := range []bool{false, true} {
		p, err := profile.Fill(path, nil, nil, smooth)
		if err != nil {
			t.Fatal(err)
		}
		for k, task := range whole.Tasks {
			sum, n := 0.0, 0.0
			for i, size := range whole.Sizes {
				for j, share := range whole.Shares {
					got, measured := p.Duration(k, i, j), whole.Duration(k, i, j)
					switch {
					case (i+j)%3 == 0 && !smooth:
						if got != measured {
							t.Errorf("%s, size %v, %v millicores: %v s, want %v as measured", task, size, share, got, measured)
						}
					case got != p.Laws[k].Duration(size, share):
						t.Errorf("%s, size %v, %v millicores: %v s, want the law's %v", task, size, share, got, p.Laws[k].Duration(size, share))
					default:
						sum, n = sum+math.Pow(math.Log(got/measured), 2), n+1
					}
				}
			}
			if rms := math.Sqrt(sum / n); rms > 0.125 { // of fits to all points, 0.11 at most
				t.Errorf("%s: the law is off by %v", task, rms)
			}
		}
	}
}

func TestFillProfileErrors(t *testing.T) {
	none := func(string, int, int) bool { return false }
	equal := filepath.Join(t.TempDir(), "equal.csv")
	text := "Task Name,Workload Size,CPU Shares,Duration\n"
	for size := range 4 {
		for cores := range 4 {
			text += fmt.Sprintf("a,%d,%d,%d\n", 1_000_000_000_000_000+size, 1000*(1+cores), 1+size)
		}
	}
	envstest.Write(t, equal, text)
	for name, test := range map[string]struct {
		path          string
		sizes, shares []float64
		want          string
	}{
		"one size": {sparse(t, func(task string, size, _ int) bool { return task == "b" && size > 10 }), nil, nil,
			"task b has 4 points of 1 sizes and 4 shares, want at least 3 of 2 and 2"},
		"one share": {sparse(t, func(task string, _, cores int) bool { return task == "a" && cores != 4 }), nil, nil,
			"task a has 4 points of 4 sizes and 1 shares, want at least 3 of 2 and 2"},
		"two points": {sparse(t, func(task string, size, cores int) bool { return task == "a" && (size != 10*cores || size > 20) }), nil, nil,
			"task a has 2 points of 2 sizes and 2 shares, want at least 3"},
		"equal sizes":   {equal, nil, nil, "task a: its 16 points determine no law"},
		"small grid":    {sparse(t, func(_ string, size, _ int) bool { return size > 20 }), nil, nil, "2 distinct workload sizes"},
		"size of 0":     {sparse(t, none), []float64{0}, nil, "0 among the workload sizes"},
		"negative":      {sparse(t, none), nil, []float64{-1}, "-1 among the CPU shares"},
		"not a number":  {sparse(t, none), nil, []float64{math.NaN()}, "NaN among the CPU shares"},
		"takes forever": {sparse(t, func(task string, size, _ int) bool { return task == "b" && size == 10 }), []float64{5e-324}, nil, "law of task a gives 0 s"},
		"missing":       {"nowhere.csv", nil, nil, "nowhere.csv"},
	} {
		if _, err := profile.Fill(test.path, test.sizes, test.shares, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", name, err, test.want)
		}
	}
}

func TestLawProfile(t *testing.T) {
	laws := []profile.Law{{Task: "x", A: 3, SizeExp: 1, ShareExp: 1, CMax: 4}, {Task: "y", A: 100, SizeExp: 0, ShareExp: 0.5, CMax: 100}}
	p, err := profile.FromLaws(laws, []float64{40, 10, 20, 30, 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{10, 20, 30, 40}, p.Sizes); diff != "" || len(p.Shares) != 16 || p.Shares[0] != 1000 || p.Shares[15] != 8500 {
		t.Errorf("sizes %v, shares %v, want 10 to 40 and 1000 to 8500", p.Sizes, p.Shares)
	}
	// x: 3·20/2 s on two cores, 3·20/4 on 8.5; y: 100/√4 on four.
	for _, c := range []struct {
		k, i, j int
		want    float64
	}{{0, 1, 2, 30}, {0, 1, 15, 15}, {1, 3, 6, 50}} {
		if got := p.Duration(c.k, c.i, c.j); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s, size %v, %v millicores: %v s, want %v", p.Tasks[c.k], p.Sizes[c.i], p.Shares[c.j], got, c.want)
		}
	}
	for name, test := range map[string]struct {
		laws []profile.Law
		want string
	}{
		"none":        {nil, "no laws"},
		"no name":     {[]profile.Law{{A: 1, CMax: 1}}, `task ""`},
		"twice":       {[]profile.Law{laws[0], laws[0]}, `task "x"`},
		"a of 0":      {[]profile.Law{{Task: "x", CMax: 1}}, "a 0"},
		"c_max of 0":  {[]profile.Law{{Task: "x", A: 1}}, "c_max 0"},
		"NaN":         {[]profile.Law{{Task: "x", A: 1, CMax: 1, SizeExp: math.NaN()}}, "size_exp NaN"},
		"infinite":    {[]profile.Law{{Task: "x", A: 1, CMax: 1, ShareExp: math.Inf(1)}}, "share_exp +Inf"},
		"too long":    {[]profile.Law{{Task: "x", A: 1, CMax: 1, SizeExp: 999}}, "gives +Inf s"},
		"no duration": {[]profile.Law{{Task: "x", A: 1, CMax: 1, SizeExp: -999}}, "gives 0 s"},
	} {
		if _, err := profile.FromLaws(test.laws, nil, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", name, err, test.want)
		}
	}
	if _, err := profile.FromLaws(laws, nil, []float64{1, 2, 3, 3}); err == nil || !strings.Contains(err.Error(), "3 distinct CPU shares") {
		t.Errorf("three shares: error %v", err)
	}
}

func TestReadLaws(t *testing.T) {
	path := filepath.Join(t.TempDir(), "laws.json")
	envstest.Write(t, path, `[{"task": "x", "a": 3, "size_exp": 1, "share_exp": 0.5, "c_max": 4}]`)
	laws, err := profile.ReadLaws(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]profile.Law{{Task: "x", A: 3, SizeExp: 1, ShareExp: 0.5, CMax: 4}}, laws); diff != "" {
		t.Errorf("laws (-want +got):\n%s", diff)
	}
	envstest.Write(t, path, `[{"task": "x", "b": 3}]`)
	if _, err := profile.ReadLaws(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("unknown key: error %v, want the file and the key", err)
	}
	if _, err := profile.ReadLaws(path + ".no"); err == nil || !strings.Contains(err.Error(), path+".no") {
		t.Errorf("missing file: error %v", err)
	}
}
