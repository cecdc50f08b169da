package dqn

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// bufferTensor holds the replay buffer in a checkpoint: the bytes of a safetensors file with its
// arrays, compressed by zlib.
const bufferTensor = models.StatePrefix + "replay_buffer"

// HasReplayBuffer reports whether a checkpoint holds the replay buffer, without which training
// does not resume bit for bit.
func HasReplayBuffer(f models.File) bool {
	_, err := f.Tensor(bufferTensor)
	return err == nil || replay.Saved(f)
}

// ReplayBufferBytes returns how many bytes of a checkpoint its replay buffer takes, 0 if it has
// none.
func ReplayBufferBytes(f models.File) int {
	t, err := f.Tensor(bufferTensor)
	if err != nil {
		return 0
	}
	data, _ := t.Data.([]uint8)
	return len(data)
}

// saveBuffer adds the replay buffer to a checkpoint.
func (l *Learner) saveBuffer(f *models.File) error {
	var arrays models.File
	l.buf.Save(&arrays)
	var buf bytes.Buffer
	// Most of a buffer are observations, of which the fastest level saves nearly what others do.
	z, err := zlib.NewWriterLevel(&buf, zlib.BestSpeed)
	if err != nil {
		return err
	}
	if err := safetensors.Write(z, arrays.Tensors, nil); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	f.Put(safetensors.Tensor{Name: bufferTensor, Shape: []int{buf.Len()}, Data: buf.Bytes()})
	return nil
}

// loadBuffer returns the replay buffer of a checkpoint, or an empty one if it has none.
func (l *Learner) loadBuffer(f models.File) (*replay.Buffer, error) {
	t, err := f.Tensor(bufferTensor)
	if err != nil {
		if replay.Saved(f) { // not compressed, as earlier versions wrote it
			return l.buf.Load(f)
		}
		return l.buf.Empty(), nil
	}
	arrays, err := l.expandBuffer(t)
	if err != nil {
		return nil, fmt.Errorf("dqn: load: %w: replay buffer: %w", models.ErrMismatch, err)
	}
	return l.buf.Load(arrays)
}

// expandBuffer returns the arrays of a tensor that saveBuffer wrote. It reads no more than a
// buffer of this learner can have.
func (l *Learner) expandBuffer(t safetensors.Tensor) (models.File, error) {
	data, err := safetensors.As[uint8](t)
	if err != nil {
		return models.File{}, err
	}
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return models.File{}, err
	}
	const header = 1 << 20 // and the few numbers that are not of slots
	arrays, err := safetensors.Read(io.LimitReader(z, l.buf.Bytes()+header))
	if err != nil {
		return models.File{}, err
	}
	return models.File{Tensors: arrays.Tensors}, z.Close()
}
