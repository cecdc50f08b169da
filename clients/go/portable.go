package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// savedMagic starts the bytes of State. Its number changes with the format.
const savedMagic = "kparts1\n"

// State returns the state of all environments as bytes. [VecEnv.LoadState] restores it in another vector made with
// equal arguments, also in another process and at another server of the same version. The error wraps [envs.ErrNoState]
// if the environments have no state now; see PROTOCOL.md, section 6.21.
func (v *VecEnv) State(ctx context.Context) ([]byte, error) {
	return appendState(ctx, []byte(savedMagic), v)
}

// State is [VecEnv.State] of all parts.
func (j *Joined) State(ctx context.Context) ([]byte, error) {
	return appendState(ctx, []byte(savedMagic), j.parts...)
}

func appendState(ctx context.Context, b []byte, parts ...*VecEnv) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, v := range parts {
		b = binary.AppendUvarint(b, uint64(v.layout.N))
	}
	first := 0 // row of the part's first environment
	for _, v := range parts {
		switch {
		case v.closed:
			return nil, envs.ErrClosed
		case !v.portable:
			return nil, fmt.Errorf("%w: %s at %s", envs.ErrNoState, v.spec.ID, v.server)
		}
		r := &v.rows
		for i := range v.layout.N {
			if r.seeded[i] && !r.running[i] && !r.ended[i] {
				return nil, fmt.Errorf("%w: environment %d must be reset", envs.ErrNoState, first+i)
			}
			b = append(b, bit(r.seeded[i], 0)|bit(r.running[i], 1)|bit(r.ended[i], 2))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.ret[i]))
			b = binary.LittleEndian.AppendUint64(b, uint64(r.length[i]))
		}
		state, err := v.askState(ctx)
		if err != nil {
			return nil, countedFrom(first, err)
		}
		first += v.layout.N
		b = append(binary.AppendUvarint(b, uint64(len(state))), state...)
	}
	return b, nil
}

func bit(x bool, at int) byte {
	if x {
		return 1 << at
	}
	return 0
}

// rowBytes is the length of a row in the bytes of State.
const rowBytes = 1 + 8 + 8

// StateSizes returns the number of environments in each part of the vector whose State returned data, for
// [Options.Sizes]. Its error wraps [envs.ErrBadState].
func StateSizes(data []byte) ([]int, error) {
	sizes, _, err := stateSizes(data)
	return sizes, err
}

func stateSizes(data []byte) (sizes []int, rest []byte, err error) {
	bad := fmt.Errorf("%w: %d bytes that no vector has written", envs.ErrBadState, len(data))
	rest, ok := bytes.CutPrefix(data, []byte(savedMagic))
	next := func() int {
		x, n := binary.Uvarint(rest)
		if n <= 0 || x == 0 || x > math.MaxInt32 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return int(x)
	}
	for range next() {
		if sizes = append(sizes, next()); !ok {
			break
		}
	}
	if !ok {
		return nil, nil, bad
	}
	return sizes, rest, nil
}

// LoadState restores the state that State returned as data, and returns the batch without final observations. From
// there, equal actions lead to equal batches. The error wraps [envs.ErrBadState] if data is not a state of such a
// vector or comes from a server of another version; then the environments must be reset.
func (v *VecEnv) LoadState(ctx context.Context, data []byte) (*envs.Batch, error) {
	return v.batch, loadState(ctx, data, v)
}

// LoadState is [VecEnv.LoadState] for a vector with parts of the same sizes.
func (j *Joined) LoadState(ctx context.Context, data []byte) (*envs.Batch, error) {
	return j.batch, loadState(ctx, data, j.parts...)
}

func loadState(ctx context.Context, data []byte, parts ...*VecEnv) error {
	sizes, rest, err := stateSizes(data)
	if err != nil {
		return err
	}
	if len(sizes) != len(parts) {
		return fmt.Errorf("%w: %d parts, want %d", envs.ErrBadState, len(sizes), len(parts))
	}
	rows, states := make([]rows, len(parts)), make([][]byte, len(parts))
	for k, v := range parts {
		n := v.layout.N
		if sizes[k] != n || len(rest) < n*rowBytes {
			return fmt.Errorf("%w: part %d has %d environments and %d bytes, want %d environments", envs.ErrBadState, k, sizes[k], len(rest), n)
		}
		rows[k] = readRows(rest[:n*rowBytes], n)
		rest = rest[n*rowBytes:]
		size, m := binary.Uvarint(rest)
		if m <= 0 || size > uint64(len(rest)-m) {
			return fmt.Errorf("%w: the bytes end too early", envs.ErrBadState)
		}
		states[k], rest = rest[m:m+int(size)], rest[m+int(size):]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the end", envs.ErrBadState, len(rest))
	}
	first := 0
	for k, v := range parts {
		if err := v.load(ctx, states[k]); err != nil {
			return countedFrom(first, err)
		}
		v.rows = rows[k]
		first += v.layout.N
	}
	return nil
}

func readRows(data []byte, n int) rows {
	r := newRows(n)
	for i := range n {
		row := data[i*rowBytes:]
		r.seeded[i], r.running[i], r.ended[i] = row[0]&1 != 0, row[0]&2 != 0, row[0]&4 != 0
		r.ret[i] = math.Float64frombits(binary.LittleEndian.Uint64(row[1:]))
		r.length[i] = int64(binary.LittleEndian.Uint64(row[9:]))
	}
	return r
}

// load sends a state to the server, which replaces the journal.
func (v *VecEnv) load(ctx context.Context, state []byte) error {
	switch {
	case v.closed:
		return envs.ErrClosed
	case !v.portable:
		return fmt.Errorf("%w: %s at %s has none", envs.ErrBadState, v.spec.ID, v.server)
	}
	wire.EncodeLoad(v.w, v.nextID(), v.eid, state)
	v.journal.restart()
	err := v.send(ctx)
	if err == nil {
		err = v.receive(ctx, wire.TypeLoad+wire.OK)
	}
	if err != nil {
		v.rows.invalidate()
		v.journal.partial = true
		return err
	}
	return v.protocolError(v.layout.DecodeState(&v.frame, (*wire.Rows)(v.batch)))
}
