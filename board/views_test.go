package board_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/board/boardtest"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/guard"
)

// fakeCluster is a cluster of the test's making.
type fakeCluster struct {
	mu      sync.Mutex
	info    board.ClusterInfo
	changed func()
}

func (f *fakeCluster) Follow(ctx context.Context, changed func()) {
	f.mu.Lock()
	f.changed = changed
	f.mu.Unlock()
	<-ctx.Done()
}

func (f *fakeCluster) Snapshot() *board.ClusterInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.info
	return &info
}

// change changes the cluster and wakes the viewers.
func (f *fakeCluster) change(how func(*board.ClusterInfo)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(&f.info)
	if f.changed != nil {
		f.changed()
	}
}

func (f *fakeCluster) Why(_ context.Context, pod string, policies []string) (*board.PodWhy, error) {
	if pod != "default/web-1" {
		return nil, errors.New("no such pod")
	}
	one, two, probability, entropy := 310.0, 374.0, 0.75, 0.56
	why := &board.PodWhy{
		Pod: pod, At: time.Now(), Message: "0/3 nodes are available", Nodes: []string{"node-0", "node-1", "node-2"},
		Columns: []string{"node", "rack", "KubeDefault", "why not"}, Rows: [][]string{{"node-0", "rack-0", "310", ""}, {"node-1", "rack-0", "374", ""}, {"node-2", "rack-1", "", "cordoned"}},
		Choices: []board.Choice{
			{Policy: "Greedy", Action: []float32{0}, Scores: &board.Scores{Kind: "probability", Actions: []*float64{&probability, &probability, nil}, Value: 1, Entropy: &entropy}},
			{Policy: "KubeDefault", Action: []float32{1}, Scores: &board.Scores{Kind: "score", Actions: []*float64{&one, &two, nil}, Value: 374}},
		},
	}
	if f.Snapshot().Placed > 0 {
		why.Node, why.Message = "node-0", ""
	}
	for _, p := range policies {
		why.Choices = append(why.Choices, board.Choice{Policy: p, Action: []float32{1}})
	}
	return why, nil
}

func (f *fakeCluster) PodsOf(node string) []board.NodePod {
	if node != "node-0" {
		return nil
	}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ended := began.Add(time.Minute)
	return []board.NodePod{
		{Pod: "default/web-1", Phase: "Running", MilliCPU: 1500, Memory: 2 << 30, From: began},
		{Pod: "default/job-7", Phase: "Succeeded", MilliCPU: 500, Memory: 512 << 20, From: began, To: &ended},
	}
}

func smallCluster() *fakeCluster {
	f := &fakeCluster{info: board.ClusterInfo{
		Scheduler: "custom-scheduler", Policy: "Greedy", Baselines: []string{"First"}, At: time.Now(), Pending: 1,
		Use:     board.Use{CPU: []float64{.5, .25, 0}, Memory: []float64{.5, .2, 0}, Pods: []int32{4, 2, 0}, GPUs: [][]float64{{}, {1, .25}, {}}},
		Waiting: []board.Waiting{{Pod: "default/web-1", Scheduler: "custom-scheduler", Since: time.Now(), Message: "0/3 nodes are available: 3 Insufficient cpu."}},
	}}
	for i, rack := range []string{"rack-0", "rack-0", "rack-1"} {
		f.info.Nodes = append(f.info.Nodes, board.NodeInfo{Name: "node-" + strconv.Itoa(i), MilliCPU: 8000, Memory: 32 << 30, Rack: rack})
	}
	f.info.Nodes[1].GPUs, f.info.Nodes[1].GPUModel = 2, "T4"
	return f
}

