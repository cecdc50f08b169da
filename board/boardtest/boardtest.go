// Package boardtest tests the page of package board in headless Chromium.
package boardtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Environment variables that the tests read.
const (
	ChromiumVariable    = "KUBERNASIUM_CHROMIUM"    // path of Chromium; without it the tests are skipped
	AxeVariable         = "KUBERNASIUM_AXE"         // path of axe.min.js
	ScreenshotsVariable = "KUBERNASIUM_SCREENSHOTS" // folder for screenshots; without it none are taken
)

// Sizes of the window in CSS pixels.
const (
	width, height = 1280, 1000
	phoneWidth    = 390
	phoneHeight   = 844
)

// A Browser is a tab of headless Chromium. It fails the test if the page causes a console error, an exception, or a
// request to another host.
type Browser struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// Open starts Chromium and loads a page. It skips the test if [ChromiumVariable] is not set.
func Open(t *testing.T, page string) *Browser {
	t.Helper()
	path := os.Getenv(ChromiumVariable)
	if path == "" {
		t.Skipf("set %s to the path of Chromium, or run make test-board", ChromiumVariable)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(width, height),
		chromedp.WSURLReadTimeout(2*time.Minute))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	b := &Browser{t: t, ctx: ctx}
	host, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, func(ev any) { b.note(ev, host.Host) })
	b.Run(network.Enable(), chromedp.Navigate(page))
	t.Cleanup(func() {
		if text := b.faults(); text != "" {
			t.Errorf("the page: %s", text)
		}
	})
	return b
}

// note records the faults of a page.
func (b *Browser) note(ev any, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != host && u.Scheme != "data" && u.Scheme != "blob" {
			b.bad = append(b.bad, "request to "+e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			text, _ := json.Marshal(e.Args) // cannot fail: it came as JSON
			b.bad = append(b.bad, "console: "+string(text))
		}
	}
}

// faults returns the recorded faults.
func (b *Browser) faults() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.bad, "\n")
}

// Run runs actions, and ends the test if one fails.
func (b *Browser) Run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.Picture("failed_" + b.t.Name())
		b.t.Fatalf("%v\n%s", err, b.faults())
	}
}

// Eval returns the value of a JavaScript expression, or of its promise, as text.
func (b *Browser) Eval(expression string) string {
	b.t.Helper()
	var v any
	b.Run(chromedp.Evaluate(expression, &v, awaited))
	text, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Trim(string(text), `"`)
}

func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// Wait waits until an expression is true.
func (b *Browser) Wait(expression string) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(time.Minute))); err != nil {
		b.Picture("failed_" + b.t.Name())
		b.t.Fatalf("%s: %v\n%s", expression, err, b.faults())
	}
}

// Visit sets the fragment of the page's address.
func (b *Browser) Visit(fragment string) {
	b.t.Helper()
	b.Run(chromedp.Evaluate(`location.hash = `+strconv.Quote("#"+fragment), nil))
}

// Reload reloads the page and waits until an expression has its old value again, since the address determines the view.
func (b *Browser) Reload(expression string) {
	b.t.Helper()
	b.Eval(`new Promise(done => setTimeout(() => done(1), 400))`) // the page updates its address after a pause
	before := b.Eval(expression)
	b.Run(chromedp.Reload())
	now := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if now = b.Eval(`(() => { try { return ` + expression + ` } catch { return 'not there yet' } })()`); now == before {
			return
		}
		b.Eval(`new Promise(done => setTimeout(() => done(1), 50))`)
	}
	b.t.Errorf("the address gives %s, was %s", now, before)
}

// Pixel returns the colour of a canvas at a point in CSS pixels, as red,green,blue.
func (b *Browser) Pixel(canvas string, x, y int) string {
	b.t.Helper()
	return b.Eval(fmt.Sprintf(`(c => [...c.getContext('2d').getImageData(%d * devicePixelRatio, %d * devicePixelRatio, 1, 1).data].slice(0, 3).join())(document.querySelector(%q))`, x, y, canvas))
}

