package replay

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// compressedTensor holds a buffer in a checkpoint: the bytes of a safetensors file with its arrays,
// compressed by zlib.
const compressedTensor = models.StatePrefix + "replay_buffer"

// InCheckpoint reports whether a checkpoint holds a buffer, without which training does not resume
// bit for bit.
func InCheckpoint(f models.File) bool {
	_, err := f.Tensor(compressedTensor)
	return err == nil || Saved(f)
}

// CompressedBytes returns the size in bytes of a checkpoint's compressed buffer, 0 if it has none.
func CompressedBytes(f models.File) int {
	t, err := f.Tensor(compressedTensor)
	if err != nil {
		return 0
	}
	data, _ := t.Data.([]uint8)
	return len(data)
}

// SaveCompressed adds the buffer to a checkpoint, compressed.
func (b *Buffer) SaveCompressed(f *models.File) error {
	var arrays models.File
	b.Save(&arrays)
	var buf bytes.Buffer
	// Observations are most of a buffer, and the fastest level compresses them nearly as well as slower ones.
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
	f.Put(safetensors.Tensor{Name: compressedTensor, Shape: []int{buf.Len()}, Data: buf.Bytes()})
	return nil
}

// LoadCompressed is Load for a checkpoint of SaveCompressed. It returns an empty buffer if the
// checkpoint has none.
func (b *Buffer) LoadCompressed(f models.File) (*Buffer, error) {
	t, err := f.Tensor(compressedTensor)
	if err != nil {
		if Saved(f) { // not compressed, from an earlier version
			return b.Load(f)
		}
		return b.Empty(), nil
	}
	arrays, err := b.decompress(t)
	if err != nil {
		return nil, fmt.Errorf("replay: load: %w: replay buffer: %w", models.ErrMismatch, err)
	}
	return b.Load(arrays)
}

// decompress returns the arrays of a tensor that SaveCompressed wrote. It reads no more than a
// buffer of b's size can have.
func (b *Buffer) decompress(t safetensors.Tensor) (models.File, error) {
	data, err := safetensors.As[uint8](t)
	if err != nil {
		return models.File{}, err
	}
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return models.File{}, err
	}
	const header = 1 << 20 // for everything but slots
	arrays, err := safetensors.Read(io.LimitReader(z, b.Bytes()+header))
	if err != nil {
		return models.File{}, err
	}
	return models.File{Tensors: arrays.Tensors}, z.Close()
}
