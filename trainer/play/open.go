// Package play opens environments and policies, in this process and on servers, and lets policies play: one
// policy for eval and enjoy, or several on the same episodes for compare.
package play

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/registry" // registers all environments
)

// TokenVariable names the environment variable with the bearer token of the servers.
const TokenVariable = "KUBERNASIUM_TOKEN"

// Lookup returns the environment with the given id: as registered in this process, or else as the first of urls
// describes it.
func Lookup(ctx context.Context, id string, urls []string) (*envs.Spec, error) {
	spec, err := envs.Lookup(id)
	if err == nil || len(urls) == 0 {
		return spec, err
	}
	v, err := client.Dial(ctx, urls[0], id, 1, client.Options{Token: os.Getenv(TokenVariable)})
	if err != nil {
		return nil, err
	}
	return v.Spec(), v.Close()
}

// warned holds the notes that have been logged.
var warned sync.Map

// WarnOnce logs notes about data, each once per process.
func WarnOnce(notes []string) {
	for _, note := range notes {
		if _, again := warned.LoadOrStore(note, true); !again {
			slog.Warn(note)
		}
	}
}

// OpenEnvs makes n environments as one vector: in this process or, with urls, a part on each of the servers
// ([client.Spread]). When a server is gone, another takes over its part.
func OpenEnvs(ctx context.Context, spec *envs.Spec, n int, opts envs.VecOptions, urls []string) (envs.VecEnv, error) {
	return OpenSaved(ctx, spec, n, opts, urls, nil)
}

// Saver is a vector on servers that can save the state of its environments.
type Saver interface {
	State(ctx context.Context) ([]byte, error)
	LoadState(ctx context.Context, data []byte) (*envs.Batch, error)
}

var _ Saver = (*client.Joined)(nil)

// OpenSaved is OpenEnvs for a vector that will load a state of a [Saver]: its parts on servers have the same
// sizes as in the state. For a state with another number of environments it is OpenEnvs.
func OpenSaved(ctx context.Context, spec *envs.Spec, n int, opts envs.VecOptions, urls []string, state []byte) (envs.VecEnv, error) {
	if len(urls) == 0 {
		v, err := envs.NewVec(spec, n, opts)
		if err != nil {
			return nil, err // not v: a nil *Vec would be a non-nil VecEnv
		}
		WarnOnce(v.Notes())
		return v, nil
	}
	o := client.Options{Options: opts.Options, Autoreset: opts.Autoreset, Token: os.Getenv(TokenVariable), Name: "kubernasium-trainer"}
	if sizes, err := client.StateSizes(state); err == nil && total(sizes) == n {
		o.Sizes = sizes
	}
	servers, err := client.Resolve(ctx, urls)
	if err != nil {
		return nil, err
	}
	if spec.Nondeterministic { // for example environments on an API server, which are not made only to measure their size
		o.Weights = slices.Repeat([]float64{1}, len(servers))
	}
	j, err := client.Spread(ctx, urls, spec.ID, n, o)
	if err != nil {
		return nil, err // not j: a nil *Joined would be a non-nil VecEnv
	}
	return j, nil
}

func total(sizes []int) (sum int) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}
