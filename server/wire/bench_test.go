package wire

import (
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
)

// hotPath returns a step's way through the codec at both ends.
func hotPath(t testing.TB, n int) (l *Layout, once func()) {
	l = newLayout(t, n, space.NewBox(-1, 1, 4), space.Discrete{N: 2}, infoColumns)
	req, reply := NewWriter(), NewWriter()
	var fr Frame
	actions := make([]float32, n)
	here, there := newRows(l), newRows(l)
	there.Terminated[0] = true
	return l, func() {
		l.EncodeStepRequest(req, 1, 1, actions)
		if err := fr.Parse(req.Bytes(), DefaultBounds); err != nil {
			t.Fatal(err)
		}
		if _, _, err := fr.Uint("eid"); err != nil {
			t.Fatal(err)
		}
		if err := l.DecodeActions(&fr, actions); err != nil {
			t.Fatal(err)
		}
		l.EncodeStep(reply, 1, there, true)
		if err := fr.Parse(reply.Bytes(), DefaultBounds); err != nil {
			t.Fatal(err)
		}
		if err := l.DecodeStep(&fr, here); err != nil {
			t.Fatal(err)
		}
		if err := l.DecodeEpisodes(&fr, here); err != nil {
			t.Fatal(err)
		}
	}
}

// A step allocates nothing at either end.
func TestCodecAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates; run without -race")
	}
	_, once := hotPath(t, 16)
	once()
	if got := testing.AllocsPerRun(100, once); got != 0 {
		t.Errorf("%v allocations in a step, want 0", got)
	}
}

func BenchmarkCodec(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			_, once := hotPath(b, n)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}
