package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kubernasium/kubernasium/board"
	_ "github.com/kubernasium/kubernasium/envs/all"
)

// browser is a tab of headless Chromium that fails the test for a console error, an exception, or a request to
// another host than the page's.
type browser struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	bad  []string
	shot string // folder of screenshots; empty takes none
}

// open starts Chromium at a page.
func open(t *testing.T, page string) *browser {
	t.Helper()
	path := os.Getenv("KUBERNASIUM_CHROMIUM")
	if path == "" {
		t.Skip("set KUBERNASIUM_CHROMIUM to the path of Chromium, or run make test-board")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 1000),
		chromedp.WSURLReadTimeout(2*time.Minute))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, shot: os.Getenv("KUBERNASIUM_SCREENSHOTS")}
	host, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Host != host.Host && u.Scheme != "data" && u.Scheme != "blob" {
				b.bad = append(b.bad, "request to "+e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			b.bad = append(b.bad, "exception: "+e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				text, _ := json.Marshal(e.Args)
				b.bad = append(b.bad, "console: "+string(text))
			}
		}
	})
	b.run(network.Enable(), chromedp.Navigate(page))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.bad) > 0 {
			t.Errorf("the page: %s", strings.Join(b.bad, "\n"))
		}
	})
	return b
}

func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.picture("failed")
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("%v\n%s", err, strings.Join(b.bad, "\n"))
	}
}

// eval returns the value of a JavaScript expression, or of what it promises, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var v any
	b.run(chromedp.Evaluate(expression, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	text, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Trim(string(text), `"`)
}

// wait waits until an expression is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	b.run(chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(time.Minute)))
}

// accessible checks the view with axe-core: no fault may be serious or critical.
func (b *browser) accessible(view string) {
	b.t.Helper()
	path := os.Getenv("KUBERNASIUM_AXE")
	if path == "" {
		b.t.Fatal("set KUBERNASIUM_AXE to the path of axe.min.js, as make test-board does")
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.run(chromedp.Evaluate(string(script), nil))
	var faults []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	b.run(chromedp.Evaluate(`axe.run().then(r => r.violations)`, &faults, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for _, f := range faults {
		if f.Impact == "serious" || f.Impact == "critical" {
			b.t.Errorf("%s: %s (%s), %d places, such as %s: %s", view, f.Help, f.ID, len(f.Nodes), f.Nodes[0].HTML, f.Nodes[0].FailureSummary)
		} else {
			b.t.Logf("%s: %s, %s: %s", view, f.Impact, f.Help, f.Nodes[0].HTML)
		}
	}
	if passes := b.eval(`axe.run().then(r => r.passes.length)`); passes == "0" {
		b.t.Errorf("%s: axe-core has checked nothing", view)
	}
}

// picture takes a screenshot of the whole page where screenshots are asked for.
func (b *browser) picture(name string) {
	if b.shot == "" {
		return
	}
	// What changes with the picture's size is drawn again.
	b.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(1), 300))))`)
	var png []byte
	if err := chromedp.Run(b.ctx, chromedp.FullScreenshot(&png, 100)); err != nil {
		b.t.Error(err)
		return
	}
	if err := os.WriteFile(filepath.Join(b.shot, "board_"+name+".png"), png, 0o644); err != nil {
		b.t.Error(err)
	}
}

// choose selects an option as a user does.
func (b *browser) choose(selector, value string) {
	b.t.Helper()
	b.eval(`(() => { const s = document.querySelector('` + selector + `'); s.value = '` + value + `'; s.dispatchEvent(new Event('input', {bubbles: true})); s.dispatchEvent(new Event('change', {bubbles: true})); return s.value })()`)
}

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
	b := open(t, serve(t, board.Config{Logs: writeLogs(t)}))
	b.wait(`document.querySelectorAll('.u-legend .u-label').length > 2`)
	labels := b.eval(`[...document.querySelectorAll('.u-legend .u-label')].map(e => e.textContent).join('; ')`)
	for _, want := range []string{"ppo/k8s-PodBalance-v0_1 (2 seeds)", "Greedy", "Exact (oracle)"} {
		if !strings.Contains(labels, want) {
			t.Errorf("lines %q, want %s among them", labels, want)
		}
	}
	if strings.Contains(labels, "Worse") {
		t.Errorf("lines %q: only the best baseline is to be drawn", labels)
	}
	b.picture("training")
	b.accessible("training")
	b.choose("#tag", "time/fps")
	b.wait(`document.querySelector('.plot figcaption').textContent.startsWith('time/fps')`)
	if hash := b.eval(`location.hash`); !strings.Contains(hash, "tag=time%2Ffps") {
		t.Errorf("the address %s does not keep the curve", hash)
	}
	b.run(chromedp.Evaluate(`location.hash = '#compare'`, nil))
	b.wait(`document.querySelectorAll('svg .mean').length == 4`)
	b.run(chromedp.Click(`//th/button[starts-with(., 'mean')]`))
	b.wait(`document.querySelector('tbody tr td').textContent == 'Worse'`) // -9.5 is the least
	b.picture("comparison")
	b.accessible("comparison")
	b.run(chromedp.Evaluate(`document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '?', bubbles: true}))`, nil))
	b.wait(`document.querySelector('dialog') != null`)
	b.accessible("keys")
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	if dark := b.eval(`getComputedStyle(document.body).backgroundColor`); dark != "rgb(21, 24, 28)" {
		t.Errorf("background %s in the dark, want rgb(21, 24, 28)", dark)
	}
	b.accessible("comparison in the dark")
}

