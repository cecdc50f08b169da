package envcheck

import (
	"reflect"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// open makes n environments with Options.Make, or in this process.
func (c *checker) open(n int, opts envs.VecOptions) (envs.VecEnv, error) {
	if c.opts.Make != nil {
		return c.opts.Make(n, opts)
	}
	return envs.NewVec(c.spec, n, opts)
}

// make is open with the options under check.
func (c *checker) make(t *testing.T, n int, opts envs.VecOptions) envs.VecEnv {
	t.Helper()
	v, err := c.open(n, c.adapted(opts))
	return owned(t, v, err)
}

// local makes n environments in this process, regardless of Options.Make.
func (c *checker) local(t *testing.T, n int, opts envs.VecOptions) *envs.Vec {
	t.Helper()
	v, err := envs.NewVec(c.spec, n, c.adapted(opts))
	return owned(t, v, err)
}

func (c *checker) adapted(opts envs.VecOptions) envs.VecOptions {
	opts.Options, opts.NewCluster = c.opts.Options, c.opts.NewCluster
	return opts
}

// owned returns v and closes it at the test's end.
func owned[V envs.VecEnv](t *testing.T, v V, err error) V {
	t.Helper()
	if err != nil {
		t.Fatalf("make: %v", err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return v
}

// checkSameAsInProcess compares what Options.Make makes with the environments of this process.
func (c *checker) checkSameAsInProcess(t *testing.T) {
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
		opts := envs.VecOptions{Autoreset: mode}
		v, w := c.make(t, 3, opts), c.local(t, 3, opts)
		if v.Spec().ID != w.Spec().ID || v.NumEnvs() != w.NumEnvs() {
			t.Fatalf("%d of %s, want %d of %s", v.NumEnvs(), v.Spec().ID, w.NumEnvs(), w.Spec().ID)
		}
		vObs, vAct := v.Spaces()
		wObs, wAct := w.Spaces()
		if !reflect.DeepEqual(vObs, wObs) || !reflect.DeepEqual(vAct, wAct) {
			t.Fatalf("spaces %+v and %+v, in process %+v and %+v", vObs.Describe(), vAct.Describe(), wObs.Describe(), wAct.Describe())
		}
		got := trajectory(t, v, reset(t, v, 2), newPlayer(v, 9), c.opts.Steps/3)
		want := trajectory(t, w, reset(t, w, 2), newPlayer(w, 9), c.opts.Steps/3)
		if got != want {
			t.Errorf("%v: trajectory %s, in process %s", mode, got, want)
		}
	}
}
