package board_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/board/boardtest"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

func serve(t *testing.T, cfg board.Config) string {
	t.Helper()
	cfg.Open, cfg.AllowControl = openBaseline, true
	return serveAs(t, cfg)
}

// serveAs serves a page as it is configured.
func serveAs(t *testing.T, cfg board.Config) string {
	t.Helper()
	page := board.New(cfg)
	srv := httptest.NewServer(page)
	t.Cleanup(func() {
		if err := page.Close(); err != nil { // which ends its streams
			t.Error(err)
		}
		srv.Close()
	})
	return srv.URL + "/"
}

// TestBrowserTraining: the curves of two seeds are one line with a band, baselines of the comparison are lines, the
// address keeps the choice, and the comparison is a picture and a table that sorts.
func TestBrowserTraining(t *testing.T) {
	b := boardtest.Open(t, serve(t, board.Config{Logs: writeLogs(t)}))
	b.Wait(`/2 seeds.*clairvoyant/.test(document.querySelector('.u-legend')?.textContent)`)
	labels := b.Eval(`[...document.querySelectorAll('.u-legend .u-label')].map(e => e.textContent).join('; ')`)
	for _, want := range []string{"ppo/k8s-PodBalance-v0_1 (2 seeds)", "Greedy", "Exact (clairvoyant)"} {
		if !strings.Contains(labels, want) {
			t.Errorf("lines %q, want %s among them", labels, want)
		}
	}
	if strings.Contains(labels, "Worse") {
		t.Errorf("lines %q: only the best baseline is to be drawn", labels)
	}
	b.Check("training_small")
	b.Choose("#tag", "time/fps")
	b.Wait(`document.querySelector('.plot figcaption').textContent.startsWith('time/fps')`)
	b.Wait(`location.hash.includes('tag=time%2Ffps')`)
	b.Eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(1), 200))))`) // the curve is drawn
	// A drag over the left half enlarges it: 100 to 200 of 100 to 300 steps.
	at := func(kind input.MouseType, share float64) chromedp.Action {
		return chromedp.ActionFunc(func(ctx context.Context) error {
			var box []float64
			err := chromedp.Evaluate(`(() => { const r = document.querySelector('.u-over').getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })()`, &box).Do(ctx)
			if err != nil {
				return err
			}
			return input.DispatchMouseEvent(kind, box[0]+share*(box[2]-1)+.5, box[1]+box[3]/2).WithButton(input.Left).WithButtons(1).WithClickCount(1).Do(ctx)
		})
	}
	b.Run(at(input.MousePressed, 0), at(input.MouseMoved, .25), at(input.MouseMoved, .5), at(input.MouseReleased, .5))
	b.Wait(`/range=1\d\d(\.\d+)?%2C(199|20[01])/.test(location.hash)`)
	b.Choose("input[type=range]", "0.5")
	b.Wait(`location.hash.includes('smooth=0.5')`)
	b.Reload(`document.querySelector('.plot figcaption').textContent + document.querySelector('input[type=range]').value + location.hash`)
	b.Wait(`/^1\d\d(\.\d+)?,(199|20[01])/.test(document.querySelector('.plot [role=img]').dataset.range)`)
	// Keys do so, too, while the plot has the focus: a quarter aside, all of it, half and twice as wide.
	b.Run(chromedp.Focus(`.plot [role=img]`))
	for _, key := range []struct{ press, shown string }{
		{kb.ArrowRight, `^12\d(\.\d+)?,22\d`}, {"0", "^$"}, {"+", "^150,250$"}, {kb.ArrowLeft, "^125,225$"}, {"-", "^$"},
	} {
		b.Run(chromedp.KeyEvent(key.press))
		b.Wait(fmt.Sprintf(`/%s/.test(document.querySelector('.plot [role=img]').dataset.range)`, key.shown))
	}
	b.Run(chromedp.Evaluate(`location.hash = '#compare'`, nil))
	b.Wait(`document.querySelectorAll('svg .mean').length == 4`)
	b.Run(chromedp.Click(`//th/button[starts-with(., 'mean')]`))
	b.Wait(`document.querySelector('tbody tr td').textContent == 'Worse'`) // -9.5 is the least
	b.Check("comparison_small")
	b.Reload(`document.querySelector('tbody tr td').textContent + document.querySelector('th[aria-sort=ascending]').textContent`)
	b.Run(chromedp.Evaluate(`document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '?', bubbles: true}))`, nil))
	b.Wait(`document.querySelector('dialog') != null`)
	b.Accessible("keys")
}