// TestBrowserLater: a training that the address names appears when it begins, on the page that is open.
func TestBrowserLater(t *testing.T) {
	logs := writeLogs(t)
	b := open(t, serve(t, board.Config{Logs: logs, Every: 20 * time.Millisecond})+"#runs?runs=later")
	b.wait(`document.querySelectorAll('nav[aria-label=trainings] li').length == 2`)
	if lines := b.eval(`document.querySelectorAll('.u-legend .u-label').length`); lines != "0" {
		t.Errorf("%s lines of a training that is not there", lines)
	}
	if err := os.Mkdir(filepath.Join(logs, "later"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "later", "progress.csv"), []byte("time/total_timesteps,time/fps\n100,5\n200,6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.wait(`[...document.querySelectorAll('.u-legend .u-label')].some(l => l.textContent.includes('later'))`)
}

// TestBrowserEpisode: begin, step, look back, why a node is masked, what others would do, fork.
func TestBrowserEpisode(t *testing.T) {
	b := open(t, serve(t, board.Config{})+"#play?env=k8s/PodBalance-v0&policy=First&options=nodes:3%20cpu_load:0.9%20memory_load:0.9%20pod_load:0.9")
	b.wait(`document.querySelector('#begin') != null`)
	b.run(chromedp.Click("#begin"))
	b.wait(`document.querySelector('.world .step') != null`)
	for i := range 3 {
		b.wait(`document.querySelector('.at').textContent == '` + string(rune('0'+i)) + `'`)
		b.run(chromedp.Click(".world .step"))
	}
	b.wait(`document.querySelector('.at').textContent == '3'`)
	first := b.eval(`document.querySelector('.return').textContent`)
	b.choose(".scrub", "1")
	b.wait(`document.querySelector('.at').textContent == '1' && document.querySelector('.taken-name').textContent != 'nothing yet'`)
	b.choose(".scrub", "3")
	b.wait(`document.querySelector('.at').textContent == '3'`)
	if again := b.eval(`document.querySelector('.return').textContent`); again != first {
		t.Errorf("the return at step 3 is %s, was %s", again, first)
	}
	// First fills the first node, of 64 CPU, with pods of 1 CPU: at step 100 that node takes no more, and says why.
	b.choose(".world .bar select", "100")
	b.run(chromedp.Click(".world .play"))
	b.wait(`+document.querySelector('.scrub').max >= 200`)
	b.choose(".scrub", "100")
	b.wait(`document.querySelectorAll('tr.masked').length > 0`)
	b.run(chromedp.Click("tr.masked button.link"))
	b.wait(`document.querySelector('.reason') != null && /insufficient|cpu|CPU/.test(document.querySelector('.reason').textContent)`)
	// The answer about Greedy alone comes after the one about both, and is not shown.
	b.eval(`(() => { const real = fetch; window.late = 0; window.fetch = (u, o) => /policies=Greedy$/.test(u) ?
		new Promise(done => setTimeout(() => { done(real(u, o)); late++ }, 1000)) : real(u, o) })()`)
	b.run(chromedp.Click(`input[name=ask][value=Greedy]`), chromedp.Click(`input[name=ask][value=KubeDefault]`))
	b.wait(`document.querySelector('.why table tbody').rows.length == 2`)
	b.wait(`late > 0`)
	b.eval(`new Promise(done => setTimeout(() => done(1), 500))`)
	if rows := b.eval(`document.querySelector('.why table tbody').rows.length`); rows != "2" {
		t.Errorf("%s policies are shown after a late answer about one, want both", rows)
	}
	b.picture("episode")
	b.accessible("episode")
	b.choose(".fork-policy", "Greedy")
	b.run(chromedp.Click(".fork"))
	b.wait(`document.querySelectorAll('.world').length == 2`)
	b.wait(`document.querySelectorAll('.at').length == 2 && document.querySelectorAll('.at')[1].textContent == document.querySelectorAll('.at')[0].textContent`)
	b.picture("fork")
}

// TestBrowserFamilies: supersteps as bars, usage with kills and evictions, containers of nodes as a map that the arrow keys
// walk.
func TestBrowserFamilies(t *testing.T) {
	page := serve(t, board.Config{})
	play := func(env, policy, options string, steps int) *browser {
		b := open(t, page+"#play?env="+env+"&policy="+policy+"&options="+options)
		b.wait(`document.querySelector('#begin') != null`)
		b.run(chromedp.Click("#begin"))
		b.wait(`document.querySelector('.world .step') != null`)
		b.choose(".world .bar select", strconv.Itoa(steps))
		b.run(chromedp.Click(".world .play"))
		b.wait(`+document.querySelector('.scrub').max >= ` + strconv.Itoa(steps))
		b.run(chromedp.Click(".world .play"))
		return b
	}
	b := play("k8s/GangWindow-v0", "dynamic_mpc_tuned", "", 20)
	b.wait(`+document.querySelector('.gantt')?.dataset.spans >= 160`)
	if label := b.eval(`document.querySelector('.gantt').getAttribute('aria-label')`); !strings.Contains(label, "vecmath") || !strings.Contains(label, "the slowest") {
		t.Errorf("the bars are described as %q", label)
	}
	if drawn := b.eval(`(() => { const c = document.querySelector('.gantt'); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter(v => v).length })()`); drawn == "0" {
		t.Error("the bars are not drawn")
	}
	b.picture("gang")
	b.accessible("gang")
	b = play("k8s/VerticalPodAutoscaler-v1", "quantile", "", 100)
	b.wait(`document.querySelectorAll('.plot').length >= 3 && /evict|OOM|resize/.test(document.querySelector('.events')?.textContent)`)
	b.picture("vpa")
	b.accessible("vpa")
	b = play("k8s/LRAPlacement-v0", "greedy", "", 100)
	b.wait(`document.querySelector('.heat') != null`)
	b.run(chromedp.Focus(".heat"), chromedp.KeyEvent(kb.ArrowRight))
	b.wait(`[...document.querySelectorAll('.facts')].some(f => f.textContent.startsWith('node 0:'))`)
	if rows := b.eval(`document.querySelector('.world table tbody').rows.length`); rows != "7" {
		t.Errorf("%s applications, want 7", rows)
	}
	b.picture("lra")
	b.accessible("lra")
}

// TestBrowserLargeCluster: all nodes of the published cluster are drawn, again and again while it plays.
func TestBrowserLargeCluster(t *testing.T) {
	start := time.Now()
	b := open(t, serve(t, board.Config{})+"#play?env=k8s/GPUPodScheduling-v1&policy=WeightedFGD&options=num_nodes:0")
	b.wait(`document.querySelector('#begin') != null`)
	paint, err := strconv.ParseFloat(b.eval(`Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1)`), 64)
	t.Logf("Chromium and the first view: %v; first paint after %v ms", time.Since(start).Round(time.Millisecond), paint)
	if err != nil || paint < 0 || paint > 10_000 { // 400 ms there
		t.Errorf("first paint after %v ms, %v", paint, err)
	}
	b.run(chromedp.Click("#begin"))
	b.wait(`document.querySelector('#cluster')?.getAttribute('aria-label').startsWith('1213 nodes')`)
	b.run(chromedp.Click(".world .play"))
	b.wait(`+document.querySelector('#cluster').dataset.frames > 5`)
	from, began := b.eval(`document.querySelector('#cluster').dataset.frames`), time.Now()
	b.wait(`+document.querySelector('#cluster').dataset.frames > ` + from + ` + 30`)
	rate := 30 / time.Since(began).Seconds()
	t.Logf("%.1f updates a second of 1,213 nodes", rate)
	if rate < 0.5 { // 17 on a machine with two busy cores
		t.Errorf("%.1f updates a second of 1,213 nodes", rate)
	}
	b.run(chromedp.Click(".world .play"))
	b.wait(`document.querySelectorAll('.why table tbody tr').length == 1213`)
	b.picture("large")
	b.zoomed()
}

// zoomed enlarges, moves and shrinks the cluster of 1,213 nodes by wheel, keys, drag, buttons and address.
func (b *browser) zoomed() {
	b.t.Helper()
	const shown, percent = `document.querySelector('#cluster')?.dataset.visible`, `document.querySelector('.zoom output')?.textContent`
	at := func(kind input.MouseType, x, y float64) *input.DispatchMouseEventParams {
		return input.DispatchMouseEvent(kind, x, y).WithButton(input.Left).WithButtons(1).WithClickCount(1)
	}
	click := func(x, y float64) {
		b.run(at(input.MousePressed, x, y), at(input.MouseReleased, x, y).WithButtons(0))
	}
	picked := `[...document.querySelectorAll('.facts')].map(f => f.textContent).find(t => /CPU,/.test(t))`
	b.run(chromedp.Evaluate(`document.querySelector('#cluster').scrollIntoView()`, nil))
	b.wait(shown + ` == '1213'`)
	const x, y = 303, 207
	click(x, y) // which gives it the focus, too
	b.wait(picked + ` !== undefined`)
	node := b.eval(picked)
	b.run(input.DispatchMouseEvent(input.MouseWheel, x, y).WithDeltaX(0).WithDeltaY(-700)) // times e to the 1.4
	b.wait(percent + ` == '406 %' && ` + shown + ` < 200`)
	b.wait(`/zoom=4\.05/.test(location.hash)`)
	click(x+1, y+1) // the same node is under the pointer
	b.wait(`new URLSearchParams(location.hash.split('?')[1]).get('zoom').startsWith('4.0552,')`)
	if again := b.eval(picked); again != node {
		b.t.Errorf("the wheel moved what is under the pointer: %s, was %s", again, node)
	}
	before := b.eval(`location.hash`)
	b.run(at(input.MousePressed, x, y), at(input.MouseMoved, x-40, y+30), at(input.MouseMoved, x-120, y+90), at(input.MouseReleased, x-120, y+90).WithButtons(0))
	b.wait(`location.hash !== ` + strconv.Quote(before))
	if again := b.eval(picked); again != node {
		b.t.Errorf("a drag picked %s, was %s", again, node)
	}
	click(x-120, y+90)
	b.eval(`new Promise(done => setTimeout(() => done(1), 100))`)
	if again := b.eval(picked); again != node {
		b.t.Errorf("a drag did not take the node along: %s, was %s", again, node)
	}
	moved := b.eval(`location.hash`)
	b.run(chromedp.Reload())
	b.wait(percent + ` == '406 %' && ` + shown + ` < 200`)
	if again := b.eval(`location.hash`); again != moved {
		b.t.Errorf("the address after loading it is %s, was %s", again, moved)
	}
	b.picture("zoom")
	b.run(chromedp.KeyEvent("0"))
	b.wait(shown + ` == '1213' && ` + percent + ` == '100 %' && !location.hash.includes('zoom')`)
	b.run(chromedp.KeyEvent("+"))
	b.wait(percent + ` == '150 %' && ` + shown + ` < 1213`)
	b.run(chromedp.KeyEvent("-"))
	b.wait(percent + ` == '100 %'`)
	b.run(chromedp.Click(".zoom-in"))
	b.wait(percent + ` == '150 %'`)
	b.run(chromedp.Click(".zoom-reset"))
	b.wait(shown + ` == '1213'`)
	b.run(chromedp.Evaluate(`document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '?', bubbles: true}))`, nil))
	b.wait(`/enlarge and shrink/.test(document.querySelector('dialog')?.textContent)`)
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
	b := open(t, serve(t, board.Config{Metrics: metrics, Sessions: sessions})+"#server")
	fact := func(name string) string { return `document.querySelector('[data-fact="` + name + `"]')?.textContent` }
	b.wait(fact("p99 of a step, ms") + ` == '1'`)
	for name, want := range map[string]string{"sessions": "3", "environments": "64", "requests waiting": "2", "p50 of a step, ms": "0.50505", "memory, MiB": "100", "refused": "NOT_FOUND 2"} {
		if got := b.eval(fact(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	rate, err := strconv.ParseFloat(b.eval(fact("environment steps/s")), 64)
	if err != nil || rate < 1000 || rate > 64000*50 { // a busy machine may delay the look before
		t.Errorf("steps a second: %v, %v; want some 64,000 by the second between two looks", rate, err)
	}
	b.wait(`document.querySelectorAll('.scroll tbody tr').length == 3`)
	// The session with most environments stands first.
	want := "00bb k8s/PodBalance-v0 62 6200 waits for its client; 00aa classic/CartPole-v1 2 40 runs a request, 2 wait; 00cc none   idle"
	if got := b.eval(`[...document.querySelectorAll('.scroll tbody tr')].map(r => [...r.cells].map(c => c.textContent).join(' ')).join('; ')`); got != want {
		t.Errorf("sessions %q, want %q", got, want)
	}
	b.picture("server")
	b.accessible("server")
	other := open(t, serve(t, board.Config{})+"#server")
	other.wait(`document.querySelector('.empty')?.textContent.includes('server --board')`)
}
