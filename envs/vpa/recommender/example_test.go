package recommender_test

import (
	"fmt"
	"time"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// Example has the block of README.md. A maximum below every estimate is what the policy leaves.
func Example() {
	t := 24 * time.Hour
	policy := recommender.Policy{MaxAllowed: recommender.Amounts{MilliCPU: 20, MemoryBytes: 1 << 20}}
	r, err := recommender.New(recommender.DefaultConfig())
	state := r.NewState(0)              // the history of all pods of a controller
	var container recommender.Container // the windows of one container of one pod
	container.AddCPU(state, t, 250)     // millicores, at t after the Unix epoch
	container.AddMemory(state, t, 1<<28)
	err = container.RecordOOM(state, t, 1<<28) // the memory request then in force
	var rec recommender.Recommendation
	state.Recommend(&rec)
	policy.Apply(&rec) // minAllowed, maxAllowed, the global maximum, whole cores
	checkpoint := state.Save(t, &container)
	fmt.Println(rec.Target, checkpoint != nil, err)
	// Output: 20m 1048576B true <nil>
}