// TestBrowserLater: a training that the address names appears when it begins, on the page that is open.
func TestBrowserLater(t *testing.T) {
	logs := writeLogs(t)
	b := boardtest.Open(t, serve(t, board.Config{Logs: logs, Every: 20 * time.Millisecond})+"#runs?runs=later")
	b.Wait(`document.querySelectorAll('nav[aria-label=trainings] li').length == 2`)
	if lines := b.Eval(`document.querySelectorAll('.u-legend .u-label').length`); lines != "0" {
		t.Errorf("%s lines of a training that is not there", lines)
	}
	if err := os.Mkdir(filepath.Join(logs, "later"), 0o755); err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, filepath.Join(logs, "later", "progress.csv"), "time/total_timesteps,time/fps\n100,5\n200,6\n")
	b.Wait(`[...document.querySelectorAll('.u-legend .u-label')].some(l => l.textContent.includes('later'))`)
}

// TestBrowserEpisode: begin, step, look back, why a node is masked, what others would do, fork.
func TestBrowserEpisode(t *testing.T) {
	b := boardtest.Open(t, serve(t, board.Config{})+"#play?env=k8s/PodBalance-v0&policy=First&options=nodes:3%20cpu_load:0.9%20memory_load:0.9%20pod_load:0.9")
	b.Wait(`document.querySelector('#begin') != null`)
	b.Run(chromedp.Click("#begin"))
	b.Wait(`document.querySelector('.world .step') != null`)
	for i := range 3 {
		b.Wait(`document.querySelector('.at').textContent == '` + string(rune('0'+i)) + `'`)
		b.Run(chromedp.Click(".world .step"))
	}
	b.Wait(`document.querySelector('.at').textContent == '3'`)
	first := b.Eval(`document.querySelector('.return').textContent`)
	b.Choose(".scrub", "1")
	b.Wait(`document.querySelector('.at').textContent == '1' && document.querySelector('.taken-name').textContent != 'nothing yet'`)
	b.Choose(".scrub", "3")
	b.Wait(`document.querySelector('.at').textContent == '3'`)
	if again := b.Eval(`document.querySelector('.return').textContent`); again != first {
		t.Errorf("the return at step 3 is %s, was %s", again, first)
	}
	// First fills the first node, of 64 CPU, with pods of 1 CPU: at step 100 that node takes no more, and says why.
	b.Choose(".world .bar select", "100")
	b.Run(chromedp.Click(".world .play"))
	b.Wait(`+document.querySelector('.scrub').max >= 200`)
	b.Choose(".scrub", "100")
	b.Wait(`document.querySelectorAll('tr.masked').length > 0`)
	b.Run(chromedp.Click("tr.masked button.link"))
	b.Wait(`document.querySelector('.reason') != null && /insufficient|cpu|CPU/.test(document.querySelector('.reason').textContent)`)
	// The answer about Greedy alone comes after the one about both, and is not shown.
	b.Eval(`(() => { const real = fetch; window.late = 0; window.fetch = (u, o) => /policies=Greedy$/.test(u) ?
		new Promise(done => setTimeout(() => { done(real(u, o)); late++ }, 1000)) : real(u, o) })()`)
	b.Run(chromedp.Click(`input[name=ask][value=Greedy]`), chromedp.Click(`input[name=ask][value=KubeDefault]`))
	b.Wait(`document.querySelector('.why table tbody').rows.length == 2`)
	b.Wait(`late > 0`)
	b.Eval(`new Promise(done => setTimeout(() => done(1), 500))`)
	if rows := b.Eval(`document.querySelector('.why table tbody').rows.length`); rows != "2" {
		t.Errorf("%s policies are shown after a late answer about one, want both", rows)
	}
	b.Check("episode")
	b.Reload(`document.querySelector('.at').textContent + document.querySelector('.reason').textContent + document.querySelector('.why table tbody').rows.length`)
	b.Choose(".fork-policy", "Greedy")
	b.Run(chromedp.Click(".fork"))
	b.Wait(`document.querySelectorAll('.world').length == 2`)
	b.Wait(`document.querySelectorAll('.at').length == 2 && document.querySelectorAll('.at')[1].textContent == document.querySelectorAll('.at')[0].textContent`)
	b.Check("fork")
}

