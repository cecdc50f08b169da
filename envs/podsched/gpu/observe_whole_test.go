package gpu

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestWholeGPUs works the columns of wholly free GPUs by hand, in the episode of README.md and with nodes of eight GPUs.
func TestWholeGPUs(t *testing.T) {
	eights := map[string]any{
		"nodes": write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,96000,8192,8,G2\nb,64200,8192,8,T4\nc,64000,8192,8,T4\nd,99000,8192,4,T4\n"),
		"pods":  []string{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,3,1000\n")}, "reference_seed": 1,
	}
	for _, tc := range []struct {
		name  string
		opts  map[string]any
		after string // node on which a pod has been placed
		nodes map[string][3]float64
		pod   [numWholePodFeatures]float64
	}{
		{"begin", handOptions(t, nil), "", map[string][3]float64{"a": {2. / 8, 1. / 8, 2. / 3}, "b": {1. / 8, 0, 1. / 3}}, [numWholePodFeatures]float64{1, 1. / 2, 0, 0, 0, 0, 1}},
		// The next pod shares the device of the first.
		{"shared", handOptions(t, nil), "a", map[string][3]float64{"a": {1. / 8, 1. / 8, 1. / 2}, "b": {1. / 8, 0, 1. / 2}}, [numWholePodFeatures]float64{1, 0, 0, 0, 0, 0, 2. / 3}},
		{"eights", eights, "", map[string][3]float64{
			"a": {1, 5. / 8, 8. / 28}, "b": {1, 5. / 8, 20. / 28}, "c": {1, 5. / 8, 20. / 28}, "d": {4. / 8, 1. / 8, 20. / 28},
		}, [numWholePodFeatures]float64{1, 1, 1, 3. / 4, 2. / 4, 1. / 4, 1}},
		// On node d, three GPUs no longer fit.
		{"taken", eights, "d", map[string][3]float64{
			"a": {1, 5. / 8, 8. / 25}, "b": {1, 5. / 8, 17. / 25}, "c": {1, 5. / 8, 17. / 25}, "d": {1. / 8, 1. / 8, 17. / 25},
		}, [numWholePodFeatures]float64{1, 3. / 4, 3. / 4, 3. / 4, 2. / 4, 1. / 4, 25. / 28}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := envstest.Open(t, "k8s/GPUPodScheduling-v2", 1, envs.VecOptions{Options: tc.opts})
			task := v.Env(0).Task().(*Task)
			b := reset(t, v, 0)
			if tc.after != "" {
				b = step(t, v, nodeNamed(t, v, tc.after))
			}
			features := task.nodeFeatures()
			for name, want := range tc.nodes {
				row := b.Obs[(int(nodeNamed(t, v, name))+1)*features-numWholeFeatures:]
				for k, x := range want {
					if math.Abs(float64(row[k])-x) > 1e-6 {
						t.Errorf("%s of node %s is %v, want %v", wholeNames[k], name, row[k], x)
					}
				}
			}
			pod := b.Obs[len(task.nodes)*features+numPodFeatures:]
			for k, x := range tc.pod {
				if math.Abs(float64(pod[k])-x) > 1e-6 {
					t.Errorf("%s is %v, want %v", task.Features()[1].Names[numPodFeatures+k], pod[k], x)
				}
			}
		})
	}
}

// TestVersion2 shows what version 1 shows and adds to it: instances, rewards and the other elements are those of version 1.
func TestVersion2(t *testing.T) {
	one, two := envstest.Open(t, "k8s/GPUPodScheduling-v1", 1, envs.VecOptions{}), envstest.Open(t, "k8s/GPUPodScheduling-v2", 1, envs.VecOptions{})
	task := two.Env(0).Task().(*Task)
	b, c := reset(t, one, 3), reset(t, two, 3)
	n, features := len(task.nodes), task.nodeFeatures()
	for range 200 {
		for i := range n {
			for k := range features - numWholeFeatures {
				if x, want := c.Obs[i*features+k], b.Obs[i*(features-numWholeFeatures)+k]; x != want {
					t.Fatalf("%s of node %d is %v, want %v as in version 1", nodeNames[k], i, x, want)
				}
			}
		}
		for k := range numPodFeatures {
			if x, want := c.Obs[n*features+k], b.Obs[n*(features-numWholeFeatures)+k]; x != want {
				t.Fatalf("%s is %v, want %v as in version 1", podNames[k], x, want)
			}
		}
		action := float32(-1)
		for i, may := range b.Mask {
			if may {
				action = float32(i)
			}
		}
		b, c = step(t, one, action), step(t, two, action)
		if b.Reward[0] != c.Reward[0] {
			t.Fatalf("reward %v, want %v as in version 1", c.Reward[0], b.Reward[0])
		}
	}
}
