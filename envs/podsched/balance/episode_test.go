package balance_test

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

func open(tb testing.TB, n int, opts map[string]any) *envs.Vec {
	tb.Helper()
	return envstest.Open(tb, spec(tb).ID, n, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
}

var (
	reset = envstest.Reset
	step  = envstest.Step
	write = envstest.TempFile
)

// handOptions are those of the hand-worked episode of README.md.
func handOptions(tb testing.TB) map[string]any {
	file := write(tb, "deployments.csv", "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\n"+
		"web,2,16000m,16000m,64Gi,64Gi,add\ndb,1,32,32,32.0Gi,32Gi,add\n")
	return map[string]any{"nodes": 2, "servers_per_rack": 1, "deployments": file, "reset_pods": []any{3}}
}

// TestHandWorkedEpisode plays the episode of README.md, section "An episode by hand".
func TestHandWorkedEpisode(t *testing.T) {
	v := open(t, 1, handOptions(t))
	b := reset(t, v, 1)
	approx := cmpopts.EquateApprox(0, 1e-6)
	// A replica of web is 16 of 64 CPU and 64 of 256 Gi: a quarter of a node.
	node := []float32{0, 0, 0, 0, 0, .25, .25, 1, 1, 0, 0, 0, 0, 1, 0, 0}
	pod := []float32{.25, .25, 1, 0, 0, 0, 0}
	if diff := cmp.Diff(append(append(append([]float32{}, node...), node...), pod...), b.Obs, approx); diff != "" {
		t.Errorf("first observation (-want +got):\n%s", diff)
	}
	// On node 0: shares 25 % and 0, whose standard deviation is 12.5; CPU and memory alike.
	b = step(t, v, 0)
	checkStep(t, b.Reward[0], b.Info, -1.25, 12.5, 12.5, 12.5, 0.5)
	busy := []float32{.25, .25, .25, .25, 1. / 110, .25, .25, 1, 1, .5, .5, .25, 1, 1, 1, 1}
	pod = []float32{.25, .25, 1, .5, .125, .125, 1. / 220}
	if diff := cmp.Diff(append(append(busy, node...), pod...), b.Obs, approx); diff != "" {
		t.Errorf("second observation (-want +got):\n%s", diff)
	}
	// On node 1: all equal.
	b = step(t, v, 1)
	checkStep(t, b.Reward[0], b.Info, 0, 0, 0, 0, 0)
	if now := v.Env(0).State().Now; now != 40*time.Second {
		t.Errorf("db comes after %v, want 40s", now)
	}
	// db is 32 of 64 CPU and 32 of 256 Gi. On node 0: CPU 75 % and 25 %, memory 37.5 % and 25 %:
	// standard deviations 25 and 6.25, mean 15.625.
	b = step(t, v, 0)
	if !b.Terminated[0] || b.Truncated[0] {
		t.Errorf("after three pods: terminated %v, truncated %v; want true, false", b.Terminated[0], b.Truncated[0])
	}
	checkStep(t, b.Reward[0], b.FinalInfo, -1.5625, 15.625, 25, 6.25, 0.5)
	// No pod is left. Node 0 runs one of web and db, the last deployment; node 1 one of web.
	last := []float32{.75, .375, .75, .375, 2. / 110, 0, 0, 1, 1, 1, 1, .75, 1, 0, 1, 1,
		.25, .25, .25, .25, 1. / 110, 0, 0, 1, 1, 0, 0, .25, 1, 0, 0, 0, 0, 0, 0, 0, .5, .3125, 3. / 220}
	if diff := cmp.Diff(last, b.FinalObs, approx); diff != "" {
		t.Errorf("last observation (-want +got):\n%s", diff)
	}
	if got := b.EpisodeReturn[0]; math.Abs(got+2.8125) > 1e-9 {
		t.Errorf("return %v, want -2.8125", got)
	}
	// Mean cost 28.125/3, one phase; the racks hold 1 and 1 of web, 1 and 0 of db: mean skew ½.
	// Nodes in use: 50, 100 and 100 %.
	want := []float64{9.375, 15.625, 0.5, 0.5, 250. / 3, 3, 0}
	if diff := cmp.Diff(want, b.FinalInfo[:7], cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("info of the episode (-want +got):\n%s", diff)
	}
}

func checkStep(t *testing.T, reward float64, info []float64, wantReward, imbalance, sdCPU, sdMemory, sdPods float64) {
	t.Helper()
	want := []float64{wantReward, imbalance, sdPods, sdCPU, sdMemory}
	got := []float64{reward, info[7], info[8], info[9], info[10]}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("reward, imbalance, sd_pods, sd_cpu, sd_memory (-want +got):\n%s", diff)
	}
}

