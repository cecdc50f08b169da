package gpu

import (
	"math"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// TestPooledWait works an episode by hand. Two nodes of G2 become one with four devices. The three pods of 0.6 GPUs take devices 0
// to 2, and the first ends at 50 s. Then the pod with two whole GPUs, which came at 10 s, starts on devices 0 and 3. They are on different
// nodes. Of two pods of T4, which has one device, the second waits from 65 to 70 s. The pod without a model waits for nothing, but
// counts, and the pod that fits no empty node fails and does not.
func TestPooledWait(t *testing.T) {
	v, task := open(t, map[string]any{
		"nodes": write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,G2\nb,8000,8192,2,G2\nc,8000,8192,1,T4\n"),
		"pods": []string{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"+
			"part,1000,1024,1,600,G2,0,9\ntwo,1000,1024,2,1000,G2,0,9\none,1000,1024,1,1000,T4,0,9\nfree,1000,1024,1,1000,,0,9\nthree,1000,1024,3,1000,G2,0,9\ncores,12000,1024,1,1000,T4,0,9\n")},
		"dynamics": "timed", "num_nodes": 0,
	})
	class := func(gpus, milliGPU int32, models string, milliCPU int64) int32 {
		for i := range task.src.Catalogue.Classes {
			c := &task.src.Catalogue.Classes[i]
			if c.GPUs == gpus && c.MilliGPU == milliGPU && c.Models == models && c.MilliCPU == milliCPU {
				return int32(i)
			}
		}
		t.Fatalf("no class of %d devices, %d thousandths, %q, %d", gpus, milliGPU, models, milliCPU)
		return -1
	}
	part, two, one := class(1, 600, "G2", 1000), class(2, 1000, "G2", 1000), class(1, 1000, "T4", 1000)
	reset(t, v, 0)
	task.in.Arrivals = nil
	for _, a := range []struct {
		class        int32
		at, duration float64
	}{
		{part, 0, 50}, {part, 0, 100}, {part, 0, 100}, {class(1, 1000, "", 1000), 0, 1000}, {class(3, 1000, "G2", 1000), 0, 10},
		{class(1, 1000, "T4", 12000), 0, 10}, {two, 10, 100}, {one, 60, 10}, {one, 65, 10},
	} {
		task.in.Arrivals = append(task.in.Arrivals, gpuworkload.Arrival{Class: a.class, At: seconds(a.at), Duration: seconds(a.duration)})
	}
	if got, want := task.PooledWait(), (40.+5)/7; math.Abs(got-want) > 1e-9 {
		t.Errorf("pods wait %v s, want %v", got, want)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
