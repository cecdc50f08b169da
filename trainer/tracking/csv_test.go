package tracking

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path string, lines ...string) {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	if diff := cmp.Diff(strings.Join(lines, "\n")+"\n", string(data)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", filepath.Base(path), diff)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp"))
	check(t, err)
	if len(left) > 0 {
		t.Errorf("%v are left over", left)
	}
}

func TestProgressCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "progress.csv")
	p := must[*ProgressCSV](t)(OpenProgressCSV(path, NewRun))
	check(t, p.Write(100, map[string]float64{"time/fps": 1e6, "rollout/ep_rew_mean": -0.125}))
	check(t, p.Write(200, map[string]float64{"time/fps": 2.5, "time/total_timesteps": 999}))
	check(t, p.Write(300, map[string]float64{"train/loss": math.NaN(), "a,b": math.Inf(1), "time/fps": math.Inf(-1)}))
	wantFile(t, path,
		`time/total_timesteps,rollout/ep_rew_mean,time/fps,"a,b",train/loss`,
		`100,-0.125,1000000,,`,
		`200,,2.5,,`,
		`300,,-inf,inf,nan`,
	)
	if err := p.Write(400, map[string]float64{"two\nlines": 1}); err == nil {
		t.Error("key with a line break: no error")
	}
	check(t, p.Write(400, nil))
	check(t, p.Close())
	if err := p.Write(500, nil); err == nil {
		t.Error("Write after Close: no error")
	}
}

// TestProgressCSVResume compares a run that crashed in the middle of a line at step 400 and
// resumed from its checkpoint at 200 with one that was not interrupted.
func TestProgressCSVResume(t *testing.T) {
	write := func(p *ProgressCSV, from, to int64) {
		for step := from; step <= to; step += 100 {
			values := map[string]float64{"time/fps": float64(step) / 8}
			if step >= 200 {
				values["train/loss"] = 1 / float64(step)
			}
			if step >= 300 {
				values["eval/mean_reward"] = float64(step)
			}
			check(t, p.Write(step, values))
		}
		check(t, p.Close())
	}
	folder := t.TempDir()
	whole, parts := filepath.Join(folder, "whole.csv"), filepath.Join(folder, "parts.csv")
	write(must[*ProgressCSV](t)(OpenProgressCSV(whole, NewRun)), 100, 500)
	write(must[*ProgressCSV](t)(OpenProgressCSV(parts, NewRun)), 100, 300)
	file, err := os.OpenFile(parts, os.O_WRONLY|os.O_APPEND, 0)
	check(t, err)
	_, err = file.WriteString("4") // of 400; taken for a row it would be kept
	check(t, err)
	check(t, file.Close())
	write(must[*ProgressCSV](t)(OpenProgressCSV(parts, 200)), 300, 500)

	want, err := os.ReadFile(whole)
	check(t, err)
	wantFile(t, parts, strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")...)
}

func TestCreateEmptiesAndResumeCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.csv")
	for _, open := range []func() (*ProgressCSV, error){
		func() (*ProgressCSV, error) { return OpenProgressCSV(path, 100) },
		func() (*ProgressCSV, error) { return OpenProgressCSV(path, NewRun) },
	} {
		p := must[*ProgressCSV](t)(open())
		check(t, p.Write(100, nil))
		check(t, p.Close())
		wantFile(t, path, "time/total_timesteps", "100")
	}
	check(t, os.WriteFile(path, []byte("time/total_ti"), 0o644)) // crashed in its creation
	p := must[*ProgressCSV](t)(OpenProgressCSV(path, 100))
	check(t, p.Close())
	wantFile(t, path, "time/total_timesteps")
}

func TestResumeErrors(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"other file", "a,b\n1,2\n", `lack "time/total_timesteps"`},
		{"no number", "time/total_timesteps\n100\nten\n", "line 3: time/total_timesteps"},
		{"too many cells", "time/total_timesteps\n100,5\n", "wrong number of fields"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "progress.csv")
			check(t, os.WriteFile(path, []byte(tt.text), 0o644))
			_, err := OpenProgressCSV(path, 100)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			wantFile(t, path, strings.Split(strings.TrimSuffix(tt.text, "\n"), "\n")...)
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o644))
	if _, err := OpenProgressCSV(filepath.Join(file, "progress.csv"), NewRun); err == nil {
		t.Error("OpenProgressCSV below a file: no error")
	}
	if err := os.Mkdir(file+".dir", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenProgressCSV(file+".dir", NewRun); err == nil {
		t.Error("OpenProgressCSV in a folder's place: no error")
	}
}

func TestMonitorCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "monitor.csv")
	start := fixedClock()
	m := must[*MonitorCSV](t)(OpenMonitorCSV(path, "k8s/Test-v0", start, NewRun))
	check(t, m.Episode(20, 1.23456789, 20, start.Add(1500*time.Millisecond)))
	check(t, m.Episode(50, -3, 30, start.Add(2*time.Second)))
	check(t, m.Episode(90, 0.5, 40, start.Add(3*time.Second)))
	check(t, m.Close())
	head := []string{`#{"t_start": 1704067200.5, "env_id": "k8s/Test-v0"}`, `r,l,t,timesteps`}
	wantFile(t, path, append(head, `1.234568,20,1.5,20`, `-3,30,2,50`, `0.5,40,3,90`)...)

	later := start.Add(time.Hour)
	m = must[*MonitorCSV](t)(OpenMonitorCSV(path, "k8s/Test-v0", later, 50))
	check(t, m.Episode(90, 7, 40, later))
	check(t, m.Close())
	wantFile(t, path, append(head, `1.234568,20,1.5,20`, `-3,30,2,50`, `7,40,3600,90`)...)

	if _, err := OpenMonitorCSV(path, "k8s/Other-v0", later, 50); err == nil || !strings.Contains(err.Error(), `want "k8s/Other-v0"`) {
		t.Errorf("other environment: error %v", err)
	}
}

func TestMonitorCSVResumeNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "monitor.csv")
	m := must[*MonitorCSV](t)(OpenMonitorCSV(path, `a "quoted" id`, fixedClock(), 50))
	check(t, m.Close())
	wantFile(t, path, `#{"t_start": 1704067200.5, "env_id": "a \"quoted\" id"}`, `r,l,t,timesteps`)
}

func TestMonitorCSVResumeErrors(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no first line": {"r,l,t,timesteps\n", "first line lacks"},
		"no JSON":       {"#{\nr,l,t,timesteps\n", "first line"},
		"no timesteps":  {"#{\"env_id\": \"e\"}\nr,l,t\n", `lack "timesteps"`},
		"other columns": {"#{\"env_id\": \"e\"}\nr,l,timesteps\n", "columns are"},
		"bad row":       {"#{\"env_id\": \"e\"}\nr,l,t,timesteps\n1,2,3,x\n", "line 3: timesteps"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "monitor.csv")
			check(t, os.WriteFile(path, []byte(tt.text), 0o644))
			_, err := OpenMonitorCSV(path, "e", fixedClock(), 50)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestEvaluationsCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evaluations.csv")
	e := must[*EvaluationsCSV](t)(OpenEvaluationsCSV(path, NewRun))
	check(t, e.Write(0, []float64{4}))
	check(t, e.Write(1000, []float64{1, 3, 5})) // mean 3, variance (4+0+4)/2
	check(t, e.Close())
	e = must[*EvaluationsCSV](t)(OpenEvaluationsCSV(path, 999))
	check(t, e.Write(1000, []float64{2, 2}))
	check(t, e.Close())
	wantFile(t, path,
		`timesteps,mean,std,episodes,return_0,return_1,return_2`,
		`0,4,nan,1,4,,`,
		`1000,2,0,2,2,2,`,
	)
	path = filepath.Join(filepath.Dir(path), "new.csv")
	e = must[*EvaluationsCSV](t)(OpenEvaluationsCSV(path, 999))
	check(t, e.Close())
	wantFile(t, path, `timesteps,mean,std,episodes`)
}

func TestSheetMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.csv")
	p := must[*ProgressCSV](t)(OpenProgressCSV(path, NewRun))
	check(t, p.Close())
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm()&0o444 == 0 || info.Mode().Perm()&fs.FileMode(0o111) != 0 {
		t.Errorf("mode %v, want a readable file", info.Mode())
	}
}

// TestCompleteLength looks for the last newline on either side of the blocks that the file is
// read in.
func TestCompleteLength(t *testing.T) {
	for _, before := range []int{0, 1, 4095, 4096, 4097, 9000} {
		for _, after := range []int{0, 1, 4095, 4096, 9000} {
			path := filepath.Join(t.TempDir(), "file")
			check(t, os.WriteFile(path, []byte(strings.Repeat("a", before)+"\n"+strings.Repeat("b", after)), 0o644))
			file := must[*os.File](t)(os.Open(path))
			got := must[int64](t)(completeLength(file))
			check(t, file.Close())
			if got != int64(before)+1 {
				t.Errorf("%d bytes, newline, %d bytes: length %d, want %d", before, after, got, before+1)
			}
		}
	}
}

func FuzzResumeMonitorCSV(f *testing.F) {
	f.Add("#{\"t_start\": 1.5, \"env_id\": \"e\"}\nr,l,t,timesteps\n1,20,0.5,20\n2,30,1,80\n")
	f.Add("#{}\n\"r")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "monitor.csv")
		check(t, os.WriteFile(path, []byte(text), 0o644))
		m, err := OpenMonitorCSV(path, "e", fixedClock(), 50)
		if err != nil {
			return
		}
		check(t, m.Episode(60, 1, 2, fixedClock()))
		check(t, m.Close())
		m, err = OpenMonitorCSV(path, "e", fixedClock(), 60)
		check(t, err) // what was resumed once can be resumed again
		check(t, m.Close())
	})
}
