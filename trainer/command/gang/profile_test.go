package gang

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func gangProfileOf(t *testing.T, args ...string) gangProfile {
	t.Helper()
	return clitest.Decode[gangProfile](t, mustExecute(t, append([]string{"gang", "profile", "--json"}, args...)...))
}

// TestGangProfileOfData compares with durations on record: size 31 on 1, 2, 4 and 8 cores.
func TestGangProfileOfData(t *testing.T) {
	dir := gangData(t)
	out := filepath.Join(t.TempDir(), "p.csv")
	r := gangProfileOf(t, "--env-kwargs", "data:"+dir, "--out", out)
	if diff := cmp.Diff([]float64{1000, 2000, 4000, 8000}, r.At); diff != "" || r.Size != 31 || len(r.Sizes) != 14 || len(r.Shares) != 16 {
		t.Errorf("size %v at %v millicores, %d sizes, %d shares", r.Size, r.At, len(r.Sizes), len(r.Shares))
	}
	for task, want := range map[string][4]float64{
		"affinity": {260, 116, 57, 42}, "atomic": {393, 176, 103, 56}, "bsearch": {780, 317, 137, 58}, "cap": {357, 150, 71, 32},
		"chmod": {494, 143, 45, 42}, "memcpy": {319, 171, 93, 43}, "vecmath": {547, 209, 91, 41}, "zero": {438, 172, 80, 35},
	} {
		for i, got := range r.Durations[task] {
			if math.Abs(got-want[i]) > 0.51 {
				t.Errorf("%s on %v millicores: %v s, want %v", task, r.At[i], got, want[i])
			}
		}
	}
	if len(r.Tasks) != 8 || len(r.Durations) != 8 || r.Penalty != 15 || r.Method != "constant" || len(r.Windows) != 3 || len(r.Windows[0].Seconds) != 6 {
		t.Errorf("%d tasks, penalty %v (%s), %d windows", len(r.Tasks), r.Penalty, r.Method, len(r.Windows))
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "10 to 49") {
		t.Errorf("notes %q, want that the profile's sizes end at 49", r.Notes)
	}
	// The command writes what it has read.
	want, err := profile.Read(filepath.Join(dir, "profile", "workload_profiling.csv"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := profile.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profile written (-want +got):\n%s", diff)
	}
	// The whole is there, too, in the older environment.
	if old := gangProfileOf(t, "--env-kwargs", "data:"+dir, "--env-kwargs", "dynamics:compatible"); len(old.Notes) != 1 {
		t.Errorf("compatible dynamics: notes %q, want that of the sizes", old.Notes)
	}
}

// TestGangProfileText: the output says what the JSON does.
func TestGangProfileText(t *testing.T) {
	out := filepath.Join(t.TempDir(), "p.csv")
	args := []string{"gang", "profile", "--out", out}
	text := mustExecute(t, args...)
	r := gangProfileOf(t, args[2:]...)
	lines := map[string]bool{}
	for line := range strings.Lines(text) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	n, m := len(r.Sizes), len(r.Shares)
	want := []string{
		fmt.Sprintf("%d tasks at %d sizes from %v to %v and %d shares from %v to %v millicores", len(r.Tasks), n, r.Sizes[0], r.Sizes[n-1], m, r.Shares[0], r.Shares[m-1]),
		fmt.Sprintf("Seconds for size %v, by millicores", r.Size),
		fmt.Sprintf("%s is written; play it with --env-kwargs profile:%s", out, out),
	}
	for task, seconds := range r.Durations {
		for _, s := range seconds {
			task += fmt.Sprintf(" %.1f", s)
		}
		want = append(want, task)
	}
	for _, x := range r.Windows {
		row := strconv.Itoa(x.Window)
		for _, s := range x.Seconds {
			row += fmt.Sprintf(" %.2f", s)
		}
		row += " " + strconv.Itoa(x.Interval)
		if x.Interval == len(x.Seconds) {
			row += " or more"
		}
		want = append(want, row+fmt.Sprintf(" %.2f", x.PerSuperstep))
	}
	for _, w := range want {
		if !lines[w] {
			t.Errorf("no line %q in\n%s", w, text)
		}
	}
	if len(r.Windows) == 0 || len(r.Durations) == 0 {
		t.Errorf("%d windows, %d tasks; want some", len(r.Windows), len(r.Durations))
	}
}

// TestGangProfileWithoutALaw: no power of the size is a law of points of size 0.
func TestGangProfileWithoutALaw(t *testing.T) {
	text := "Task Name,Workload Size,CPU Shares,Duration\n"
	for size := range 4 {
		for cores := 1; cores <= 4; cores++ {
			text += fmt.Sprintf("a,%d,%d,%d\n", 20*size, 1000*cores, 12*(size+1)/cores)
		}
	}
	path := envstest.TempFile(t, "p.csv", text)
	args := []string{"--env-kwargs", "profile:" + path, "--env-kwargs", "steps:20"}
	if r := gangProfileOf(t, args...); r.Tasks[0].Law != (profile.Law{Task: "a"}) || r.Tasks[0].R2 != 0 {
		t.Errorf("%+v, want no law", r.Tasks[0])
	}
	if out := mustExecute(t, append([]string{"gang", "profile"}, args...)...); !strings.Contains(out, "none") {
		t.Errorf("%s\nwant none for a law", out)
	}
}

// TestGangProfileOwn makes a profile of laws, drops points, fills them in again, and plays it.
func TestGangProfileOwn(t *testing.T) {
	dir := t.TempDir()
	laws, out, part, spline := filepath.Join(dir, "laws.json"), filepath.Join(dir, "p.csv"), filepath.Join(dir, "part.csv"), filepath.Join(dir, "s.csv")
	envstest.Write(t, laws, `[
		{"task": "x", "a": 3, "size_exp": 1, "share_exp": 1, "c_max": 4},
		{"task": "y", "a": 2, "size_exp": 1, "share_exp": 0.5, "c_max": 8}]`)
	own := []string{"--env-kwargs", "total_cpu_m:8000", "--env-kwargs", "steps:20", "--env-kwargs", "size_low:20", "--env-kwargs", "size_high:80"}
	grid := []string{"--sizes", "20,40,60,80", "--shares", "1000,2000,4000,8000"}
	r := gangProfileOf(t, append(append([]string{"--laws", laws, "--out", out, "--csv", spline, "--plot", filepath.Join(dir, "p.png"), "--size", "40"}, own...), grid...)...)
	clitest.CheckPNG(t, filepath.Join(dir, "p.png"), 750)
	for task, want := range map[string][]float64{"x": {120, 60, 30, 30}, "y": {80, 80 / math.Sqrt2, 40, 40 / math.Sqrt2}} {
		for i, got := range r.Durations[task] {
			if math.Abs(got-want[i]) > 1e-9 {
				t.Errorf("%s on %v millicores: %v s, want %v", task, r.At[i], got, want[i])
			}
		}
	}
	if r.Out != out || r.Filled != nil || r.Tasks[0].R2 < 0.999 {
		t.Errorf("out %q, filled %v, R² %v", r.Out, r.Filled, r.Tasks[0].R2)
	}
	for _, row := range readCSV(t, spline)[1:] {
		if row[4] == "" {
			continue
		}
		s, err := strconv.ParseFloat(row[3], 64)
		p, err2 := strconv.ParseFloat(row[4], 64)
		if err != nil || err2 != nil || math.Abs(s-p) > 1e-9 {
			t.Errorf("row %v: the spline leaves the profile", row)
		}
	}
	if n := len(readCSV(t, spline)); n != 1+2*4*61 { // 1000 to 7000 millicores by 100: the other task has 1000
		t.Errorf("%d rows, want a header and 2 tasks of 4 sizes and 61 shares", n)
	}

	lines := strings.SplitAfter(envstest.Read(t, out), "\n")
	kept := append(append([]string{}, lines[:5]...), lines[9:]...) // without x on 2000 millicores
	envstest.Write(t, part, strings.Join(kept, ""))
	again := gangProfileOf(t, append([]string{"--fill", part, "--size", "40", "--shares", "3000"}, own...)...)
	if f := again.Filled; f == nil || f.Measured != 28 || f.Missing != 12 || len(f.Laws) != 2 || math.Abs(f.Laws[0].A-3) > 1e-6 {
		t.Errorf("filled %+v, want 12 points besides 28, by the law of 3 s", f)
	}
	if got := again.Durations["x"]; math.Abs(got[1]-60) > 1e-5 {
		t.Errorf("x on 2000 millicores: %v s, want 60", got[1])
	}
	table := mustExecute(t, append([]string{"gang", "profile", "--fill", part, "--smooth"}, own...)...)
	for _, want := range []string{"28 points of the file and 4 by the laws", "re-planning costs 15 s (constant)", "set duration_low:"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}

	args := append([]string{"eval", "--env", gangEnv, "--baseline", "static_2", "--episodes", "2", "--json", "--env-kwargs", "profile:" + out}, own...)
	played := clitest.Decode[struct{ Mean float64 }](t, mustExecute(t, args...))
	// 20 supersteps of at most 240 s, of size 80 on one core, over −100 s.
	if !(played.Mean < 0 && played.Mean > -48) {
		t.Errorf("a return of %v", played.Mean)
	}
}

func TestGangProfileRefuses(t *testing.T) {
	laws := envstest.TempFile(t, "laws.json", `[{"task": "x", "a": 3, "size_exp": 1, "share_exp": 1, "c_max": 4}]`)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--fill", "x", "--laws", "y"}, "one of --fill, --laws and --executor"},
		{[]string{"--smooth"}, "want --fill or --laws"},
		{[]string{"--sizes", "1,2,3,4"}, "want --fill or --laws"},
		{[]string{"--laws", laws, "--smooth"}, "--smooth"},
		{[]string{"--laws", laws, "--sizes", "1,2"}, "2 distinct workload sizes"},
		{[]string{"--laws", laws, "--shares", "1000,2000,4000,1e9"}, "1e+09 among the CPU shares, want at most 1000000 millicores"},
		{[]string{"--laws", laws, "--env-kwargs", "profile:x"}, "profile"},
		{[]string{"--laws", laws, "--env-kwargs", "total_cpu_m:8050"}, "total_cpu_m is 8050"},
		{[]string{"--fill", laws}, laws},
		{[]string{"--laws", "nowhere.json"}, "nowhere.json"},
		{[]string{"--ages", "0"}, "--ages 0"},
		{[]string{"--ages", "401"}, "--ages 401"},
		{[]string{"--size", "60"}, "10 to 49"},
		{[]string{"--size", "NaN"}, "10 to 49"},
		{[]string{"--out", "nowhere/p.csv"}, "nowhere/p.csv"},
		{[]string{"--csv", "nowhere/p.csv"}, "nowhere/p.csv"},
		{[]string{"--env-kwargs", "nothing:1"}, "nothing"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"gang", "profile"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("gang profile %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
