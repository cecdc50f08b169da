package envs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"sync"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

var (
	// ErrNoState means that environments have no state that bytes can hold now. Errors of [Vec.AppendState] wrap it.
	ErrNoState = errors.New("envs: the environments have no portable state")
	// ErrBadState means that bytes are not a state of such environments. Errors of [Vec.LoadState] wrap it.
	ErrBadState = errors.New("envs: not a state of these environments")
)

// A Resumer is a [Task] that writes the changes of an episode, for [Vec.AppendState]. Loading such a state takes the
// time of a Begin, regardless of the episode's length; other tasks replay all of its actions.
type Resumer interface {
	// AppendEpisode appends to dst what the episode has changed in the Task and in s since Begin, as far as later calls
	// of the Task depend on it.
	AppendEpisode(dst []byte, s *cluster.State) ([]byte, error)

	// ResumeEpisode sets the Task and c to their state when a Task with the same options wrote data. It is called after
	// a Begin with the same state of the generator; the generator's current state is set afterwards. ResumeEpisode
	// checks data; after an error, the episode needs a Reset.
	ResumeEpisode(ctx context.Context, c cluster.Cluster, data []byte) error
}

// stateMagic begins a state. Its number changes with the format.
const stateMagic = "kstate1\n"

// Bounds of the actions, in numbers, that a Vec with VecOptions.Portable keeps of an episode without a time limit.
const (
	mostKept  = 1 << 18 // of all environments
	leastKept = 1 << 12 // times the size of an action: of each environment, regardless of their number
	mostRow   = 1 << 20 // of an environment with a time limit
)

// kept returns the maximum number of values in the actions that an environment keeps for its state.
func kept(n, nAct, limit int) int {
	if limit > 0 {
		return min(limit, mostRow/max(1, nAct)) * nAct
	}
	return max(mostKept/n, leastKept*nAct)
}

// keptBytes estimates the memory that n environments keep for their state.
func keptBytes(n, nAct, limit int) int64 { return int64(n) * SliceSize[float32](kept(n, nAct, limit)) }

// stateRow is the state of an environment: the state of the generator at the episode's start, and the later actions or
// the data of a [Resumer].
type stateRow struct {
	begun   []byte // nil if it was never reset
	options map[string]any
	actions []byte
	size    int // bytes of each number: 1, or 4 of a float32
	resumed *resumedRow
	flags   byte // terminated, truncated, invalid, from the lowest bit
	reward  float64
	ret     float64
	length  uint64
}

// resumedRow is the episode of a [Resumer].
type resumedRow struct {
	now     []byte // state of the generator
	steps   uint64
	ret     float64
	ended   bool
	episode []byte
}

// AppendState appends the state of all environments to dst. [Vec.LoadState] restores it in another Vec, even in another
// process of the same version. Unless the task is a [Resumer], its size and the time of LoadState grow with the steps
// since each environment's last reset. The state holds no policies, no [Saved] and no final observations.
//
// The error wraps [ErrNoState] if v was made with neither VecOptions.Portable nor Log, if an environment has failed and
// was not reset since (and stepped, if failures are isolated), if an episode has too many actions, or if the state
// would exceed most bytes.
func (v *Vec) AppendState(dst []byte, most int) ([]byte, error) {
	for i, e := range v.envs {
		switch {
		case v.closed:
			return nil, ErrClosed
		case !e.logged:
			return nil, fmt.Errorf("%w: their actions are not recorded", ErrNoState)
		case e.begun == nil && !e.ended: // never reset
		case !e.running && !e.ended, e.begun == nil, v.repair != nil && v.repair.failures[i] > 0:
			return nil, fmt.Errorf("%w: environment %d has failed; reset and step it", ErrNoState, i)
		case e.planned && !e.resumes():
			return nil, fmt.Errorf("%w: environment %d has taken steps of a baseline that its actions do not tell, in this episode", ErrNoState, i)
		case e.cut && !e.resumes():
			return nil, fmt.Errorf("%w: the episode of environment %d has more than %d actions", ErrNoState, i, e.keep/max(1, v.nAct))
		}
	}
	b := append(dst, stateMagic...)
	b = binary.LittleEndian.AppendUint32(b, v.checksum())
	b = appendBytes(b, []byte(v.spec.ID))
	b = append(b, byte(v.mode))
	for _, x := range []int{len(v.envs), v.nAct, v.envs[0].limit} {
		b = binary.AppendUvarint(b, uint64(x))
	}
	for i, e := range v.envs {
		var err error
		if b, err = v.appendRow(b, i, e); err != nil {
			return nil, err
		}
	}
	if n := len(b) - len(dst); n > most {
		return nil, fmt.Errorf("%w: it takes %d bytes, want at most %d", ErrNoState, n, most)
	}
	return b, nil
}