// TestBrowserScheduler: a pod that waits, why, and the decision that follows, without a look of the visitor's; nodes are
// framed by rack and filtered after /, and the address keeps what was chosen.
func TestBrowserScheduler(t *testing.T) {
	f := smallCluster()
	b := boardtest.Open(t, serveAs(t, board.Config{Cluster: f})) // the first view of such a page
	b.Wait(`document.querySelector('#cluster')?.dataset.racks == '2'`)
	if text := b.Eval(`document.querySelector('.live').textContent`); !strings.Contains(text, "3 Insufficient cpu.") || !strings.Contains(text, "has placed no pod") {
		t.Errorf("the page says %q", text)
	}
	b.Run(chromedp.Click("button.pod"))
	b.Wait(`document.querySelector('.decision .why table tbody')?.rows.length == 2`)
	b.Run(chromedp.Click(`input[name=ask][value=First]`))
	b.Wait(`document.querySelector('.decision .why table tbody').rows.length == 3`)
	if row := b.Eval(`[...document.querySelectorAll('.decision tr.masked td')].map(c => c.textContent).join(' ')`); !strings.HasPrefix(row, "node-2 cordoned") {
		t.Errorf("the masked node: %q", row)
	}
	if heads := b.Eval(`[...document.querySelectorAll('.decision table:last-of-type')].at(-1).querySelector('thead').textContent`); heads != "nodewhy notGreedyrackKubeDefault" {
		t.Errorf("the columns of nodes are %s, want each policy once", heads)
	}
	b.Wait(`location.hash.includes('pod=default%2Fweb-1') && location.hash.includes('ask=First')`)
	f.change(func(c *board.ClusterInfo) {
		low, high := 310.0, 374.0
		c.Pending, c.Waiting, c.Placed, c.Disagreed = 0, nil, 1, 1
		c.Pods = []int32{5, 2, 0}
		c.Decisions = []board.Decision{{Pod: "default/web-1", Node: "node-0", At: time.Now(), Policy: "node-0", Default: "node-1", DefaultScore: &low, Best: &high}}
	})
	b.Wait(`document.querySelector('.placed').textContent == '1'`)
	b.Wait(`document.querySelector('.decision h2 small').textContent.startsWith('on node-0') && document.querySelector('.taken-name').textContent == 'node-0'`)
	bars(t, b)
	b.Check("scheduler_small")
	b.Run(chromedp.Evaluate(`document.activeElement.blur()`, nil), chromedp.KeyEvent("/"))
	b.Wait(`document.activeElement.className == 'filter'`)
	b.Choose(".filter", "rack-1") // the driver types the slash as well, though the page takes it
	b.Wait(`document.querySelector('#cluster').getAttribute('aria-label').startsWith('1 nodes in 1 racks')`)
	b.Run(chromedp.Click("input[name=racks]"))
	b.Wait(`document.querySelector('#cluster').dataset.racks == '0'`)
	b.Run(chromedp.Focus("#cluster"), chromedp.KeyEvent(kb.ArrowRight))
	b.Wait(`[...document.querySelectorAll('.facts')].some(f => f.textContent.startsWith('node-2: 8 CPU (0 %), 32Gi memory'))`)
	b.Choose(".filter", "")
	b.Run(chromedp.Click(`//div[contains(@aria-label, 'Nodes')]//button[text() = 'node-0']`))
	// Amounts as Kubernetes writes them, and times in the zone of the visitor.
	const pods = `[...document.querySelectorAll('[aria-label="Pods of node-0, now and before"] tbody tr')].map(r => [...r.cells].map(c => c.textContent).join(' ')).join('; ')`
	want := "default/web-1 Running 1500m 2Gi 3/1/26, 12:00:00 PM UTC ; default/job-7 Succeeded 500m 512Mi 3/1/26, 12:00:00 PM UTC 3/1/26, 12:01:00 PM UTC"
	b.Wait(`document.querySelectorAll('[aria-label="Pods of node-0, now and before"] tbody tr').length == 2`)
	if got := strings.ReplaceAll(b.Eval(pods), "\u202f", " "); got != want {
		t.Errorf("pods of node-0: %q, want %q", got, want)
	}
	b.Reload(`document.querySelector('.decision h2').textContent.split(',')[0] + document.querySelector('input[name=ask]').checked + document.querySelector('input[name=racks]').checked + ` + pods)
}

