package profile_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

func TestParseProfileTolerates(t *testing.T) {
	text, want := gangtest.LawProfile(t, 2)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	shuffled := append([]string{}, lines[1:]...)
	// The first row stays, since the order of tasks is that of their first rows.
	rand.New(rand.NewPCG(5, 6)).Shuffle(len(shuffled)-1, func(i, j int) {
		shuffled[i+1], shuffled[j+1] = shuffled[j+1], shuffled[i+1]
	})
	columns := make([]string, len(lines))
	for i, line := range lines {
		f := strings.Split(line, ", ")
		columns[i] = strings.Join([]string{f[3], f[1], "note", f[0], f[2]}, ",")
	}
	for name, text := range map[string]string{
		"byte order mark":       "\ufeff" + text,
		"carriage returns":      strings.ReplaceAll(text, "\n", "\r\n"),
		"no last line end":      strings.TrimSpace(text),
		"blanks":                strings.ReplaceAll(text, ",", "  ,\t "),
		"empty lines":           strings.ReplaceAll(text, "\n", "\n\n"),
		"rows in any order":     lines[0] + "\n" + strings.Join(shuffled, "\n"),
		"other and more column": strings.Join(columns, "\n"),
	} {
		got, err := profile.Parse("p.csv", strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: profile differs (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseProfileErrors(t *testing.T) {
	const header = "Task Name, Workload Size, CPU Shares, Duration\n"
	text, _ := gangtest.LawProfile(t, 2)
	lines := strings.SplitAfter(text, "\n")
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "gang: p.csv:1: empty file, want a header line"},
		{"only a mark", "\ufeff", "gang: p.csv:1: empty file, want a header line"},
		{"no rows", header, "gang: p.csv:1: no rows after the header"},
		{"missing column", "Task Name,Workload Size,Duration\n", `gang: p.csv:1: no column "CPU Shares" among ["Task Name" "Workload Size" "Duration"]`},
		{"short row", header + "a,1,2\n", "gang: p.csv:2: 3 fields, want the header's 4"},
		{"long row", header + "a,1,2,3,4\n", "gang: p.csv:2: 5 fields, want the header's 4"},
		{"bad size", header + "a,x,2,3\n", `gang: p.csv:2: Workload Size "x" is not a number`},
		{"bad share", header + "a,1,2,3\na,1,,3\n", `gang: p.csv:3: CPU Shares "" is not a number`},
		{"bad duration", header + "a,1,2,3s\n", `gang: p.csv:2: Duration "3s" is not a number`},
		{"overflow", header + "a,1,2,1e999\n", `gang: p.csv:2: Duration "1e999" is not a number`},
		{"NaN", header + "a,1,2,NaN\n", `gang: p.csv:2: Duration "NaN" is not finite`},
		{"infinite", header + "a,-Inf,2,3\n", `gang: p.csv:2: Workload Size "-Inf" is not finite`},
		{"negative", header + "a,1,2,-3\n", "gang: p.csv:2: Duration -3, want > 0"},
		{"zero", header + "a,1,2,0\n", "gang: p.csv:2: Duration 0, want > 0"},
		{"zero share", header + "a,1,0,3\n", "gang: p.csv:2: CPU Shares 0, want > 0"},
		{"a million cores", header + "a,1,1e9,1\n", "gang: p.csv:2: CPU Shares 1e+09, want at most 1000000"},
		{"no task", header + " ,1,2,3\n", "gang: p.csv:2: Task Name is empty"},
		{"quote", header + "\"a,1,2,3\n", `gang: p.csv:2: extraneous or missing " in quoted-field`},
		{"duplicate", header + "a,1,2,3\nb,1,2,3\na, 1.0,2,4\n", "gang: p.csv:4: second row for task a, size 1, shares 2"},
		{"hole", strings.Join(append(append([]string{}, lines[:50]...), lines[51:]...), ""),
			"gang: p.csv:120: hole in the grid at the end of the file: no row for task task-0, size 50, shares 1500"},
		{"task missing", text + "c,10,1000,1\n",
			"gang: p.csv:122: hole in the grid at the end of the file: no row for task c, size 10, shares 1500"},
		{"few sizes", header + "a,1,1,3\na,1,2,3\na,1,3,3\na,1,4,3\n",
			"gang: p.csv:5: 1 distinct workload sizes at the end of the file, want at least 4 for the cubic spline"},
		{"few shares", header + "a,1,1,3\na,2,1,3\na,3,1,3\na,4,1,3\n",
			"gang: p.csv:5: 1 distinct CPU shares at the end of the file, want at least 4 for the cubic spline"},
	} {
		if _, err := profile.Parse("p.csv", strings.NewReader(test.text)); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := profile.Read("testdata/missing.csv"); err == nil || !strings.Contains(err.Error(), "testdata/missing.csv") {
		t.Errorf("ReadProfile of a missing file: error %v, want its path", err)
	}
}

func FuzzParseProfile(f *testing.F) {
	text, _ := gangtest.LawProfile(f, 1)
	f.Add(text)
	f.Add("\ufeffTask Name,Workload Size,CPU Shares,Duration\r\na,1,2,3\r\n")
	f.Add("Task Name,Workload Size,CPU Shares,Duration\n\"a\n\",1e308,-0,NaN")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := profile.Parse("p.csv", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "gang: p.csv:") {
				t.Errorf("error %q names no line", err)
			}
			return
		}
		if got, want := len(p.Durations), len(p.Tasks)*len(p.Sizes)*len(p.Shares); got != want {
			t.Fatalf("%d durations, want %d", got, want)
		}
	})
}
