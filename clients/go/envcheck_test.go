package client_test

import (
	"errors"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// Environments on servers keep the contract of environments in this process: over each
// transport, and split between two servers.
func TestRemoteKeepsTheContract(t *testing.T) {
	a, b := hosttest.Start(t), hosttest.Start(t)
	for _, env := range []struct {
		id     string
		kwargs map[string]any
	}{
		{id: "classic/CartPole-v1"},
		{id: "k8s/GangWindow-v0", kwargs: map[string]any{"steps": 20}},
	} {
		spec, err := envs.Lookup(env.id)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			make func(n int, opts envs.VecOptions) (envs.VecEnv, error)
		}{
			{"ws", dialer(a.WS, env.id)},
			{"unix", dialer(a.Unix, env.id)},
			{"joined", joiner(env.id, a.WS, b.Unix)},
		} {
			t.Run(env.id+"/"+tc.name, func(t *testing.T) {
				envcheck.Run(t, spec, envcheck.Options{Options: env.kwargs, Make: tc.make})
			})
		}
	}
}

// dialer makes environments of id on the server at url.
func dialer(url, id string) func(n int, opts envs.VecOptions) (envs.VecEnv, error) {
	return func(n int, opts envs.VecOptions) (envs.VecEnv, error) {
		return client.Dial(ctx, url, id, n, remote(opts))
	}
}

// joiner makes environments of id that are split between the servers at urls, as evenly as can
// be; a server that would have none is left out.
func joiner(id string, urls ...string) func(n int, opts envs.VecOptions) (envs.VecEnv, error) {
	return func(n int, opts envs.VecOptions) (envs.VecEnv, error) {
		var parts []*client.VecEnv
		undo := func(err error) error {
			for _, p := range parts {
				err = errors.Join(err, p.Close())
			}
			return err
		}
		for k, url := range urls {
			size := (k+1)*n/len(urls) - k*n/len(urls)
			if size == 0 {
				continue
			}
			p, err := client.Dial(ctx, url, id, size, remote(opts))
			if err != nil {
				return nil, undo(err)
			}
			parts = append(parts, p)
		}
		j, err := client.Join(parts...)
		if err != nil {
			return nil, undo(err)
		}
		return j, nil
	}
}

// remote returns what of opts a server can be asked for.
func remote(opts envs.VecOptions) client.Options {
	return client.Options{Options: opts.Options, Autoreset: opts.Autoreset, MaxEpisodeSteps: opts.MaxEpisodeSteps, Threads: opts.Shards}
}
