package kwok

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all" // registers the environments
	"github.com/kubernasium/kubernasium/envs/cluster"
)

const (
	family    = "k8s/" // prefix of the environments that act on a cluster
	suffix    = "Kwok" // suffix of a twin's name
	stepNanos = 5_000_000
)

func init() {
	for _, s := range envs.Specs() {
		if strings.HasPrefix(s.ID, family) {
			envs.Register(twin(s))
		}
	}
}

// TwinID returns the id of an environment's twin on an API server: k8s/PodBalanceKwok-v0 for k8s/PodBalance-v0.
func TwinID(id string) string {
	i := strings.LastIndex(id, "-v")
	return id[:i] + suffix + id[i:]
}

// Original returns an environment and its twin, given the id of either.
func Original(id string) (original, twin *envs.Spec, err error) {
	s, err := envs.Lookup(id)
	if err != nil {
		return nil, nil, err
	}
	if !strings.HasPrefix(s.ID, family) {
		return nil, nil, fmt.Errorf("kwok: %s acts on no cluster and has no twin", s.ID)
	}
	i := strings.LastIndex(s.ID, "-v")
	if name, ok := strings.CutSuffix(s.ID[:i], suffix); ok {
		original, err = envs.Lookup(name + s.ID[i:])
		return original, s, err
	}
	twin, err = envs.Lookup(TwinID(s.ID))
	return s, twin, err
}

// twin returns the environment of s on an API server: the same task with another backend.
func twin(s *envs.Spec) *envs.Spec {
	t := *s
	t.ID = TwinID(s.ID)
	t.Doc = strings.TrimSuffix(s.Doc, ".") + "; on a Kubernetes API server with KWOK's nodes."
	t.Nondeterministic = true
	t.StepNanos = stepNanos
	t.Options = bothOptions(s.Options)
	t.Open = func(opts map[string]any) (envs.Maker, error) {
		_, rest, err := split(s, opts)
		if err != nil {
			return nil, err
		}
		return s.Open(rest)
	}
	t.Backend = func(opts map[string]any) (func() (cluster.Cluster, error), error) {
		own, _, err := split(s, opts)
		if err != nil {
			return nil, err
		}
		server, err := newServer(own)
		if err != nil {
			return nil, err
		}
		return func() (cluster.Cluster, error) { return newCluster(server), nil }, nil
	}
	return &t
}

// bothOptions returns a pointer to a struct with the environment's options and Options.
func bothOptions(of any) any {
	const squash = `opt:",squash"`
	fields := []reflect.StructField{{Name: "Server", Type: reflect.TypeFor[Options](), Tag: squash}}
	if of == nil {
		return reflect.New(reflect.StructOf(fields)).Interface()
	}
	own := reflect.ValueOf(of).Elem()
	both := reflect.New(reflect.StructOf(slices.Insert(fields, 0, reflect.StructField{Name: "Own", Type: own.Type(), Tag: squash})))
	both.Elem().Field(0).Set(own)
	return both.Interface()
}

// split checks the options of the twin of s, and returns Options and the environment's options.
func split(s *envs.Spec, opts map[string]any) (own Options, rest map[string]any, err error) {
	if err := envs.DecodeOptions(opts, bothOptions(s.Options)); err != nil {
		return own, nil, err
	}
	rest = maps.Clone(opts)
	ours := map[string]any{}
	for _, o := range envs.DescribeOptions(&own) {
		if v, ok := opts[o.Name]; ok {
			ours[o.Name] = v
			delete(rest, o.Name)
		}
	}
	return own, rest, envs.DecodeOptions(ours, &own)
}
