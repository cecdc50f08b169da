package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// Names of an observation's elements travel as the environment gives them, by its options.
func TestFeaturesOverTheWire(t *testing.T) {
	server := hosttest.Start(t)
	for _, kwargs := range []map[string]any{nil, {"windows": 5, "horizon": 2}} {
		v, err := client.Dial(ctx, server.Unix, "k8s/GangWindow-v0", 1, client.Options{Options: kwargs})
		if err != nil {
			t.Fatal(err)
		}
		here, err := envs.Make("k8s/GangWindow-v0", 1, envs.VecOptions{Options: kwargs})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(here.Features(), v.Features()); diff != "" || len(v.Features()) != 1 {
			t.Errorf("features of %v (-here +server):\n%s", kwargs, diff)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if err := here.Close(); err != nil {
			t.Error(err)
		}
	}
}
