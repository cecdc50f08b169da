package subscheduler_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/subscheduler"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

var pretrained = filepath.Join("..", "..", "models", "pretrained")

// TestRead fills a sub-cluster, no worse than round-robin does.
func TestRead(t *testing.T) {
	sub, err := subscheduler.Read(filepath.Join(pretrained, "k8s-LRASubcluster-v0", "ppo.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	batch := lra.Counts{5, 4, 3, 2, 1, 6, 7}
	p, x := fill(t, sub, batch)
	roundRobin, err := p.Place(planner.AppOrder(batch), p.RoundRobin())
	if err != nil {
		t.Fatal(err)
	}
	if got, least := p.Average(x), p.Average(roundRobin); got < least {
		t.Errorf("throughput %v of a container, want at least round-robin's %v", got, least)
	}
}

// fill returns a batch's problem and its placement on an empty sub-cluster.
func fill(t *testing.T, sub subcluster.Scheduler, batch lra.Counts) (*planner.Problem, planner.Placement) {
	t.Helper()
	p, err := planner.NewProblem(throughput.GenerateTable(0), subcluster.Nodes, batch)
	if err != nil {
		t.Fatal(err)
	}
	x := make(planner.Placement, subcluster.Nodes)
	if err := sub.Fill(p, x); err != nil {
		t.Fatal(err)
	}
	return p, x
}

func TestReadRefuses(t *testing.T) {
	path := filepath.Join(pretrained, "classic-CartPole-v1", "ppo.safetensors")
	if _, err := subscheduler.Read(path); err == nil || !strings.Contains(err.Error(), "a model of classic/CartPole-v1, want k8s/LRASubcluster-v0") {
		t.Errorf("%v, want an error with both environments", err)
	}
	if _, err := subscheduler.Read("nowhere.safetensors"); err == nil || !strings.Contains(err.Error(), "nowhere.safetensors") {
		t.Errorf("%v, want an error with the file's name", err)
	}
}
