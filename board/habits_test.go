package board_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/board/boardtest"
	"github.com/kubernasium/kubernasium/kwok/freeport"
)

// serveOn serves a page on an address until the function that it returns is called.
func serveOn(t *testing.T, address string, cfg board.Config) (page string, stop func()) {
	t.Helper()
	var l net.Listener
	var err error
	for range 100 { // the port may be in use for a moment after the server before
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := board.New(cfg)
	srv := httptest.NewUnstartedServer(s)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	return srv.URL + "/", func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
	}
}

// TestBrowserGone: when the program that serves the page ends, the page stays and says that nobody answers, also to a click
// that asks for more. When the program is there again, the page continues by itself.
func TestBrowserGone(t *testing.T) {
	cfg := board.Config{Logs: writeLogs(t), Open: openBaseline, AllowControl: true, Every: 20 * time.Millisecond}
	address, err := freeport.Address() // which the browser's connections cannot take while the server is gone
	if err != nil {
		t.Fatal(err)
	}
	page, stop := serveOn(t, address, cfg)
	b := boardtest.Open(t, page)
	b.Wait(`document.querySelectorAll('.u-legend .u-label').length > 2`)
	stop()
	b.Wait(`document.querySelector('.lost[role=alert]')?.textContent.includes('does not answer')`)
	if n := b.Eval(`document.querySelectorAll('.plot').length`); n != "1" {
		t.Errorf("%s curves without the server, want the one that was there", n)
	}
	b.Accessible("gone")
	b.Visit("play")
	b.Wait(`document.querySelector('main .error[role=alert]')?.textContent.includes('Start it again')`)
	b.Visit("runs")
	_, stop = serveOn(t, address, cfg)
	defer stop()
	b.Wait(`document.querySelector('.lost') == null && document.querySelectorAll('.u-legend .u-label').length > 2`)
}

// TestBrowserEmpty: a view without anything to show says what to do, with a command.
func TestBrowserEmpty(t *testing.T) {
	b := boardtest.Open(t, serveAs(t, board.Config{Logs: t.TempDir() + "/absent", Open: openBaseline}))
	for view, want := range map[string]string{
		"runs": "trainer train", "compare": "trainer train", "play": "board --allow-control", "live": "kwok schedule", "shadow": "kwok shadow", "server": "server --board",
	} {
		b.Visit(view)
		b.Wait(`document.querySelector('nav a[aria-current]').hash == '#` + view + `'`)
		b.Wait(`[...document.querySelectorAll('main .empty code')].some(c => c.textContent.includes('` + want + `'))`)
		b.Check("empty_" + view)
	}
	b.Visit("play?episodes=77")
	b.Wait(`document.querySelector('main .error[role=alert]')?.textContent.includes('77')`)
	empty := smallCluster()
	empty.info = board.ClusterInfo{Scheduler: "custom-scheduler", Policy: "Greedy", At: time.Now()}
	b = boardtest.Open(t, serveAs(t, board.Config{Cluster: empty}))
	b.Wait(`document.querySelector('main .empty code')?.textContent.includes('kwok runsim')`)
	b.Check("empty_cluster")
}

// TestBrowserEarlyClick: a view chosen as soon as the page has its links is shown.
func TestBrowserEarlyClick(t *testing.T) {
	b := boardtest.Open(t, serveAs(t, board.Config{Logs: t.TempDir(), Open: openBaseline}))
	b.Run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`new MutationObserver((_, o) => {
			const a = document.querySelector('nav a[href="#compare"]')
			if (a) { o.disconnect(); window.clicked = true; a.click() }
		}).observe(document, {childList: true, subtree: true})`).Do(ctx)
		return err
	}), chromedp.Reload())
	b.Wait(`window.clicked`)
	b.Wait(`document.querySelector('nav a[aria-current]').hash == '#compare'`)
}

// TestBrowserKeyboard: every view can be reached and used without a mouse.
func TestBrowserKeyboard(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("kubernasium_sessions 3\n")) })
	b := boardtest.Open(t, serve(t, board.Config{Logs: writeLogs(t), Cluster: smallCluster(), Metrics: metrics}))
	b.Wait(`document.querySelector('#cluster') != null`)
	press := func(keys string) { b.Run(chromedp.KeyEvent(keys)) }
	tab := func(selector string) {
		t.Helper()
		for range 100 {
			if b.Eval(`document.activeElement.matches('`+selector+`')`) == "true" {
				return
			}
			press(kb.Tab)
		}
		t.Errorf("100 presses of Tab do not reach %s", selector)
	}
	view := func(key, name string) {
		t.Helper()
		b.Run(chromedp.Evaluate(`document.activeElement.blur()`, nil))
		press(key)
		b.Wait(`document.querySelector('nav a[aria-current]').hash == '#` + name + `'`)
	}
	// Scheduler: a node by arrows, a pod that waits, a policy to ask.
	tab("#cluster")
	press(kb.ArrowRight)
	b.Wait(`[...document.querySelectorAll('.facts')].some(f => f.textContent.startsWith('node-0: '))`)
	tab("button.pod")
	press(kb.Enter)
	b.Wait(`document.querySelector('.decision')`)
	tab("input[name=ask]")
	press(" ")
	b.Wait(`document.querySelector('.decision .why table tbody').rows.length == 3`)
	// Training: another curve, and without a seed.
	view("1", "runs")
	b.Wait(`document.querySelectorAll('.u-legend .u-label').length > 2`)
	tab("li input[type=checkbox]")
	press(" ")
	b.Wait(`!document.querySelector('.u-legend').textContent.includes('2 seeds')`)
	tab("#tag")
	press(kb.ArrowDown)
	b.Wait(`location.hash.includes('tag=')`)
	// Comparison: the table by its first column.
	view("2", "compare")
	b.Wait(`document.querySelectorAll('svg.means .mean').length == 4`)
	tab("th button")
	press(kb.Enter)
	b.Wait(`document.querySelector('th[aria-sort=ascending]')`)
	// Episode: begin, a step, a look back, a fork.
	view("3", "play")
	b.Wait(`document.querySelector('#begin')`)
	tab("#begin")
	press(kb.Enter)
	b.Wait(`document.querySelector('.world .at')?.textContent == '0'`)
	b.Run(chromedp.Evaluate(`document.activeElement.blur()`, nil))
	press(".")
	b.Wait(`document.querySelector('.at').textContent == '1'`)
	press(" ")
	b.Wait(`+document.querySelector('.at').textContent > 2`)
	press(" ")
	b.Wait(`document.querySelector('.play').textContent == 'Play'`)
	tab(".scrub")
	press(kb.Home)
	b.Wait(`document.querySelector('.at').textContent == '0'`)
	b.Wait(`document.querySelector('.fork')`)
	tab(".fork")
	press(kb.Enter)
	b.Wait(`document.querySelectorAll('.world').length == 2`)
	view("5", "shadow")
	view("6", "server")
	b.Wait(`document.querySelector('[data-fact=sessions]')?.textContent == '3'`)
	press("?")
	b.Wait(`document.querySelector('dialog')`)
	press(kb.Escape)
	b.Wait(`document.querySelector('dialog') == null`)
}