// TestMaskedActionFailsThePod: a full node leaves the pod unplaced, for −10 and the imbalance
// as it is.
func TestMaskedActionFailsThePod(t *testing.T) {
	opts := handOptions(t)
	opts["deployments"] = write(t, "d.csv", "name,pod_count,cpu_request,mem_request\nbig,3,64,128Gi\n")
	v := open(t, 1, opts)
	reset(t, v, 1)
	b := step(t, v, 0)
	if diff := cmp.Diff([]bool{false, true}, b.Mask); diff != "" {
		t.Errorf("mask with a full node 0 (-want +got):\n%s", diff)
	}
	// Shares of CPU 100 % and 0, of memory 50 % and 0: deviations 50 and 25, mean 37.5.
	b = step(t, v, 0)
	if !b.Invalid[0] || math.Abs(b.Reward[0]+13.75) > 1e-9 {
		t.Errorf("masked action: invalid %v, reward %v; want true, -13.75", b.Invalid[0], b.Reward[0])
	}
	b = step(t, v, 1)
	if placed, failed := b.FinalInfo[5], b.FinalInfo[6]; placed != 2 || failed != 1 {
		t.Errorf("placed %v, failed %v; want 2, 1", placed, failed)
	}
}

// TestPodsThatFitNowhereFail: the third pod fits no node and is not offered; it costs 10.
func TestPodsThatFitNowhereFail(t *testing.T) {
	opts := handOptions(t)
	opts["deployments"] = write(t, "d.csv", "name,pod_count,cpu_request,mem_request\nbig,3,64,128Gi\n")
	v := open(t, 1, opts)
	reset(t, v, 1)
	step(t, v, 0)
	b := step(t, v, 1)
	if !b.Terminated[0] || math.Abs(b.Reward[0]+10) > 1e-9 || b.FinalInfo[6] != 1 {
		t.Errorf("terminated %v, reward %v, failed %v; want true, -10, 1", b.Terminated[0], b.Reward[0], b.FinalInfo[6])
	}
}

// TestNothingFits: an episode none of whose pods fits has one step, which does nothing.
func TestNothingFits(t *testing.T) {
	opts := handOptions(t)
	opts["deployments"] = write(t, "d.csv", "name,pod_count,cpu_request,mem_request\nhuge,3,65,1Gi\n")
	v := open(t, 1, opts)
	b := reset(t, v, 1)
	if b.Obs[2*16] != 0 || !b.Mask[0] || !b.Mask[1] {
		t.Errorf("without a pod: request %v, mask %v; want 0, all", b.Obs[2*16], b.Mask)
	}
	if b = step(t, v, 0); !b.Terminated[0] || b.Reward[0] != 0 || b.FinalInfo[6] != 3 {
		t.Errorf("terminated %v, reward %v, failed %v; want true, 0, 3", b.Terminated[0], b.Reward[0], b.FinalInfo[6])
	}
}