// TestBrowserFamilies: supersteps as bars, usage with kills and evictions, containers of nodes as a map that the arrow keys
// walk.
func TestBrowserFamilies(t *testing.T) {
	page := serve(t, board.Config{})
	play := func(env, policy, options string, steps int) *boardtest.Browser {
		b := boardtest.Open(t, page+"#play?env="+env+"&policy="+policy+"&options="+options)
		b.Wait(`document.querySelector('#begin') != null`)
		b.Run(chromedp.Click("#begin"))
		b.Wait(`document.querySelector('.world .step') != null`)
		b.Choose(".world .bar select", strconv.Itoa(steps))
		b.Run(chromedp.Click(".world .play"))
		b.Wait(`+document.querySelector('.scrub').max >= ` + strconv.Itoa(steps))
		b.Run(chromedp.Click(".world .play"))
		return b
	}
	b := play("k8s/GangWindow-v0", "dynamic_mpc_tuned", "", 20)
	b.Wait(`+document.querySelector('.gantt')?.dataset.spans >= 160`)
	if label := b.Eval(`document.querySelector('.gantt').getAttribute('aria-label')`); !strings.Contains(label, "vecmath") || !strings.Contains(label, "the slowest") {
		t.Errorf("the bars are described as %q", label)
	}
	for colour, what := range map[string]string{"0,114,178": "supersteps", "196,106,0": "the slowest", "179,0,94": "re-plannings"} {
		if b.Pixels(".gantt", colour) < 100 {
			t.Errorf("%s are not drawn", what)
		}
	}
	b.Check("gang")
	b = play("k8s/VerticalPodAutoscaler-v1", "quantile", "", 100)
	b.Wait(`document.querySelectorAll('.plot').length >= 3 && /evict|OOM|resize/.test(document.querySelector('.events')?.textContent)`)
	if labels := b.Eval(`[...document.querySelectorAll('.u-legend .u-label')].map(e => e.textContent).join('; ')`); !strings.Contains(labels, "usage; request; limit; lower bound; upper bound; throttled; hours; usage; request; limit") {
		t.Errorf("lines %q, want usage, request, limit and what was throttled of CPU, and the first three of memory", labels)
	}
	if b.Pixels(".plot .u-wrap canvas", "179,0,94") < 10 {
		t.Error("the resizes are not drawn")
	}
	b.Check("vpa")
	b = play("k8s/LRAPlacement-v0", "greedy", "", 100)
	b.Wait(`document.querySelector('.heat') != null`)
	b.Run(chromedp.Focus(".heat"), chromedp.KeyEvent(kb.ArrowRight))
	b.Wait(`[...document.querySelectorAll('.facts')].some(f => f.textContent.startsWith('node 0:'))`)
	if rows := b.Eval(`document.querySelector('.world table tbody').rows.length`); rows != "7" {
		t.Errorf("%s applications, want 7", rows)
	}
	if b.Pixels(".heat", "196,106,0") < 1000 {
		t.Error("the throughput of the first containers is not drawn")
	}
	b.Check("lra")
}

// TestBrowserLargeCluster: all nodes of the published cluster are drawn, again and again while it plays.
func TestBrowserLargeCluster(t *testing.T) {
	start := time.Now()
	b := boardtest.Open(t, serve(t, board.Config{})+"#play?env=k8s/GPUPodScheduling-v1&policy=WeightedFGD&options=num_nodes:0")
	b.Wait(`document.querySelector('#begin') != null`)
	paint, err := strconv.ParseFloat(b.Eval(`Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1)`), 64)
	t.Logf("Chromium and the first view: %v; first paint after %v ms", time.Since(start).Round(time.Millisecond), paint)
	if err != nil || paint < 0 || paint > 10_000 { // 400 ms there
		t.Errorf("first paint after %v ms, %v", paint, err)
	}
	b.Run(chromedp.Click("#begin"))
	b.Wait(`document.querySelector('#cluster')?.getAttribute('aria-label').startsWith('1213 nodes')`)
	b.Run(chromedp.Click(".world .play"))
	b.Wait(`+document.querySelector('#cluster').dataset.frames > 5`)
	from, began := b.Eval(`document.querySelector('#cluster').dataset.frames`), time.Now()
	b.Wait(`+document.querySelector('#cluster').dataset.frames > ` + from + ` + 30`)
	rate := 30 / time.Since(began).Seconds()
	t.Logf("%.1f updates a second of 1,213 nodes", rate)
	if rate < 0.5 { // 17 on a machine with two busy cores
		t.Errorf("%.1f updates a second of 1,213 nodes", rate)
	}
	b.Run(chromedp.Click(".world .play"))
	b.Wait(`document.querySelectorAll('.why table tbody tr').length == 1213`)
	b.Picture("large")
	b.Accessible("large")
	zoomed(t, b)
	b.Phone("large")
}

