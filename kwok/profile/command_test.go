package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

func TestCombinations(t *testing.T) {
	all, err := Combinations(3, 1, 9)
	if err != nil {
		t.Fatal(err)
	}
	// Multisets of 1, 2 and 3 of 7 applications: 7 + 28 + 84.
	seen := map[lra.Counts]bool{}
	for _, c := range all {
		if n := c.Total(); n < 1 || n > 3 || seen[c] {
			t.Errorf("%v: not of 1 to 3 containers, or there twice", c)
		}
		seen[c] = true
	}
	if len(all) != 119 {
		t.Errorf("%d combinations, want 119", len(all))
	}
	for a := range lra.NumApps {
		if all[a].Total() != 1 || all[a][a] != 1 {
			t.Errorf("combination %d is %v, want %s alone", a, all[a], lra.Apps[a])
		}
	}
	some, err := Combinations(3, 0.25, 9)
	if diff := cmp.Diff(all[:7+28], some); diff != "" || err != nil { // a quarter of 112
		t.Errorf("a smaller coverage: %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []struct {
		most     int
		coverage float64
	}{{0, 1}, {9, 1}, {8, -0.1}, {8, 1.1}} {
		if _, err := Combinations(bad.most, bad.coverage, 0); err == nil {
			t.Errorf("Combinations(%d, %v): no error", bad.most, bad.coverage)
		}
	}
	list, err := WithAlone([]lra.Counts{{2}, {0, 1}, {2}})
	if err != nil || len(list) != 8 || list[7] != (lra.Counts{2}) {
		t.Errorf("WithAlone = %v, %v; want the seven alone, and two Redis once", list, err)
	}
	for _, bad := range []lra.Counts{{}, {9}, {4, 5}} {
		if _, err := WithAlone([]lra.Counts{bad}); err == nil {
			t.Errorf("WithAlone(%v): no error", bad)
		}
	}
}

// TestCommandMeasure runs load commands on this machine.
func TestCommandMeasure(t *testing.T) {
	measure := func(t *testing.T, text string, timeout time.Duration) ([]Answer, error) {
		t.Helper()
		c, err := NewCommand(text, time.Second, timeout)
		if err != nil {
			t.Fatal(err)
		}
		return c.Measure(ctx, lra.Counts{0, 1}, 0, []Container{{"mms", "p", "ns", "n", "10.0.0.1"}})
	}
	for _, tc := range []struct {
		name, text string
		want       Answer
		err        string
	}{
		{name: "all numbers", text: `echo '{"rps": 3.5, "rt50": 0.25, "rt99": 1e0}'`, want: Answer{3.5, 0.25, 1}},
		{name: "throughput only", text: `printf '{"rps": 2}'`, want: Answer{RPS: 2}},
		{name: "fields", text: `test {{.App}}.{{.Pod}}.{{.Namespace}}.{{.Node}}.{{.Address}} = mms.p.ns.n.10.0.0.1 && echo '{"rps": {{.Seconds}}}'`, want: Answer{RPS: 1}},
		{name: "exit code", text: `echo first >&2; echo no route >&2; exit 3`, err: "exit status 3: no route"},
		{name: "no JSON", text: `echo rps=3`, err: `printed "rps=3\n"`},
		{name: "two documents", text: `echo '{"rps": 1}{"rps": 2}'`, err: "printed"},
		{name: "no throughput", text: `echo '{"rt50": 1}'`, err: "want rps above 0"},
		{name: "nothing achieved", text: `echo '{"rps": 0}'`, err: "want rps above 0"},
		{name: "negative time", text: `echo '{"rps": 1, "rt99": -1}'`, err: "rt50 and rt99 not below"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := measure(t, tc.text, time.Minute)
			switch {
			case tc.err != "":
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
			case err != nil || got[0] != tc.want:
				t.Errorf("answer %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
	t.Run("too slow", func(t *testing.T) {
		started := filepath.Join(t.TempDir(), "started")
		for timeout := time.Second; ; timeout *= 2 {
			if _, err := measure(t, `touch `+started+`; sleep 1000; true`, timeout); err == nil || !strings.Contains(err.Error(), fmt.Sprint("it took longer than ", timeout)) {
				t.Fatalf("error %v, want that it took longer than %v", err, timeout)
			}
			if _, err := os.Stat(started); err == nil {
				return
			}
			if timeout > time.Minute {
				t.Fatal("the slow command did not start")
			}
		}
	})
	for _, bad := range []string{"{{.Ap}}", "{{", "{{.Duration.Nonesuch}}"} {
		if _, err := NewCommand(bad, time.Second, time.Second); err == nil {
			t.Errorf("NewCommand(%q): no error", bad)
		}
	}
	if _, err := NewCommand("true", time.Minute, time.Second); err == nil {
		t.Error("NewCommand with a timeout below the duration: no error")
	}
}

// TestStateRefuses: what is no state file of the same kind is not written over.
func TestStateRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"no JSON", "{", "is no state"},
		{"another version", `{"version": 2}`, "has version 2"},
		{"other applications", `{"version": 1, "apps": ["redis"]}`, `applications ["redis"]`},
		{"no combination", `{"version": 1, "apps": ["redis","mms","ckm","ycsba","ycsbb","scd","isr"], "setting": "s", "measurements": [{"counts": [9,0,0,0,0,0,0]}]}`, "counts [9"},
	} {
		path := envstest.TempFile(t, "state.json", tc.text)
		if _, err := openState(path, "s"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}

// TestProfileOfTries: multiples of the mean of the measurements alone, 4 and 6 requests a second.
func TestProfileOfTries(t *testing.T) {
	one, two := lra.Counts{1}, lra.Counts{2}
	s := &state{Measurements: []measurement{
		{Counts: two, RPS: [lra.NumApps]float64{4}, RT50: [lra.NumApps]float64{7}},
		{Counts: one, Try: 1, RPS: [lra.NumApps]float64{6}},
		{Counts: one, RPS: [lra.NumApps]float64{4}},
	}}
	got, err := s.profile()
	want := []throughput.Measurement{
		{Counts: one, RPS: [lra.NumApps]float64{0.8}}, {Counts: one, RPS: [lra.NumApps]float64{1.2}},
		{Counts: two, RPS: [lra.NumApps]float64{0.8}, RT50: [lra.NumApps]float64{7}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("profile: %v (-want +got):\n%s", err, diff)
	}
	s.Measurements = s.Measurements[:1]
	if _, err := s.profile(); err == nil || !strings.Contains(err.Error(), "redis was measured beside others but not alone") {
		t.Errorf("profile without measurements alone: %v", err)
	}
}
