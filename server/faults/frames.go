package faults

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

type message = map[string]any

// requests are valid in a session of the newest version with a vector of two environments, eid 1, whose actions are
// numbers, and a snapshot of id 1.
var requests = []message{
	{"t": "make", "env": "classic/CartPole-v1", "n": 2, "options": message{}, "autoreset": "SAME_STEP", "max_episode_steps": 7, "threads": 2},
	{"t": "make", "env": "k8s/GangWindow-v0", "n": 1, "options": message{"steps": 10, "windows": 2}},
	{"t": "reset", "eid": 1, "seed": []any{1, nil}, "mask": []bool{true, false}, "options": message{}},
	{"t": "reset", "eid": 1, "seed": 5, "dl": 50},
	{"t": "step", "eid": 1, "a": []int{0, 1}},
	{"t": "step", "eid": 1, "a": msgpack.RawMessage{0xc8, 0, 24, 0x4e, 0, 7, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}},
	{"t": "step", "eid": 1, "policy": "pole-angle"},
	{"t": "policy", "eid": 1, "name": "random", "seed": 3},
	{"t": "render", "eid": 1, "mode": "rgb_array", "idx": 1},
	{"t": "stats", "eid": 1, "dl": 5},
	{"t": "rollout", "eid": 1, "name": "random", "steps": 5, "arrays": true, "seed": 1},
	{"t": "rollout", "eid": 1, "name": "pole-angle", "episodes": 1, "dl": 20},
	{"t": "snapshot", "eid": 1},
	{"t": "restore", "eid": 1, "snap": 1},
	{"t": "forget", "eid": 1, "snap": 1},
	{"t": "fork", "eid": 1, "from": 0, "to": []int{1}},
	{"t": "cancel", "of": 3},
	{"t": "close", "eid": 1},
	{"t": "envs", "filter": "Cart"},
	{"t": "ping", "ts": message{"a": []any{nil, 1.5, "x"}}},
	{"t": "hello", "ver": []int{1, 4}, "caps": []string{"resume"}, "resume": message{"sid": "00", "token": "x", "last": 3}},
}

// codes start MessagePack values that decoders handle wrongly most easily: containers and strings with false lengths,
// and numbers at the limits of their types.
var codes = [][]byte{
	{0xc0}, {0xc1}, {0xc2}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0xdf, 0x7f, 0xff, 0xff, 0xff}, {0xdb, 0xff, 0xff, 0xff, 0xf0}, {0xc6, 0, 0xff, 0xff, 0xff},
	{0xc9, 0, 0, 0, 8, 0x4e}, {0xd8, 0x4e}, {0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0},
	{0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1}, {0xca, 0x7f, 0x80, 0, 0}, {0x9f}, {0x8f}, {0xa0}, {0xff},
}

// Frames generates requests of the protocol with random changes: most are malformed, some only semantically wrong.
type Frames struct {
	rng *rand.Rand
	buf bytes.Buffer
}

// NewFrames returns Frames that draw from seed.
func NewFrames(seed uint64) *Frames { return &Frames{rng: rand.New(rand.NewPCG(seed, 1))} }

// Next returns a randomly changed request of the given id. The frame belongs to the caller.
func (f *Frames) Next(id uint64) []byte {
	m := maps.Clone(requests[f.rng.IntN(len(requests))])
	m["id"] = id
	f.buf.Reset()
	enc := msgpack.NewEncoder(&f.buf)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(m); err != nil {
		panic("faults: unreachable: " + err.Error()) // all requests can be encoded
	}
	data := bytes.Clone(f.buf.Bytes())
	for range f.rng.IntN(4) {
		data = f.change(data)
	}
	return data
}

// change makes one random change.
func (f *Frames) change(data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	at := f.rng.IntN(len(data))
	switch f.rng.IntN(8) {
	case 0:
		data[at] ^= 1 << f.rng.IntN(8)
	case 1:
		data[at] = byte(f.rng.Uint32())
	case 2:
		data = data[:at]
	case 3: // duplicate a part
		end := at + f.rng.IntN(len(data)-at)
		data = slices.Insert(data, at, bytes.Clone(data[at:end])...)
	case 4: // delete a part
		data = slices.Delete(data, at, min(len(data), at+1+f.rng.IntN(8)))
	case 5, 6: // overwrite with or insert another value
		code := codes[f.rng.IntN(len(codes))]
		if f.rng.IntN(2) == 0 {
			data = slices.Delete(data, at, min(len(data), at+len(code)))
		}
		data = slices.Insert(data, at, code...)
	case 7: // replace the end by another end
		data = append(data[:at:at], data[f.rng.IntN(len(data)):]...)
	}
	return data
}
