package sim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
)

func Example() {
	ctx := context.Background()
	c := sim.New()
	s := c.State()
	node := s.Intern(cluster.Meta{Name: "node", GPUModel: "T4"})
	job := s.Intern(cluster.Meta{Name: "job", GPUModels: []string{"T4", "A100"}})
	err := c.Apply(ctx, []cluster.Op{
		{Kind: cluster.AddNode, Meta: node, Resources: cluster.Resources{MilliCPU: 4000, MemoryBytes: 8 << 30}, GPUs: 2, MilliGPU: 1000},
		{Kind: cluster.AddPod, Meta: job, Resources: cluster.Resources{MilliCPU: 500, MemoryBytes: 1 << 30}, GPUs: 1, MilliGPU: 500, Duration: time.Minute},
	})
	if err != nil {
		fmt.Println(err)
	}
	if devices, ok := s.PickDevices(0, 0); ok && s.Fits(0, 0) {
		err = c.Apply(ctx, []cluster.Op{{Kind: cluster.Bind, Pod: 0, Node: 0, Devices: devices}})
	}
	fmt.Print(s)
	err = errors.Join(err, c.Advance(ctx, time.Hour))
	fmt.Println(s.Pods[0].Phase, s.Pods[0].Ended, err)

	err = c.Apply(ctx, []cluster.Op{{Kind: cluster.Evict, Pod: 0}})
	fmt.Println(err, errors.Is(err, cluster.ErrConflict))
	// Output:
	// now 0s
	// node 0 node meta=0 allocatable=4,8Gi requested=500m,1Gi pods=1 gpus=2x1000 free=500/1000,1000/1000
	// pod 0 job-0 meta=1 Running node=0 requests=500m,1Gi gpus=1x500 devices=0b1 created=0s started=0s duration=1m0s
	// Succeeded 1m0s <nil>
	// op 0 (Evict pod=0): pod job-0 is Succeeded, want Running: cluster: conflict true
}