// zoomed enlarges, moves and shrinks the cluster of 1,213 nodes by wheel, keys, drag, buttons and address.
func zoomed(t *testing.T, b *boardtest.Browser) {
	t.Helper()
	const shown, percent = `document.querySelector('#cluster')?.dataset.visible`, `document.querySelector('.zoom output')?.textContent`
	at := func(kind input.MouseType, x, y float64) *input.DispatchMouseEventParams {
		return input.DispatchMouseEvent(kind, x, y).WithButton(input.Left).WithButtons(1).WithClickCount(1)
	}
	click := func(x, y float64) {
		b.Run(at(input.MousePressed, x, y), at(input.MouseReleased, x, y).WithButtons(0))
	}
	picked := `[...document.querySelectorAll('.facts')].map(f => f.textContent).find(t => /CPU,/.test(t))`
	b.Run(chromedp.Evaluate(`document.querySelector('#cluster').scrollIntoView()`, nil))
	b.Wait(shown + ` == '1213'`)
	const x, y = 303, 207
	click(x, y) // which gives it the focus, too
	b.Wait(picked + ` !== undefined`)
	node := b.Eval(picked)
	b.Run(input.DispatchMouseEvent(input.MouseWheel, x, y).WithDeltaX(0).WithDeltaY(-700)) // times e to the 1.4
	b.Wait(percent + ` == '406 %' && ` + shown + ` < 200`)
	b.Wait(`/zoom=4\.05/.test(location.hash)`)
	click(x+1, y+1) // the same node is under the pointer
	b.Wait(`new URLSearchParams(location.hash.split('?')[1]).get('zoom').startsWith('4.0552,')`)
	if again := b.Eval(picked); again != node {
		t.Errorf("the wheel moved what is under the pointer: %s, was %s", again, node)
	}
	before := b.Eval(`location.hash`)
	b.Run(at(input.MousePressed, x, y), at(input.MouseMoved, x-40, y+30), at(input.MouseMoved, x-120, y+90), at(input.MouseReleased, x-120, y+90).WithButtons(0))
	b.Wait(`location.hash !== ` + strconv.Quote(before))
	if again := b.Eval(picked); again != node {
		t.Errorf("a drag picked %s, was %s", again, node)
	}
	click(x-120, y+90)
	b.Eval(`new Promise(done => setTimeout(() => done(1), 100))`)
	if again := b.Eval(picked); again != node {
		t.Errorf("a drag did not take the node along: %s, was %s", again, node)
	}
	moved := b.Eval(`location.hash`)
	b.Run(chromedp.Reload())
	b.Wait(percent + ` == '406 %' && ` + shown + ` < 200`)
	if again := b.Eval(`location.hash`); again != moved {
		t.Errorf("the address after loading it is %s, was %s", again, moved)
	}
	b.Picture("zoom")
	b.Run(chromedp.KeyEvent("0"))
	b.Wait(shown + ` == '1213' && ` + percent + ` == '100 %' && !location.hash.includes('zoom')`)
	b.Run(chromedp.KeyEvent("+"))
	b.Wait(percent + ` == '150 %' && ` + shown + ` < 1213`)
	b.Run(chromedp.KeyEvent("-"))
	b.Wait(percent + ` == '100 %'`)
	b.Run(chromedp.Click(".zoom-in"))
	b.Wait(percent + ` == '150 %'`)
	b.Run(chromedp.Click(".zoom-reset"))
	b.Wait(shown + ` == '1213'`)
	pinch(t, b)
	b.Run(chromedp.Evaluate(`document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '?', bubbles: true}))`, nil))
	b.Wait(`/enlarge and shrink/.test(document.querySelector('dialog')?.textContent)`)
}