// bars checks what is drawn of the small cluster: half of node-0's CPU and memory, which the pod got, the first GPU of node-1
// and a quarter of its second, and node-2, which is masked out. Colours are those of style.css.
func bars(t *testing.T, b *boardtest.Browser) {
	t.Helper()
	const cpu, memory, gpu, masked, taken, free = "0,114,178", "0,158,115", "196,106,0", "217,201,201", "179,0,94", "238,241,244"
	for _, p := range []struct {
		what string
		x, y int
		want string
	}{
		{"CPU of node-0", 20, 55, cpu}, {"its free CPU", 100, 55, free}, {"memory of node-0", 20, 75, memory}, {"its free memory", 100, 75, free},
		{"GPU 0 of node-1", 160, 79, gpu}, {"GPU 1 of node-1", 180, 79, gpu}, {"the rest of GPU 1", 210, 79, free},
		{"node-2", 288, 80, masked}, {"the border of node-0", 3, 40, taken},
	} {
		if got := b.Pixel("#cluster", p.x, p.y); got != p.want {
			t.Errorf("%s has the colour %s, want %s", p.what, got, p.want)
		}
	}
}

// TestBrowserShadow: a report that appears while the page is open is shown, with its disagreements by cost.
func TestBrowserShadow(t *testing.T) {
	logs := t.TempDir()
	b := boardtest.Open(t, serveAs(t, board.Config{Logs: logs, Every: 50 * time.Millisecond})+"#shadow")
	b.Wait(`document.querySelector('.empty')?.textContent.includes('kwok shadow')`)
	report := `{"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T12:00:00Z", "block_s": 3600, "blocks": 3, "nodes": 2, "pods": 3, "given_pods": 0,
	"metrics": [{"name": "imbalance", "unit": "%", "better": "lower", "meaning": "standard deviation over nodes"}],
	"recorded": {"name": "recorded", "placed_pods": 3, "values": [{"value": 4.2, "low": null, "high": null}], "series": [[4, 4, 5]]},
	"policies": [{"name": "Greedy", "placed_pods": 3, "values": [{"value": 3.1, "low": 3, "high": 3.2}], "differences": [{"value": -1.1, "low": -1.4, "high": -0.8, "verdict": "better"}],
		"series": [[3, 3, 3.5]], "agreement": {"value": 66.7, "low": null, "high": null}, "asked": 3}],
	"disagreed": 1, "left_out": 0, "placed_by_nobody": [], "not_modelled": [],
	"disagreements": [{"at": "2026-03-01T01:00:00Z", "pod": "default/b", "node": "n1", "cost": {"imbalance": 25}, "choices": [{"policy": "Greedy", "node": "n0", "cost": {"imbalance": 5}}]}]}`
	envstest.Write(t, filepath.Join(logs, "shadow.json"), report)
	b.Wait(`document.querySelectorAll('.shadow table').length == 2`)
	text := b.Eval(`document.querySelector('.shadow').textContent`)
	for _, want := range []string{"Greedy agrees with 66.7 % of 3 decisions", "better", "default/b", "1 decisions"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	if last := b.Eval(`[...document.querySelectorAll('.shadow table:last-of-type tbody tr td')].at(-1).textContent`); last != "-20" {
		t.Errorf("the policy's choice costs %s more, want -20", last)
	}
	b.Check("shadow_small")
	b.Run(chromedp.Click(`//div[starts-with(@aria-label, 'Where')]//th/button[text() = 'pod']`))
	b.Reload(`document.querySelector('#report').value + document.querySelector('#metric').value + document.querySelector('th[aria-sort=ascending]').textContent`)
}

// TestBrowserToken: without the token the page says what to do; its address with the token opens it.
func TestBrowserToken(t *testing.T) {
	page := serveAs(t, board.Config{Logs: writeLogs(t), Guard: guard.Guard{Accept: guard.Only("secret")}})
	b := boardtest.Open(t, page+"?token=secret")
	b.Wait(`document.querySelectorAll('.u-legend .u-label').length > 2`)
	if at := b.Eval(`location.href`); strings.Contains(at, "secret") {
		t.Errorf("the address %s keeps the token", at)
	}
	for _, address := range []string{page, page + "?token=wrong"} {
		resp, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s, want 401", address, resp.Status)
		}
	}
	for _, address := range []string{page, page + "?token=wrong"} {
		other := boardtest.Open(t, address)
		other.Wait(`document.body.textContent.includes('/?token=TOKEN') && document.body.textContent.includes('--token-file')`)
		if n := other.Eval(`document.querySelectorAll('.plot').length`); n != "0" {
			t.Errorf("%s plots without the token", n)
		}
		other.Accessible("token")
	}
}

