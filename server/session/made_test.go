package session

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/server/wire"
)

func init() {
	wordy := envcheck.Timing(3, 0)
	wordy.ID, wordy.Doc = "test/Wordy-v0", strings.Repeat("long ", 2000)
	envs.Register(wordy)
	envs.Register(&envs.Spec{
		ID: "test/Clumsy-v0", Info: []envs.Column{{Name: "k", DType: "float64"}},
		Open: func(map[string]any) (envs.Maker, error) {
			made := 0
			return func() (envs.Task, error) {
				if made++; made == 3 {
					panic("the third task panics")
				}
				return &sized{mib: 1}, nil
			}, nil
		},
	})
}

// A panic while environments are made leaves their places and their memory to others.
func TestPanicInMakeFreesPlaces(t *testing.T) {
	cfg := newConfig()
	quota := &Quota{Name: "alice", Envs: 4, Memory: 20 << 20, Held: &Held{}}
	cfg.Limits.EnvsServer, cfg.Limits.MemoryServer = 4, 20<<20
	s := New(cfg, quota)
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Clumsy-v0", "n": 4}, refused(2, wire.ServerFault)},
		{m{"t": "make", "id": 3, "env": "test/Clumsy-v0", "n": 4}, refused(3, wire.ServerFault)},
		{m{"t": "make", "id": 4, "env": "test/Sized-v0", "n": 4, "options": m{"mib": 3}}, m{"t": "make.ok"}},
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if e, b, own, ownB := cfg.Shared.Envs.Load(), cfg.Shared.Memory.Load(), quota.Held.Envs.Load(), quota.Held.Memory.Load(); e != 0 || b != 0 || own != 0 || ownB != 0 {
		t.Errorf("after the end of the session the server holds %d environments of %d bytes, and the client %d of %d; want none", e, b, own, ownB)
	}
}

// A vector whose description exceeds msg_out is closed: its client has no number to close it by.
func TestMakeWithoutRoomForItsReply(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.MsgOut, cfg.Limits.EnvsSession = 8000, 1
	s := newSession(t, cfg)
	play(t, s, []line{hello12})
	for id := 2; id < 5; id++ {
		play(t, s, []line{{m{"t": "make", "id": id, "env": "test/Wordy-v0"}, refused(id, wire.TooLarge)}})
	}
}