// pinch enlarges the cluster with two fingers that move apart, from 100 to 400 pixels, and shrinks it again. What is midway
// between them stays there, and neither gesture counts as a click.
func pinch(t *testing.T, b *boardtest.Browser) {
	t.Helper()
	const percent, picked = `document.querySelector('.zoom output').textContent`, `[...document.querySelectorAll('.facts')].map(f => f.textContent).find(t => /CPU,/.test(t))`
	b.Run(chromedp.Evaluate(`document.querySelector('#cluster').scrollIntoView()`, nil))
	const x, y = 303, 207
	tap := func() string {
		one := []*input.TouchPoint{{X: x, Y: y}}
		b.Run(input.DispatchTouchEvent(input.TouchStart, one), input.DispatchTouchEvent(input.TouchEnd, nil))
		b.Eval(`new Promise(done => setTimeout(() => done(1), 400))`)
		return b.Eval(picked)
	}
	fingers := func(apart float64) []*input.TouchPoint {
		return []*input.TouchPoint{{X: x - apart/2, Y: y, ID: 1}, {X: x + apart/2, Y: y, ID: 2}}
	}
	spread := func(from, to float64) {
		b.Run(input.DispatchTouchEvent(input.TouchStart, fingers(from)))
		for k := 1.0; k <= 10; k++ {
			b.Run(input.DispatchTouchEvent(input.TouchMove, fingers(from+(to-from)*k/10)))
		}
		b.Run(input.DispatchTouchEvent(input.TouchEnd, nil))
	}
	node := tap()
	spread(100, 400)
	b.Wait(percent + ` == '400 %' && document.querySelector('#cluster').dataset.visible < 250`)
	if again := b.Eval(picked); again != node {
		t.Errorf("a pinch picked %s, was %s", again, node)
	}
	if again := tap(); again != node {
		t.Errorf("between the fingers is %s, was %s", again, node)
	}
	spread(400, 100)
	b.Wait(percent + ` == '100 %'`)
}

// TestBrowserServer: rates are differences of counters over time, quantiles those of the steps between two looks: 1,000
// steps each time, of which 990 took up to 1 ms and 10 up to 4 ms, so that half took 0.505 ms and 99 % 1 ms.
func TestBrowserServer(t *testing.T) {
	looks := 0
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		looks++
		fmt.Fprintf(w, "# HELP kubernasium_sessions Open sessions.\nkubernasium_sessions 3\nkubernasium_envs 64\nkubernasium_requests_waiting 2\n"+
			"kubernasium_env_steps_total %d\nkubernasium_requests_total %d\nkubernasium_errors_total{code=\"NOT_FOUND\"} 2\n"+
			"kubernasium_step_seconds_bucket{le=\"0.001\"} %d\nkubernasium_step_seconds_bucket{le=\"0.004\"} %d\n"+
			"kubernasium_step_seconds_bucket{le=\"+Inf\"} %d\nprocess_resident_memory_bytes 1.048576e+08\n", 64000*looks, 1000*looks, 990*looks, 1000*looks, 1000*looks)
	})
	sessions := func() []board.SessionInfo {
		return []board.SessionInfo{
			{ID: "00aa", Connected: true, Running: true, Waiting: 2, Environments: []board.LiveEnvs{{Env: "classic/CartPole-v1", NumEnvs: 2, Steps: 40}}},
			{ID: "00bb", Environments: []board.LiveEnvs{{Env: "k8s/PodBalance-v0", NumEnvs: 62, Steps: 6200}}},
			{ID: "00cc", Connected: true},
		}
	}
	b := boardtest.Open(t, serve(t, board.Config{Metrics: metrics, Sessions: sessions})+"#server")
	fact := func(name string) string { return `document.querySelector('[data-fact="` + name + `"]')?.textContent` }
	b.Wait(fact("p99 of a step, ms") + ` == '1'`)
	for name, want := range map[string]string{"sessions": "3", "environments": "64", "requests waiting": "2", "p50 of a step, ms": "0.50505", "memory, MiB": "100", "refused": "NOT_FOUND 2"} {
		if got := b.Eval(fact(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	rate, err := strconv.ParseFloat(b.Eval(fact("environment steps/s")), 64)
	if err != nil || rate < 1000 || rate > 64000*50 { // a busy machine may delay the look before
		t.Errorf("steps a second: %v, %v; want some 64,000 by the second between two looks", rate, err)
	}
	b.Wait(`document.querySelectorAll('.scroll tbody tr').length == 3`)
	// The session with most environments stands first.
	want := "00bb k8s/PodBalance-v0 62 6200 waits for its client; 00aa classic/CartPole-v1 2 40 runs a request, 2 wait; 00cc none   idle"
	if got := b.Eval(`[...document.querySelectorAll('.scroll tbody tr')].map(r => [...r.cells].map(c => c.textContent).join(' ')).join('; ')`); got != want {
		t.Errorf("sessions %q, want %q", got, want)
	}
	b.Check("server_small")
	other := boardtest.Open(t, serve(t, board.Config{})+"#server")
	other.Wait(`document.querySelector('.empty')?.textContent.includes('server --board')`)
}