func (v *Vec) appendRow(b []byte, i int, e *Env) ([]byte, error) {
	b = appendBytes(b, e.begun)
	if e.begun == nil {
		return b, nil
	}
	var options []byte
	if len(e.opts) > 0 {
		var err error
		if options, err = json.Marshal(e.opts); err != nil {
			return nil, fmt.Errorf("%w: options of environment %d: %w", ErrNoState, i, err)
		}
	}
	b = appendBytes(b, options)
	if r, ok := e.task.(Resumer); ok {
		var err error
		if b, err = e.appendEpisode(b, r); err != nil {
			return nil, fmt.Errorf("%w: environment %d: %w", ErrNoState, i, err)
		}
	} else {
		b = binary.AppendUvarint(b, uint64(len(e.log)))
		b = appendActions(b, e.log)
	}
	bt := v.batch
	b = append(b, bit(bt.Terminated[i], 0)|bit(bt.Truncated[i], 1)|bit(bt.Invalid[i], 2))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(bt.Reward[i]))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(bt.EpisodeReturn[i]))
	return binary.AppendUvarint(b, uint64(bt.EpisodeLength[i])), nil
}

// appendEpisode appends the episode instead of its actions.
func (e *Env) appendEpisode(b []byte, r Resumer) ([]byte, error) {
	now, err := e.src.MarshalBinary()
	if err != nil {
		return nil, err
	}
	episode, err := r.AppendEpisode(nil, e.c.State())
	if err != nil {
		return nil, err
	}
	b = append(b, 0, asEpisode) // no actions
	b = appendBytes(b, now)
	b = binary.AppendUvarint(b, uint64(e.steps))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.ret))
	b = append(b, bit(e.ended, 0))
	return appendBytes(b, episode), nil
}

func bit(x bool, at int) byte {
	if x {
		return 1 << at
	}
	return 0
}

func appendBytes(b, data []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// Encodings of actions: numbers from 0 to 255 as bytes, the most frequent case, or all as float32; or the data of a
// [Resumer].
const (
	asBytes = iota
	asFloats
	asEpisode
)

func appendActions(b []byte, actions []float32) []byte {
	at := len(b)
	b = append(b, asBytes)
	for _, a := range actions {
		small := uint8(max(0, min(a, 255)))
		if math.Float32bits(float32(small)) != math.Float32bits(a) {
			b = append(b[:at], asFloats)
			for _, a := range actions {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(a))
			}
			return b
		}
		b = append(b, small)
	}
	return b
}

// checksum returns a checksum of the observations, masks and infos of the last Batch.
func (v *Vec) checksum() uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum, buf := uint32(0), make([]byte, 0, 8<<10)
	flush := func(most int) {
		if len(buf) > most {
			sum, buf = crc32.Update(sum, table, buf), buf[:0]
		}
	}
	for _, x := range v.batch.Obs {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
		flush(cap(buf) - 8)
	}
	for _, x := range v.batch.Info {
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
		flush(cap(buf) - 8)
	}
	for _, x := range v.batch.Mask {
		buf = append(buf, bit(x, 0))
		flush(cap(buf) - 8)
	}
	flush(0)
	return sum
}

