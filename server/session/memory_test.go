package session

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

// sizedOptions are the options of test/Sized-v0.
type sizedOptions struct {
	MiB   int `opt:"mib" valid:"0,1000000" doc:"memory that it says it takes"`
	Other int `opt:"other" valid:"0,9" doc:"takes none"`
}

// sized is a walk that says how much memory it takes.
type sized struct {
	walk
	mib int64
}

func (s *sized) Bytes() envs.Bytes { return envs.Bytes{Shared: s.mib << 20, Each: s.mib << 20} }

func (s *sized) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	return s.walk.Begin(ctx, c, rng)
}

func (s *sized) Clone(*rand.Rand) envs.Task { c := *s; return &c }

func init() {
	envs.Register(&envs.Spec{
		ID: "test/Sized-v0", Options: &sizedOptions{MiB: 1}, Info: []envs.Column{{Name: "k", DType: "float64"}},
		Open: envs.Open(func() sizedOptions { return sizedOptions{MiB: 1} },
			func(o sizedOptions) (sizedOptions, error) { return o, envs.CheckOptions(&o) },
			func(o sizedOptions) *sized { return &sized{mib: int64(o.MiB)} }),
	})
}

// TestMemory: n environments take (n+1) times the option and some KiB each, and so does each snapshot; what is
// closed and forgotten is free again. A refusal names the option that takes most.
func TestMemory(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.MemorySession, cfg.Limits.MemoryServer = 50<<20, 80<<20
	first, second := newSession(t, cfg), newSession(t, cfg)
	tooMuch := func(id int, option any) m {
		want := refused(id, wire.TooMuchMemory)
		want["option"] = option
		return want
	}
	play(t, first, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Sized-v0", "n": 4, "options": m{"mib": 11, "other": 3}}, tooMuch(2, "mib")}, // 55
		{m{"t": "make", "id": 3, "env": "test/Sized-v0", "n": 60}, tooMuch(3, nil)},
		{m{"t": "make", "id": 4, "env": "test/Sized-v0", "n": 1, "options": m{"mib": 12}}, m{"eid": 1}}, // 24
		{m{"t": "reset", "id": 5, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
		{m{"t": "snapshot", "id": 6, "eid": 1}, m{"snap": 1}}, // 48
		{m{"t": "snapshot", "id": 7, "eid": 1}, tooMuch(7, nil)},
		{m{"t": "forget", "id": 8, "eid": 1, "snap": 1}, m{"t": "forget.ok"}},
		{m{"t": "snapshot", "id": 9, "eid": 1}, m{"snap": 2}},
	})
	play(t, second, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Sized-v0", "n": 1, "options": m{"mib": 20}}, tooMuch(2, "mib")}, // 48 and 40 of 80
		{m{"t": "make", "id": 3, "env": "test/Sized-v0", "n": 1, "options": m{"mib": 15}}, m{"eid": 1}},
	})
	for _, s := range []*Session{first, second} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := cfg.Shared.Memory.Load(); left != 0 {
		t.Errorf("%d bytes are held when all sessions have ended, want 0", left)
	}
}
