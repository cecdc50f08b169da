package lra

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
)

// TestSubSchedulerReport: numbers of containers at which round-robin is better are named, and the
// table and the file have what was compared.
func TestSubSchedulerReport(t *testing.T) {
	counts := []subcluster.Quality{
		{Containers: 10, Learned: 1.25, RoundRobin: 1.5, Greedy: 1.75, GreedyBoth: 2, Bound: 2.25},
		{Containers: 11, Learned: 1, RoundRobin: 1, Greedy: 1, GreedyBoth: 1, Bound: 1},
		{Containers: 12, Learned: 0.5, RoundRobin: 0.75, Greedy: 1, GreedyBoth: 1, Bound: 1},
	}
	if diff := cmp.Diff([]int{10, 12}, worse(counts)); diff != "" {
		t.Errorf("round-robin is better at (-want +got):\n%s", diff)
	}
	r := lraSubResult{Model: "m", Counts: counts, Worse: worse(counts), Seconds: 3}
	text := func(verbose bool) string {
		var out bytes.Buffer
		if err := r.print(&out, verbose); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	const head, row = "trained in 3 s model m round-robin is better at 2 of 3 numbers of containers [10 12] ", "10 1.2500 1.5000 1.7500 2.0000 2.2500"
	if got := text(false); !strings.HasPrefix(got, head) || !strings.HasSuffix(got, row) {
		t.Errorf("printed %q, want %q and one row, %q", got, head, row)
	}
	if got := text(true); !strings.Contains(got, row) || !strings.HasSuffix(got, "12 0.5000 0.7500 1.0000 1.0000 1.0000") {
		t.Errorf("printed %q, want a row of each number", got)
	}
	path := filepath.Join(t.TempDir(), "subscheduler.csv")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if want := "containers,learned,roundrobin,greedy,greedy_both_orders,lp_bound\n10,1.2500,1.5000,1.7500,2.0000,2.2500\n"; err != nil || !strings.HasPrefix(string(file), want) {
		t.Errorf("%v, file\n%s\nwant it to begin with\n%s", err, file, want)
	}
}
