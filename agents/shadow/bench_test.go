package shadow_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// BenchmarkDay replays a day of 1,000 nodes and 100,000 pods: as it was, by a policy, and with the policy asked about each
// recorded decision.
func BenchmarkDay(b *testing.B) {
	law := clustertrace.Synthetic{Nodes: 1000, Pods: 100_000, Span: 24 * time.Hour, Load: 0.6, GPUNodes: 0.2}
	var file bytes.Buffer
	w, err := clustertrace.NewWriter(&file, clustertrace.Header{})
	if err == nil {
		err = errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(1, 0))), w.Close(law.Span))
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := clustertrace.NewReader("day", bytes.NewReader(file.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		day, err := shadow.Read(r)
		if err != nil {
			b.Fatal(err)
		}
		rep, err := shadow.Run(context.Background(), day, shadow.Options{Policies: []shadow.Policy{baseline("k8s/PodBalance-v0", "LeastAllocated")}})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(rep.Policies[0].Placed), "placed")
	}
}