// Pixels counts the pixels of a colour, red,green,blue, in a canvas.
func (b *Browser) Pixels(canvas, colour string) int {
	b.t.Helper()
	n, err := strconv.Atoi(b.Eval(fmt.Sprintf(`(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0
		for (let i = 0; i < d.length; i += 4) if (d[i] + ',' + d[i + 1] + ',' + d[i + 2] === %q && d[i + 3] === 255) n++; return n })(document.querySelector(%q))`, colour, canvas)))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// Choose selects an option, or sets an input, as a user does.
func (b *Browser) Choose(selector, value string) {
	b.t.Helper()
	b.Eval(`(() => { const s = document.querySelector(` + strconv.Quote(selector) + `); s.value = ` + strconv.Quote(value) +
		`; s.dispatchEvent(new Event('input', {bubbles: true})); s.dispatchEvent(new Event('change', {bubbles: true})); return s.value })()`)
}

// Check takes screenshots of the view with the given name, and checks that axe-core finds no serious fault, in light
// and in dark mode, and that on a phone the view is no wider than the screen.
func (b *Browser) Check(name string) {
	b.t.Helper()
	b.Picture(name)
	b.Accessible(name)
	const canvases = `[...document.querySelectorAll('main canvas')].map(c => c.toDataURL())`
	b.Eval(`window.light = ` + canvases)
	b.scheme("dark")
	b.Eval(frames)
	if same := b.Eval(canvases + `.filter((c, i) => c === light[i]).length`); same != "0" {
		b.t.Errorf("%s: %s canvases are as in the light", name, same)
	}
	b.Picture(name + "_dark")
	b.Accessible(name + " in the dark")
	b.scheme("light")
	b.Phone(name)
}

// Phone checks that on a phone the view is no wider than the screen, and takes a screenshot.
func (b *Browser) Phone(name string) {
	b.t.Helper()
	b.Run(chromedp.EmulateViewport(phoneWidth, phoneHeight))
	b.Eval(fmt.Sprintf(`new Promise(done => { const look = n => n > 600 || document.documentElement.scrollWidth == %d ? done(1) : setTimeout(look, 50, n + 1); look(0) })`, phoneWidth))
	if wide := b.Eval(`document.documentElement.scrollWidth`); wide != strconv.Itoa(phoneWidth) {
		b.t.Errorf("%s is %s pixels wide on a phone of %d", name, wide, phoneWidth)
	}
	b.Picture(name + "_phone")
	b.Run(emulation.ClearDeviceMetricsOverride())
}

// scheme sets the colour scheme that the system prefers, and checks that the page follows.
func (b *Browser) scheme(name string) {
	b.t.Helper()
	b.Run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}))
	want := map[string]string{"dark": "rgb(21, 24, 28)", "light": "rgb(255, 255, 255)"}[name]
	if got := b.Eval(`getComputedStyle(document.body).backgroundColor`); got != want {
		b.t.Errorf("background %s with a %s scheme, want %s", got, name, want)
	}
}

// Accessible checks the view with axe-core: no fault may be serious or critical. It checks only the first 39 rows of a
// table: the others are alike, and a thousand take minutes.
func (b *Browser) Accessible(view string) {
	b.t.Helper()
	path := os.Getenv(AxeVariable)
	if path == "" {
		b.t.Fatalf("set %s to the path of axe.min.js, as make test-board does", AxeVariable)
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var result struct {
		Passes     int
		Violations []struct {
			ID, Impact, Help string
			Nodes            []struct{ HTML, FailureSummary string }
		}
	}
	b.Run(chromedp.Evaluate(string(script), nil), chromedp.Evaluate(`axe.run({exclude: ['tbody tr:nth-child(n+40)']}).then(r => ({passes: r.passes.length, violations: r.violations}))`, &result, awaited))
	for _, f := range result.Violations {
		if f.Impact == "serious" || f.Impact == "critical" {
			b.t.Errorf("%s: %s (%s), %d places, such as %s: %s", view, f.Help, f.ID, len(f.Nodes), f.Nodes[0].HTML, f.Nodes[0].FailureSummary)
		} else {
			b.t.Logf("%s: %s, %s: %s", view, f.Impact, f.Help, f.Nodes[0].HTML)
		}
	}
	if result.Passes == 0 {
		b.t.Errorf("%s: axe-core has checked nothing", view)
	}
}

// frames waits until changes are drawn, including those that follow a change of size or scheme a frame later.
const frames = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(1), 300))))`

// Picture takes a screenshot of the whole page if [ScreenshotsVariable] is set.
func (b *Browser) Picture(name string) {
	folder := os.Getenv(ScreenshotsVariable)
	if folder == "" {
		return
	}
	var png []byte
	if err := chromedp.Run(b.ctx, chromedp.Evaluate(frames, nil, awaited), chromedp.FullScreenshot(&png, 100)); err != nil {
		b.t.Error(err)
		return
	}
	if err := os.WriteFile(filepath.Join(folder, "board_"+name+".png"), png, 0o644); err != nil {
		b.t.Error(err)
	}
}
