package gpushare_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

var fgdProfile = []gpushare.Profile{{Plugins: []gpushare.ScorePlugin{{Name: "FGD", Weight: 1}}, Devices: "FGD"}}

// twoNodes have 8 cores and two devices each.
var twoNodes = []gpushare.Node{
	{Name: "a", MilliCPU: 8000, MemoryMiB: 1024, GPUs: 2, Model: "T4"},
	{Name: "b", MilliCPU: 8000, MemoryMiB: 1024, GPUs: 2, Model: "T4"},
}

// request returns a pod of 1 core and so many thousandths of each of some GPUs, on the devices of a node, or waiting.
func request(name string, gpus, milli int32, node int, devices ...int) gpushare.Request {
	return gpushare.Request{Name: name, Shape: gpushare.Shape{MilliCPU: 1000, GPUs: gpus, MilliGPU: milli}, Node: node, Devices: devices}
}

func simulation(t *testing.T, nodes []gpushare.Node, pods []gpushare.Request, o gpushare.SimulationOptions) *gpushare.Simulation {
	t.Helper()
	s, err := gpushare.NewSimulation(nodes, pods, fgdProfile, o)
	if err != nil {
		t.Fatal(err)
	}
	for s.Pending() > 0 {
		if err := s.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// summary says what a descheduling did: moves, and fragmentation at each of its moments.
func summary(d *gpushare.Descheduling) []string {
	var list []string
	for _, m := range d.Moves {
		list = append(list, m.Pod+" "+m.From+" to "+m.To)
	}
	return append(list, fmt.Sprintf("F %.0f, %.0f, %.0f, %.0f", d.Before.FragMilliGPU, d.Evicted.FragMilliGPU, d.After.FragMilliGPU, d.End.FragMilliGPU),
		fmt.Sprintf("used nodes %d, %d", d.Before.UsedNodes, d.End.UsedNodes))
}

// TestDeschedule is hand-worked. Pods L want 600 thousandths of a GPU and S want 400; two of each are typical, half of
// the pods each. Of node a, with an L on each device, 400 + 400 are free, which no L fits: F = 800/2 + 0 = 400. Of b,
// with an S on each, 600 + 600 are free, which both fit: F = 0. Without one L, a has 1000 + 400 free, of which L cannot
// use 400: F = 400/2 = 200, so that 200 are won, and 200 more without the other. FGD puts an L beside an S: there F stays
// 0 (score 50), and on a it would rise by 200 (score 45).
func TestDeschedule(t *testing.T) {
	shared := []gpushare.Request{request("L1", 1, 600, 0, 0), request("L2", 1, 600, 0, 1), request("S1", 1, 400, 1, 0), request("S2", 1, 400, 1, 1)}
	for _, tc := range []struct {
		policy string
		ratio  float64
		pods   []gpushare.Request
		want   []string
	}{
		{gpushare.FragOnePod, 1, shared, []string{"L1 a to b", "F 400, 200, 200, 200", "used nodes 2, 2"}},
		{gpushare.FragMultiPod, 1, shared, []string{"L1 a to b", "L2 a to b", "F 400, 0, 0, 0", "used nodes 2, 1"}},
		{gpushare.FragMultiPod, 0.25, shared, []string{"L1 a to b", "F 400, 200, 200, 200", "used nodes 2, 2"}},
		{gpushare.FragMultiPod, 0.26, shared, []string{"L1 a to b", "L2 a to b", "F 400, 0, 0, 0", "used nodes 2, 1"}}, // 1.04 pods are 2
		{gpushare.FragMultiPod, 0, shared, []string{"F 400, 400, 400, 400", "used nodes 2, 2"}},
		// W wants two whole GPUs, which are nowhere free before: L and S are 2/5 of the pods each, W is 1/5.
		// F(a) = 2/5·800 + 1/5·800 = 480, F(b) = 1/5·1200 = 240; without L1 F(a) = 2/5·400 + 1/5·1400 = 440, without both 0.
		// Without S1 F(b) = 1/5·1600 is more. L1 and L2 on b leave nothing free there. Then W fits a.
		{gpushare.FragMultiPod, 1, append(slices.Clone(shared), request("W", 2, 1000, -1)), []string{"L1 a to b", "L2 a to b", "F 720, 240, 0, 0", "used nodes 2, 2"}},
	} {
		t.Run(fmt.Sprint(tc.policy, tc.ratio, len(tc.pods)), func(t *testing.T) {
			s := simulation(t, twoNodes, tc.pods, gpushare.SimulationOptions{})
			d, err := s.Deschedule(context.Background(), gpushare.DescheduleOptions{Policy: tc.policy, Ratio: tc.ratio})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, summary(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if waits := len(tc.pods) - 4; d.Retried != waits || s.Usage().Pods != len(tc.pods) || d.Before.Pods != 4 || d.After.Pods != 4 {
				t.Errorf("%d pods before, %d after, %d retried, %d in the end; want 4, 4, %d, %d", d.Before.Pods, d.After.Pods, d.Retried, s.Usage().Pods, waits, len(tc.pods))
			}
		})
	}
}

// TestDescheduleCosSim is hand-worked. Node a has 1 core and a GPU free, which cosSim looks for; b has much of all. Without
// batch, a would have (7000, 1000) free of CPU and GPU, to (6000, 0) requested: cosine 7/√50 = 0.990. Without train it
// would have (2000, 2000), to (1000, 1000): cosine 1. So batch goes.
func TestDescheduleCosSim(t *testing.T) {
	batch := request("batch", 0, 0, 0)
	batch.MilliCPU = 6000
	s := simulation(t, twoNodes, []gpushare.Request{request("train", 1, 1000, 0, 0), batch}, gpushare.SimulationOptions{})
	d, err := s.Deschedule(context.Background(), gpushare.DescheduleOptions{Policy: gpushare.CosSim, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Moves) != 1 || d.Moves[0].Pod != "batch" || d.Moves[0].From != "a" {
		t.Errorf("moves %+v, want batch from a alone", d.Moves)
	}
	// A node whose fullest free device has no more than 500 thousandths is left alone.
	half := request("half", 1, 500, 0, 1)
	half.MilliCPU = 0
	s = simulation(t, twoNodes, []gpushare.Request{request("train", 1, 1000, 0, 0), batch, half}, gpushare.SimulationOptions{})
	if d, err = s.Deschedule(context.Background(), gpushare.DescheduleOptions{Policy: gpushare.CosSim, Ratio: 1}); err != nil || len(d.Moves) != 0 {
		t.Errorf("moves %+v, %v; want none", d, err)
	}
}

func TestDescheduleErrors(t *testing.T) {
	s := simulation(t, twoNodes, []gpushare.Request{request("p", 1, 1000, -1)}, gpushare.SimulationOptions{})
	for _, tc := range []struct {
		o    gpushare.DescheduleOptions
		want string
	}{
		{gpushare.DescheduleOptions{Policy: "frag", Ratio: 0.5}, `deschedule policy "frag", want one of cosSim, fragOnePod, fragMultiPod`},
		{gpushare.DescheduleOptions{Policy: gpushare.CosSim, Ratio: 1.5}, "deschedule ratio 1.5, want 0 to 1"},
	} {
		if _, err := s.Deschedule(context.Background(), tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want an error with %q", err, tc.want)
		}
	}
}

// last chooses the last node that fits, or the node given.
type last struct {
	node    int32
	devices uint64
	err     error
	asked   []int
}

func (l *last) Decide(_ context.Context, q gpushare.Question) (int32, uint64, error) {
	l.asked = append(l.asked, q.Pod)
	if l.node != 0 || l.err != nil {
		return l.node, l.devices, l.err
	}
	return q.Fitting[len(q.Fitting)-1], l.devices, nil
}

// TestDecider: a decider in place of the plugins is asked about the pods that fit somewhere, and obeyed.
func TestDecider(t *testing.T) {
	pods := []gpushare.Request{request("p", 1, 500, -1), request("big", 2, 1000, 0, 0, 1), request("none", 8, 1000, -1)}
	l := &last{devices: 1 << 1}
	s := simulation(t, twoNodes, pods, gpushare.SimulationOptions{Decider: l})
	if phase, node, devices := s.Pod(0); phase != gpushare.Placed || node != 1 || !cmp.Equal(devices, []int{1}) {
		t.Errorf("p is %v on node %d, devices %v; want placed on b, device 1", phase, node, devices)
	}
	if phase, _, _ := s.Pod(2); phase != gpushare.Failed || !cmp.Equal(l.asked, []int{0}) {
		t.Errorf("none is %v, asked about %v; want failed, asked about 0 alone", phase, l.asked)
	}
	wrong := errors.New("no answer")
	for _, tc := range []struct {
		l    last
		want string
	}{
		{last{err: wrong}, "pod p: no answer"}, {last{node: 7}, "node 7 is chosen, on which it does not fit"},
		{last{devices: 3}, "devices [0 1] of node b are chosen, want 1 with 500 thousandths free"},
	} {
		s, err := gpushare.NewSimulation(twoNodes, pods, fgdProfile, gpushare.SimulationOptions{Decider: &tc.l})
		if err != nil {
			t.Fatal(err)
		}
		if err = s.Step(context.Background()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want an error with %q", err, tc.want)
		}
	}
}
