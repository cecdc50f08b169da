package kwok

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// shadowPage runs kwok shadow with a page, and returns how to get from the page and how to interrupt the command, which
// then returns what it has printed. The page's address is written to where, unless that is nil.
func shadowPage(t *testing.T, where *string, args ...string) (get func(path string, to any), interrupt func() string) {
	t.Helper()
	t.Setenv(play.TokenVariable, "")
	address, err := withPort("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var out, stderr string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, stderr, err = execute(t, ctx, append([]string{"kwok", "shadow", "--json", "--board", address}, args...)...)
	}()
	t.Cleanup(func() { stop(); <-ended })
	page := "http://" + address + "/"
	if where != nil {
		*where = page
	}
	waitFor(t, "the page", func() bool {
		select {
		case <-ended:
			t.Fatalf("the command has ended: %v\n%s", err, stderr)
		default:
		}
		resp, err := http.Get(page + "api/page")
		return err == nil && errors.Join(resp.Body.Close()) == nil
	})
	return getter(t, page), func() string {
		stop()
		<-ended
		if err != nil {
			t.Errorf("%v\n%s", err, stderr)
		}
		return out
	}
}

// TestShadowBoard: the page of a report shows what the command prints, until the command is interrupted.
func TestShadowBoard(t *testing.T) {
	get, interrupt := shadowPage(t, nil, "--trace", writeTrace(t, twoNodes+`{"k":"end"}`+"\n"), "--policy", "First")
	var reports []board.ReportInfo
	waitFor(t, "the report", func() bool { get("api/shadows", &reports); return len(reports) == 1 })
	var onPage, printed json.RawMessage
	get("api/shadows/"+reports[0].ID, &onPage)
	printed = json.RawMessage(interrupt())
	page, want := clitest.Decode[shadow.Report](t, string(onPage)), clitest.Decode[shadow.Report](t, string(printed))
	if page.Policies[0].Agreement.Value != want.Policies[0].Agreement.Value || page.Policies[0].Asked != 3 || page.Nodes != 2 {
		t.Errorf("the page has\n%s\nand the command prints\n%s", onPage, printed)
	}
}

// TestShadowWatches: without names of schedulers the page shows the decisions of all of them, and with names those of each.
func TestShadowWatches(t *testing.T) {
	for _, tc := range []struct {
		schedulers []string
		name       string
		placed     int
	}{{nil, "all schedulers", 3}, {[]string{"one", "three"}, "one, three", 2}} {
		w, err := newLiveCluster(tc.schedulers, live.Args{Baseline: "Greedy"}, labels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		w.setNode(sizedNode("a", "r"), false)
		for _, scheduler := range []string{"one", "two", "three"} {
			p := podWanting("of-"+scheduler, "1", "a")
			p.Spec.SchedulerName = scheduler
			w.setPod(t.Context(), p, false, false)
		}
		if i := w.Snapshot(); i.Scheduler != tc.name || i.Placed != tc.placed || i.Pods[0] != 3 {
			t.Errorf("schedulers %v: %q with %d of %v pods placed, want %q with %d of 3", tc.schedulers, i.Scheduler, i.Placed, i.Pods, tc.name, tc.placed)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestKwokShadowBoard: while a cluster is recorded the page shows it, its scheduler's decisions, and a report of what has
// been recorded so far.
func TestKwokShadowBoard(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	get, interrupt := shadowPage(t, nil, "--record", filepath.Join(t.TempDir(), "cluster.jsonl"), "--policy", "First", "--every", "500ms", "--block", "1s", "--kubeconfig", kubeconfig)
	mustExecute(t, "kwok", "runsim", "--scheduler_name", "default-scheduler", "--interval", "200ms", "--node_count", "3", "--cluster_resets", "1",
		"--cpu_load", "0.1", "--mem_load", "0.1", "--pod_load", "0.1", "--kubeconfig", kubeconfig)
	var info board.ClusterInfo
	get("api/cluster", &info)
	if !info.Shadow || info.Policy != "First" || info.Placed == 0 || len(info.Decisions) == 0 || info.Decisions[0].Node == "" {
		t.Errorf("cluster %+v, want decisions of kube-scheduler in the shadow of First", info)
	}
	var reports []board.ReportInfo
	waitFor(t, "a report while recording", func() bool { get("api/shadows", &reports); return len(reports) == 1 })
	if r := clitest.Decode[shadow.Report](t, interrupt()); r.Recorded.Placed < info.Placed {
		t.Errorf("the report has %d pods placed, the page had %d", r.Recorded.Placed, info.Placed)
	}
}