// TestRender sees the texts and the colours of an empty and of a full node.
func TestRender(t *testing.T) {
	opts := handOptions(t)
	opts["deployments"] = write(t, "d.csv", "name,pod_count,cpu_request,mem_request\nbig,3,64,128Gi\n")
	v := open(t, 1, opts)
	reset(t, v, 1)
	step(t, v, 1)
	text, err := v.RenderANSI(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"to place: replica 2 of 3 of big, 64 CPU and 128Gi memory\n",
		"worker-0     rack-0    ····················   0.0%  ····················   0.0%     0  yes\n",
		"worker-1     rack-1    ████████████████████ 100.0%  ██████████··········  50.0%     1  \n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	img, err := v.RenderRGB(0)
	if err != nil {
		t.Fatal(err)
	}
	// Columns of 24 pixels after a margin of 8: node 0 is white, node 1 dark red in CPU.
	for _, tc := range []struct {
		x    int
		want color.RGBA
	}{{20, color.RGBA{255, 255, 255, 255}}, {44, color.RGBA{128, 0, 38, 255}}} {
		if got := img.RGBAAt(tc.x, 20); got != tc.want {
			t.Errorf("pixel (%d, 20) is %v, want %v", tc.x, got, tc.want)
		}
	}
	if got := img.Bounds().Size(); got != image.Pt(2*8+2*24, 2*8+3*24) {
		t.Errorf("size %v", got)
	}
}

// TestDepartures: pods leave when their lifetime is over.
func TestDepartures(t *testing.T) {
	v := open(t, 1, map[string]any{"lifetime": 100.0, "steps": 400, "interval": 40.0})
	b := reset(t, v, 1)
	sum := 0.0
	for i := range 400 {
		b = step(t, v, float32(i%10))
		if i < 399 {
			sum += b.Info[11] * 640
		}
	}
	if !b.Truncated[0] || b.Terminated[0] {
		t.Errorf("after 400 steps: truncated %v, terminated %v; want true, false", b.Truncated[0], b.Terminated[0])
	}
	// Ten pods come every 40 s and live 100 s. A pod that comes now finds the e^(-0.4k) that are
	// left of those k deployments ago: 10·e^-0.4/(1-e^-0.4) = 20.3, and about half of its own
	// deployment. Replicas are weighted by size: E[r²]/E[r] = 11, of which 6 on average have come.
	if got, want := sum/399, 20.3+6; math.Abs(got-want) > 3 {
		t.Errorf("%.1f pods run on average, want %.1f within 3", got, want)
	}
}

// TestUsageIsObserved: with usage at half of the requests, usage features are half of requests.
func TestUsageIsObserved(t *testing.T) {
	v := open(t, 1, map[string]any{"usage_min": 0.5, "usage_max": 0.5})
	reset(t, v, 1)
	b := step(t, v, 4)
	row := b.Obs[4*16:]
	if row[0] != 1./64 || row[2] != 1./128 || row[3] != row[1]/2 || row[1] == 0 {
		t.Errorf("node 4: requested %v and %v, used %v and %v; want used half of requested, 1/64 and 1/128", row[0], row[1], row[2], row[3])
	}
}

// TestEdges: five nodes in racks of three are a triangle and a pair.
func TestEdges(t *testing.T) {
	v := open(t, 1, map[string]any{"nodes": 5, "servers_per_rack": 3, "edges": "rack"})
	b := reset(t, v, 1)
	want := []float32{0, 1, 0, 2, 1, 0, 1, 2, 2, 0, 2, 1, 3, 4, 4, 3, 1, 1, 1, 1, 1, 1, 1, 1}
	if diff := cmp.Diff(want, b.Obs[5*16+7:]); diff != "" {
		t.Errorf("edges and their mask (-want +got):\n%s", diff)
	}
	// The nodes carry the labels that the graph is of.
	s := v.Env(0).State()
	for i, want := range []string{"rack-0", "rack-0", "rack-0", "rack-1", "rack-1"} {
		labels := s.Meta(s.Nodes[i].Meta).Labels
		if got := labels[1]; got != (cluster.Label{Key: "rack", Value: want}) {
			t.Errorf("node %d has the labels %v, want rack=%s", i, labels, want)
		}
	}
}

// TestGoldenEpisode pins a drawn episode with everything on.
func TestGoldenEpisode(t *testing.T) {
	v := open(t, 1, map[string]any{"nodes": 5, "servers_per_rack": 2, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.3,
		"lifetime": 120.0, "steps": 24, "usage_min": 0.5, "usage_max": 0.9, "edges": "rack"})
	b := reset(t, v, 42)
	var text strings.Builder
	for i := range 24 {
		fmt.Fprintf(&text, "%2d", i)
		for _, x := range b.Obs {
			fmt.Fprintf(&text, " %.4g", x)
		}
		b = step(t, v, float32(i%5))
		info := b.Info
		if b.Done(0) {
			info = b.FinalInfo
		}
		fmt.Fprintf(&text, "\n   action %d reward %.6f info %.5g\n", i%5, b.Reward[0], info)
	}
	envstest.Golden(t, "episode", text.String())
}
