package command

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/board/boardtest"
	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
)

// TestBrowserServes: the page of a server shows the session of a client that plays, with its steps, a rate and the time of a
// step, and a request that was refused; before, it says how to make a session.
func TestBrowserServes(t *testing.T) {
	p := start(t, "--listen", "127.0.0.1:0", "--board")
	page := strings.TrimSuffix(strings.Replace(p.ready.URL, "ws://", "http://", 1), "v1/ws")
	b := boardtest.Open(t, page)
	b.Wait(`[...document.querySelectorAll('.empty code')].some(c => c.textContent.startsWith('go run ./trainer eval'))`)
	if _, err := client.Dial(t.Context(), p.ready.URL, "classic/Nothing-v0", 1, client.Options{}); err == nil {
		t.Error("an unknown environment is made")
	}
	v, err := client.Dial(t.Context(), p.ready.URL, "classic/CartPole-v1", 2, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reset(t.Context(), envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	row := `[...document.querySelectorAll('[aria-label^=Sessions] tbody tr')].map(r => [...r.cells].slice(1, 3).map(c => c.textContent).join()).join(';')`
	b.Wait(row + ` == 'classic/CartPole-v1,2'`)
	fact := func(name string) string { return `document.querySelector('[data-fact="` + name + `"]')?.textContent` }
	for b.Eval(`+document.querySelector('.server').dataset.samples > 5 && +`+fact("environment steps/s")+` > 0 && +`+fact("p99 of a step, ms")+` > 0`) != "true" {
		for range 50 {
			if _, err := v.Step(t.Context(), []float32{0, 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Wait(fact("refused") + ` != 'none'`)
	b.Check("server")
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	p.stop()
	p.wait(t)
}