// LoadState restores the state that [Vec.AppendState] of another Vec returned as data, and returns its Batch without
// the final observations. seeded reports the environments that have a random stream. LoadState replays the running
// episodes, or lets a [Resumer] resume them.
//
// The error wraps [ErrBadState] if data is not a state of a Vec made in the same way, or if the replayed episodes
// differ; or it is that of ctx. After an error other than one of the check of data, all environments must be reset.
func (v *Vec) LoadState(ctx context.Context, data []byte) (b *Batch, seeded []bool, err error) {
	if v.closed {
		return nil, nil, ErrClosed
	}
	sum, rows, err := v.parseState(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	if err = v.loadRows(ctx, rows); err == nil && v.checksum() != sum {
		err = errors.New("the episodes take another course here: the program has another version, or other options")
	}
	if err != nil {
		for _, e := range v.envs {
			e.running, e.ended = false, false
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	for _, r := range rows {
		seeded = append(seeded, r.begun != nil)
	}
	return v.batch, seeded, nil
}

// loadRows loads all rows in parallel, since episodes may be long even if single steps are short.
func (v *Vec) loadRows(ctx context.Context, rows []stateRow) error {
	errs := make([]error, len(rows))
	var all sync.WaitGroup
	workers := workers(ctx, min(len(rows), runtime.GOMAXPROCS(0)))
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(rows); i += workers {
				if err := v.caught(func() error { return v.loadRow(ctx, i, &rows[i]) }); err != nil {
					errs[i] = fmt.Errorf("environment %d: %w", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// loadRow sets environment i to the state r.
func (v *Vec) loadRow(ctx context.Context, i int, r *stateRow) error {
	e, b := v.envs[i], v.batch
	e.copies++ // so that policies start over
	if v.repair != nil {
		b.Failed[i], v.repair.failures[i] = nil, 0
	}
	b.Terminated[i], b.Truncated[i], b.Invalid[i] = r.flags&1 != 0, r.flags&2 != 0, r.flags&4 != 0
	b.Reward[i], b.EpisodeReturn[i], b.EpisodeLength[i] = r.reward, r.ret, int64(r.length)
	if r.begun == nil {
		e.src.Seed(0)
		e.running, e.ended, e.begun = false, false, nil
		clear(b.Obs[i*v.nObs : (i+1)*v.nObs])
		clear(b.Mask[i*v.nMask : (i+1)*v.nMask])
		clear(b.Info[i*v.nInfo : (i+1)*v.nInfo])
		return nil
	}
	if err := e.src.UnmarshalBinary(r.begun); err != nil {
		return err
	}
	if err := e.Reset(ctx, ResetOptions{Options: r.options}); err != nil {
		return err
	}
	if r.resumed != nil {
		if err := e.resume(ctx, r.resumed); err != nil {
			return err
		}
		v.observeRow(i, b.Obs, b.Mask, b.Info)
		return nil
	}
	action := make([]float32, v.nAct)
	if err := ctx.Err(); err != nil {
		return err
	}
	for a := r.actions; len(a) > 0; a = a[v.nAct*r.size:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		for k := range action {
			if r.size == 1 {
				action[k] = float32(a[k])
			} else {
				action[k] = math.Float32frombits(binary.LittleEndian.Uint32(a[4*k:]))
			}
		}
		if _, err := e.Step(ctx, action); err != nil {
			return err
		}
	}
	v.observeRow(i, b.Obs, b.Mask, b.Info)
	return nil
}

// resumes reports whether the task writes its episodes.
func (e *Env) resumes() bool {
	_, ok := e.task.(Resumer)
	return ok
}

// resume sets the episode that has begun to the state r.
func (e *Env) resume(ctx context.Context, r *resumedRow) error {
	task, ok := e.task.(Resumer)
	switch {
	case !ok:
		return errors.New("an episode without its actions, which this task cannot resume")
	case r.steps > math.MaxInt32 || e.limit > 0 && r.steps > uint64(e.limit):
		return fmt.Errorf("%d steps", r.steps)
	}
	if err := task.ResumeEpisode(ctx, e.c, r.episode); err != nil {
		return err
	}
	e.steps, e.ret, e.ended, e.running = int(r.steps), r.ret, r.ended, !r.ended
	e.cut = true // its actions are unknown
	return e.src.UnmarshalBinary(r.now)
}

// parseState parses a state without changing v.
func (v *Vec) parseState(data []byte) (sum uint32, rows []stateRow, err error) {
	p := stateParser{data: data}
	if !bytes.Equal(p.take(len(stateMagic)), []byte(stateMagic)) {
		return 0, nil, errors.New("the bytes are none of this version")
	}
	sum = uint32(p.fixed(4))
	id, mode := string(p.bytes()), p.fixed(1)
	n, nAct, limit := p.uvarint(), p.uvarint(), p.uvarint()
	if p.bad {
		return 0, nil, errors.New("the bytes end too early")
	}
	if id != v.spec.ID || mode != uint64(v.mode) || n != uint64(len(v.envs)) || nAct != uint64(v.nAct) || limit != uint64(v.envs[0].limit) {
		return 0, nil, fmt.Errorf("%d × %.100q in mode %d, actions of %d numbers and a limit of %d steps; want %d × %q, %d, %d and %d",
			n, id, mode, nAct, limit, len(v.envs), v.spec.ID, v.mode, v.nAct, v.envs[0].limit)
	}
	rows = make([]stateRow, n)
	for i := range rows {
		if err := p.row(&rows[i], v.nAct); err != nil {
			return 0, nil, fmt.Errorf("environment %d: %w", i, err)
		}
	}
	if len(p.data) > 0 {
		return 0, nil, fmt.Errorf("%d bytes after the end", len(p.data))
	}
	return sum, rows, nil
}

// stateParser parses a state. After the end of its data it returns zeros, and bad is true.
type stateParser struct {
	data []byte
	bad  bool
}

func (p *stateParser) take(n int) []byte {
	if n < 0 || n > len(p.data) {
		p.bad, p.data = true, nil
		return nil
	}
	b := p.data[:n]
	p.data = p.data[n:]
	return b
}

func (p *stateParser) fixed(n int) (x uint64) {
	for i, b := range p.take(n) {
		x |= uint64(b) << (8 * i)
	}
	return x
}

func (p *stateParser) uvarint() uint64 {
	x, n := binary.Uvarint(p.data)
	if n <= 0 {
		p.bad, p.data = true, nil
		return 0
	}
	p.data = p.data[n:]
	return x
}

// bytes returns a slice preceded by its length.
func (p *stateParser) bytes() []byte { return p.take(int(min(p.uvarint(), math.MaxInt32))) }

func (p *stateParser) row(r *stateRow, nAct int) error {
	if r.begun = p.bytes(); len(r.begun) == 0 && !p.bad {
		r.begun = nil
		return nil
	}
	options := p.bytes()
	numbers := int(min(p.uvarint(), math.MaxInt32))
	kind := p.fixed(1)
	r.size = 1
	if kind == asFloats {
		r.size = 4
	}
	r.actions = p.take(numbers * r.size)
	var ended uint64
	if kind == asEpisode {
		r.resumed = &resumedRow{now: p.bytes(), steps: p.uvarint(), ret: math.Float64frombits(p.fixed(8))}
		ended = p.fixed(1)
		r.resumed.ended, r.resumed.episode = ended == 1, p.bytes()
	}
	r.flags = byte(p.fixed(1))
	r.reward, r.ret = math.Float64frombits(p.fixed(8)), math.Float64frombits(p.fixed(8))
	r.length = p.uvarint()
	switch {
	case p.bad:
		return errors.New("the bytes end too early")
	case kind > asEpisode:
		return fmt.Errorf("actions of encoding %d, want 0, 1 or 2", kind)
	case kind == asEpisode && (numbers > 0 || ended > 1):
		return fmt.Errorf("%d numbers for actions beside an episode that has ended %d times", numbers, ended)
	case r.flags > 7 || r.length > math.MaxInt64:
		return fmt.Errorf("flags %d and a length of %d", r.flags, r.length)
	case nAct == 0 && numbers > 0, nAct > 0 && numbers%nAct != 0:
		return fmt.Errorf("%d numbers for actions of size %d", numbers, nAct)
	}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &r.options); err != nil {
			return fmt.Errorf("options: %w", err)
		}
	}
	return nil
}
