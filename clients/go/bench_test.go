package client_test

import (
	"fmt"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// BenchmarkRoundTrip steps CartPoles from a Go client through a server in the same process.
// Allocations are those of both ends.
func BenchmarkRoundTrip(b *testing.B) {
	for _, transport := range []string{"ws", "ws zstd", "unix"} {
		for _, n := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("%s/n=%d", transport, n), func(b *testing.B) {
				s := hosttest.Start(b)
				v := dial(b, map[string]string{"ws": s.WS, "ws zstd": s.WS + "?compress=zstd", "unix": s.Unix}[transport], "classic/CartPole-v1", n, client.Options{Autoreset: envs.SameStep})
				if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
					b.Fatal(err)
				}
				actions := make([]float32, n)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Step(ctx, actions); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "env-steps/s")
			})
		}
	}
}

// A round trip allocates at most two objects at each end, and over WebSocket the key that masks
// the client's frame, which gorilla/websocket draws with crypto/rand.
func TestRoundTripAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates; run without -race")
	}
	s := hosttest.Start(t)
	for name, url := range map[string]string{"ws": s.WS, "unix": s.Unix} {
		v := dial(t, url, "classic/CartPole-v1", 16, client.Options{Autoreset: envs.SameStep})
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		actions := make([]float32, 16)
		step := func() {
			if _, err := v.Step(ctx, actions); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			step()
		}
		most := 4.0
		if name == "ws" {
			most++
		}
		if got := testing.AllocsPerRun(500, step); got > most {
			t.Errorf("%s: %v allocations in a round trip, want at most %v", name, got, most)
		} else {
			t.Logf("%s: %v allocations in a round trip", name, got)
		}
	}
}