// TestBrowserHabits: a page for looking only says how to play; on a phone's width no view scrolls sideways; the comparison
// shows paired differences against a chosen policy; curves are exported.
func TestBrowserHabits(t *testing.T) {
	logs := writeLogs(t)
	rows := "policy,kind,seed,return,length,cost\n"
	for i := range 4 {
		rows += "Greedy,baseline," + strconv.Itoa(i) + ",0,1,2\nWorse,baseline," + strconv.Itoa(i) + ",0,1," + strconv.Itoa(4+i%2) + "\n"
	}
	envstest.Write(t, filepath.Join(logs, "ppo", "k8s-PodBalance-v0_1", "comparison_episodes.csv"), rows)
	b := boardtest.Open(t, serveAs(t, board.Config{Logs: logs, Open: openBaseline})+"#compare")
	b.Wait(`document.querySelectorAll('svg.differences .mean').length == 1`)
	if got := b.Eval(`document.querySelector('svg.differences title').textContent`); !strings.HasPrefix(got, "Worse: 2.5 [") {
		t.Errorf("difference to Greedy: %s, want 2.5 of costs 4 and 5 less 2", got)
	}
	b.Choose("#against", "Worse")
	b.Wait(`document.querySelector('svg.differences title').textContent.startsWith('Greedy: -2.5 [')`)
	b.Check("paired")
	b.Reload(`document.querySelector('svg.differences title').textContent`)
	b.Run(chromedp.EmulateViewport(390, 844))
	for _, view := range []string{"runs", "compare", "play", "live", "shadow", "server"} {
		b.Run(chromedp.Evaluate(`location.hash = '#`+view+`'`, nil))
		b.Wait(`document.querySelector('nav a[aria-current]').hash == '#` + view + `' && !document.querySelector('main').textContent.startsWith('Loading')`)
		b.Wait(`document.documentElement.scrollWidth == 390`) // once what is drawn has followed the width
	}
	b.Run(chromedp.Evaluate(`location.hash = '#play'`, nil))
	b.Wait(`document.querySelector('main .empty')?.textContent.includes('--allow-control')`)
	if n := b.Eval(`document.querySelectorAll('#begin').length`); n != "0" {
		t.Error("a page for looking only offers to begin an episode")
	}
	b.Run(chromedp.Evaluate(`location.hash = '#runs'`, nil))
	b.Wait(`document.querySelectorAll('.plot button').length == 2 && /2 seeds.*clairvoyant/.test(document.querySelector('.u-legend').textContent)`)
	// What the links would save is taken from them: nothing is written to the disk.
	saved := b.Eval(`(() => { const got = [], make = URL.createObjectURL; URL.createObjectURL = b => { window.blob = b; return make(b) }; HTMLAnchorElement.prototype.click = function () { got.push(this.download + ' ' + this.href.slice(0, 14)) }
		document.querySelectorAll('.plot button').forEach(b => b.click()); return got.join('; ') })()`)
	if !strings.HasPrefix(saved, "eval_mean_reward.png data:image/png; eval_mean_reward.csv blob:http") {
		t.Errorf("exports: %s", saved)
	}
	// Means of -9 and -10, and of -8 and -7; the levels are those of the comparison.
	const csv = `environment steps,ppo/k8s-PodBalance-v0_1 (2 seeds),Greedy,Exact (clairvoyant)\n200,-9.5,-6.5,-6\n300,-7.5,-6.5,-6\n`
	if text := b.Eval(`blob.text()`); text != csv {
		t.Errorf("the file has %s, want %s", text, csv)
	}
	if text := b.Eval(`document.querySelector('[aria-label="Last values and hyperparameters"]').textContent`); !strings.Contains(text, "learning_rate") || !strings.Contains(text, "episodes/s") || !strings.Contains(text, "time left") {
		t.Errorf("last values and hyperparameters: %s", text)
	}
}
