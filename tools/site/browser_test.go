package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab of headless Chromium, of a phone's width, that collects console errors, exceptions, requests to other
// hosts and requests that fail.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// openTab starts Chromium. Addresses of requests must begin with prefix.
func openTab(t *testing.T, prefix string) *tab {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(os.Getenv("KUBERNASIUM_CHROMIUM")), chromedp.NoSandbox,
		chromedp.WindowSize(390, 844), chromedp.WSURLReadTimeout(2*time.Minute))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, prefix) && !strings.HasPrefix(e.Request.URL, "data:") {
				b.add("request to " + e.Request.URL)
			}
		case *network.EventResponseReceived:
			if e.Response.Status >= 400 {
				b.add(fmt.Sprintf("status %d of %s", e.Response.Status, e.Response.URL))
			}
		case *network.EventLoadingFailed:
			if !e.Canceled {
				b.add("a request failed: " + e.ErrorText)
			}
		case *runtime.EventExceptionThrown:
			b.add("exception: " + e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				text, _ := json.Marshal(e.Args)
				b.add("console: " + string(text))
			}
		}
	})
	b.run(network.Enable(), chromedp.EmulateViewport(390, 844))
	return b
}

func (b *tab) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = append(b.bad, text)
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// take returns what was wrong since the last call.
func (b *tab) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.bad = nil }()
	return b.bad
}

// builtSite returns the folder of a built version, and its pages.
func builtSite(t *testing.T) (folder string, pages []string) {
	t.Helper()
	folder = os.Getenv("KUBERNASIUM_SITE")
	if folder == "" || os.Getenv("KUBERNASIUM_CHROMIUM") == "" {
		t.Skip("set KUBERNASIUM_SITE to .cache/site/VERSION and KUBERNASIUM_CHROMIUM to the path of Chromium, or run make test-docs")
	}
	text, err := os.ReadFile(filepath.Join(folder, "pages.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &pages); err != nil || len(pages) < 100 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	return folder, pages
}

// serve serves the site below a path, as a project's page would be.
func serve(t *testing.T, folder string) string {
	t.Helper()
	s := httptest.NewServer(http.StripPrefix("/some/path/", http.FileServer(http.Dir(filepath.Dir(folder)))))
	t.Cleanup(s.Close)
	return s.URL + "/some/path/"
}

// tooWide lists the elements of a page that leave the screen to the right, but for what scrolls within the page: tables
// and blocks of code.
const tooWide = `[...document.querySelectorAll("article *")].filter(e =>
	e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".table-wrapper, pre")).map(e => e.outerHTML.slice(0, 80))`

// TestBrowserPages opens every page at the width of a phone: it has a heading, logs no error, asks no other host,
// and no part of it leaves the screen.
func TestBrowserPages(t *testing.T) {
	folder, pages := builtSite(t)
	site := serve(t, folder)
	b := openTab(t, site)
	for _, page := range pages {
		var heading string
		var wide []string
		var screen int
		b.run(chromedp.Navigate(site+filepath.Base(folder)+"/"+page),
			chromedp.Evaluate(`document.querySelector("h1, h2")?.textContent ?? ""`, &heading),
			chromedp.Evaluate(`document.documentElement.clientWidth`, &screen), chromedp.Evaluate(tooWide, &wide))
		if heading == "" && page != "search.html" { // whose script writes it with the results
			t.Errorf("%s has no heading", page)
		}
		if screen > 390 || len(wide) > 0 {
			t.Errorf("%s on a screen of %d pixels: too wide are %q", page, screen, wide)
		}
		for _, bad := range b.take() {
			t.Errorf("%s: %s", page, bad)
		}
	}
	// The latest version's address, and the switch of versions.
	var at string
	var versions []string
	b.run(chromedp.Navigate(site+"latest/docs/training.html"),
		chromedp.Poll(`location.pathname.endsWith("/docs/training.html") && !location.pathname.includes("/latest/") && document.readyState === "complete"`, nil),
		chromedp.Evaluate(`location.pathname`, &at), chromedp.Evaluate(`[...document.querySelectorAll(".site-versions option")].map(o => o.text)`, &versions))
	if !slices.Contains(versions, filepath.Base(folder)) {
		t.Errorf("%s offers the versions %q, without %s", at, versions, filepath.Base(folder))
	}
	for _, bad := range b.take() {
		t.Errorf("latest: %s", bad)
	}
}

// TestBrowserSearch finds a word that one environment alone has, over HTTP and in files.
func TestBrowserSearch(t *testing.T) {
	folder, _ := builtSite(t)
	absolute, err := filepath.Abs(filepath.Dir(folder))
	if err != nil {
		t.Fatal(err)
	}
	for name, site := range map[string]string{"http": serve(t, folder), "file": "file://" + absolute + "/"} {
		t.Run(name, func(t *testing.T) {
			b := openTab(t, site)
			var found, none []string
			results := `[...document.querySelectorAll("#search-results li a")].map(a => a.getAttribute("href"))`
			finished := chromedp.Poll(`document.querySelector("#search-results h2")?.textContent === "Search Results" && /finished|did not match/.test(document.querySelector("#search-results .search-summary")?.textContent)`,
				nil, chromedp.WithPollingTimeout(time.Minute))
			page := site + filepath.Base(folder) + "/search.html?q="
			b.run(chromedp.Navigate(page+"pole_angular_velocity"), finished, chromedp.Evaluate(results, &found),
				chromedp.Navigate(page+"zyzzyva"), finished, chromedp.Evaluate(results, &none))
			if !slices.ContainsFunc(found, func(url string) bool { return strings.Contains(url, "classic-CartPole-v1.html") }) {
				t.Errorf("search finds %q, without the page of CartPole", found)
			}
			if len(none) > 0 {
				t.Errorf("search finds %q for a word that is nowhere", none)
			}
			for _, bad := range b.take() {
				t.Error(bad)
			}
		})
	}
}
