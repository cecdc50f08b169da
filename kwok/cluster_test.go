package kwok

import (
	"os"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/clustertest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

// open returns a cluster on the tests' control plane.
func open(t testing.TB) *Cluster {
	t.Helper()
	c, err := Open(Options{Kubeconfig: kwoktest.Shared(t).Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConformance plays what every backend must: thousands of ops, legal and not.
func TestConformance(t *testing.T) {
	kwoktest.Shared(t)
	episodes := 12
	if testing.Short() {
		episodes = 30 // of which a tenth is played
	}
	clustertest.Run(t, func(t *testing.T) cluster.Cluster { return open(t) }, clustertest.Episodes(episodes), clustertest.Ops(80))
}
