package core

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// episodes counts the episodes of all drifting environments, so that no two are alike.
var episodes float64

// drifting pays the number of its episode, whatever the seed.
type drifting struct{ pay float64 }

func (*drifting) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (d *drifting) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	episodes++
	d.pay = episodes
	return nil
}

func (d *drifting) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	return envs.Outcome{Reward: d.pay, Terminated: true}, nil
}

func (*drifting) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func init() {
	envs.Register(&envs.Spec{ID: "test/Drifting-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &drifting{}, nil }, nil
	}})
}

// TestVerifyFindsDifferences: eval --verify fails where an episode over the wire is not that in process.
func TestVerifyFindsDifferences(t *testing.T) {
	episodes = 0
	server := hosttest.Start(t).WS
	args := []string{"eval", "--env", "test/Drifting-v0", "--baseline", "random", "--episodes", "1", "--url", server}
	if out := mustExecute(t, args...); strings.Contains(out, "bit for bit") || !strings.Contains(out, server) {
		t.Errorf("eval without --verify says that returns were compared, or not on which server:\n%s", out)
	}
	_, _, err := execute(t, t.Context(), append(args, "--verify")...)
	if err == nil || !strings.Contains(err.Error(), "returns over the wire [3] differ from those in process [5]") {
		t.Errorf("eval --verify of episodes that pay 3 and then 5, each end beginning another: %v, want that they differ", err)
	}
	args[2] = "classic/CartPole-v1"
	if out := mustExecute(t, append(args, "--verify")...); !strings.Contains(out, "every return is equal to that in process, bit for bit") {
		t.Errorf("eval --verify of equal episodes does not say so:\n%s", out)
	}
}

// TestVerifyPlaysInProcess: what eval --verify compares with is played without the server.
func TestVerifyPlaysInProcess(t *testing.T) {
	target, err := url.Parse(hosttest.Start(t).WS)
	if err != nil {
		t.Fatal(err)
	}
	server := target.Host
	var connections atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", server)
				if err != nil {
					return // the command fails, too
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	target.Host = l.Addr().String()
	args := []string{"eval", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "1", "--url", target.String()}
	mustExecute(t, args...)
	plain := connections.Load()
	mustExecute(t, append(args, "--verify")...)
	if verified := connections.Load() - plain; plain == 0 || verified != plain {
		t.Errorf("%d connections without --verify and %d with it, want as many", plain, verified)
	}
}
