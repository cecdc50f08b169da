// Command trouble is the server with an additional environment, test/Trouble-v0, which fails and waits on demand. The
// tests of the Python client build and start it.
//
// Its observation is the number of steps of the episode, and an episode ends after limit steps. Each step has reward 1.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/command"
)

// Actions.
const (
	plain   = iota
	fail    // crashes
	wait    // blocks until another environment of the process takes the action release
	release // never blocks
	spoil   // the start of the process's next episode crashes
	actions
)

const limit = 5

// released has a value for each action release that no wait has received yet.
var released = make(chan struct{}, 1024)

var spoiled atomic.Bool

type trouble struct {
	steps int
}

func (*trouble) Spaces() (obs, act space.Space) {
	return space.NewBox(0, limit, 1), space.Discrete{N: actions}
}

func (t *trouble) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	if spoiled.Swap(false) {
		panic("a crash at the beginning")
	}
	t.steps = 0
	return nil
}

func (t *trouble) Apply(ctx context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	switch int(action[0]) {
	case fail:
		panic("a crash on demand")
	case wait:
		fmt.Fprintln(os.Stderr, "a step waits") // for tests, which look for it in the log
		select {
		case <-released:
		case <-ctx.Done():
			return envs.Outcome{}, ctx.Err()
		}
	case release:
		released <- struct{}{}
	case spoil:
		spoiled.Store(true)
	}
	t.steps++
	return envs.Outcome{Reward: 1, Terminated: t.steps == limit}, nil
}

func (t *trouble) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(t.steps)
	space.PermitAll(mask)
}

func main() {
	envs.Register(&envs.Spec{
		ID:  "test/Trouble-v0",
		Doc: "Fails and waits on demand.",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &trouble{}, nil }, nil
		},
	})
	os.Exit(command.Main())
}
