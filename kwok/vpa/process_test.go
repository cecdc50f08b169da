//go:build unix

package vpa

import (
	"context"
	"testing"
)

// TestLateReply: a reply that comes after its caller gave up is not taken for the reply to the next line. The program
// answers its first line only when it has read the second.
func TestLateReply(t *testing.T) {
	const program = `echo '{}'; read a; read b; echo '{"evicted": 1}'; echo '{"evicted": 2}'; n=2; while read line; do n=$((n+1)); echo "{\"evicted\": $n}"; done`
	p, err := startProcess(t.Context(), "sh", nil, []string{"-c", program})
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := p.ask(cancelled); err == nil {
		t.Errorf("a cancelled call returns %+v, want an error", r)
	}
	for want := 2; want <= 3; want++ {
		if r, err := p.ask(t.Context()); err != nil || r.Evicted != want {
			t.Errorf("call %d returns %+v, %v; want its own reply", want, r, err)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}
