package core

import (
	"context"
	"testing"

	"github.com/kubernasium/kubernasium/board/boardtest"
)

// TestBrowserTrains: a page that is open before any training says how to start one. The two seeds of the
// last one that starts then appear with their curves, a band and the best baseline; their settings stand side by side, and the
// address of a comparison shows it.
func TestBrowserTrains(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	c := boardConfig{listen: "127.0.0.1:0"}
	c.Logs = t.TempDir()
	url, ended := started(ctx, t, c.serve)
	b := boardtest.Open(t, url)
	b.Wait(`document.querySelector('.empty code')?.textContent.startsWith('go run ./trainer train')`)
	b.Check("empty")
	train := func(args ...string) {
		t.Helper()
		if _, stderr, err := execute(t, t.Context(), append([]string{"train", "--algo", "ppo", "--seeds", "1,2", "--eval-episodes", "5", "-f", c.Logs}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
	}
	train("--env", "k8s/PodBalance-v0", "-n", "8192", "--eval-freq", "4096", "--compare", "10")
	train("--env", "classic/CartPole-v1", "-n", "49152", "--eval-freq", "4096", "--compare", "10")
	value := func(name string) string {
		return `([...document.querySelectorAll('[aria-label="Last values and hyperparameters"] tr')].find(r => r.cells[0].textContent == '` + name + `')?.cells ?? [])`
	}
	b.Wait(`[...` + value("time/total_timesteps") + `].map(c => c.textContent).join() == 'time/total_timesteps,49152,49152'`)
	if got := b.Eval(`[...` + value("time left") + `].map(c => c.textContent).join()`); got != "time left,finished,finished" {
		t.Errorf("%s, want both to have finished", got)
	}
	if got := b.Eval(`+` + value("episodes/s") + `[1].textContent > 0`); got != "true" {
		t.Errorf("episodes/s: %s, want a rate", b.Eval(value("episodes/s")+`[1].textContent`))
	}
	const labels = `[...document.querySelectorAll('.u-legend .u-series:not(.edge) .u-label')].map(e => e.textContent).join('; ')`
	b.Wait(labels + ` == 'environment steps; ppo/classic-CartPole-v1_1 (2 seeds); pole-angle'`)
	b.Check("training")
	b.Visit("compare?run=ppo/k8s-PodBalance-v0_1&against=KubeDefault")
	b.Wait(`document.querySelectorAll('svg.means .mean').length > 10 && document.querySelector('svg.differences title')`)
	if got := b.Eval(`[...document.querySelectorAll('[aria-label^="Difference to KubeDefault"] tbody tr')].find(r => r.cells[0].textContent == 'First')?.cells[4].textContent`); got != "more" {
		t.Errorf("First costs %s than KubeDefault, want more: it fills one node after the other", got)
	}
	b.Check("comparison")
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
