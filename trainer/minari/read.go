package minari

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/kubernasium/kubernasium/envs/space"
)

// Read returns the episodes of the dataset in a folder. Their spaces must be the environment's.
func Read(folder string, obs, act space.Space) ([]Episode, error) {
	m, err := readMetadata(folder)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkNamed("observation space", m.ObservationSpace, obs), checkNamed("action space", m.ActionSpace, act)); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	episodes, steps := make([]Episode, m.Episodes), 0
	for i := range episodes {
		dir := filepath.Join(folder, "data", strconv.Itoa(i))
		if episodes[i], err = readFolder(dir, obs, act); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if (episodes[i].Mask == nil) != (episodes[0].Mask == nil) {
			return nil, fmt.Errorf("%s: some episodes have action masks and others not", folder)
		}
		steps += len(episodes[i].Reward)
	}
	if steps != m.Steps {
		return nil, fmt.Errorf("%s: the episodes have %d steps, and the metadata %d", folder, steps, m.Steps)
	}
	return episodes, nil
}

// checkNamed checks a space that the metadata may omit.
func checkNamed(what, text string, s space.Space) error {
	if text == "" {
		return nil
	}
	return check(what, text, s)
}

// readFolder reads an episode from its folder.
func readFolder(dir string, obs, act space.Space) (Episode, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Episode{}, err
	}
	e := Episode{}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !strings.HasSuffix(entry.Name(), "."+format) {
			continue
		}
		if e.Reward != nil {
			return e, errors.New("two files of one episode")
		}
		f, err := os.Open(path)
		if err != nil {
			return e, err
		}
		e, err = readEpisode(f, obs, act)
		if err := errors.Join(err, f.Close()); err != nil {
			return e, fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	if e.Reward == nil {
		return e, fmt.Errorf("no file *.%s", format)
	}
	return e, nil
}

// readEpisode reads an episode's file.
func readEpisode(r ipc.ReadAtSeeker, obs, act space.Space) (e Episode, err error) {
	// The library panics on some damaged files, and verify panics on offsets outside the file.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("no file of the Arrow IPC format: %v", p)
		}
	}()
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return e, err
	}
	if err := verify(r, size); err != nil {
		return e, fmt.Errorf("no file of the Arrow IPC format: %w", err)
	}
	f, err := ipc.NewFileReader(r)
	if err != nil {
		return e, fmt.Errorf("no file of the Arrow IPC format: %w", err)
	}
	defer f.Close()
	masks := make([]float32, 0)
	var action, terminated, truncated []float32
	for {
		batch, err := f.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return e, err
		}
		n := int(batch.NumRows())
		if n < 0 || len(e.Reward)+n > maxRows {
			return e, fmt.Errorf("%d rows or more, want at most %d", n, maxRows)
		}
		for _, c := range []struct {
			name string
			s    space.Space
			to   *[]float32
		}{{"observations", obs, &e.Obs}, {"actions", act, &action}, {"terminations", space.Discrete{N: 2}, &terminated}, {"truncations", space.Discrete{N: 2}, &truncated}} {
			if err := appendColumn(c.to, batch, c.name, c.s, n); err != nil {
				return e, err
			}
		}
		if err := appendRewards(&e.Reward, batch, n); err != nil {
			return e, err
		}
		if err := appendMasks(&masks, batch, space.MaskSize(act), n); err != nil {
			return e, err
		}
	}
	return e.finish(action, terminated, truncated, masks, obs, act)
}

// finish removes the padding and checks the episode.
func (e Episode) finish(action, terminated, truncated, masks []float32, obs, act space.Space) (Episode, error) {
	n := len(e.Reward) - 1
	if n < 1 {
		return e, fmt.Errorf("%d rows, want at least 2: a step, and the last observation", n+1)
	}
	e.Reward, e.Action = e.Reward[:n], action[:n*act.Size()]
	e.Terminated, e.Truncated = make([]bool, n), make([]bool, n)
	for i := range n {
		e.Terminated[i], e.Truncated[i] = terminated[i] != 0, truncated[i] != 0
		if ended := e.Terminated[i] || e.Truncated[i]; ended != (i == n-1) {
			return e, fmt.Errorf("step %d of %d: the episode's end is %v", i, n, ended)
		}
		if a := e.Action[i*act.Size() : (i+1)*act.Size()]; !inSpace(act, a) {
			return e, fmt.Errorf("step %d: the action %v is not in the environment's space", i, a)
		}
	}
	for i, x := range e.Obs {
		if x-x != 0 {
			return e, fmt.Errorf("observation %d is %v at index %d", i/obs.Size(), x, i%obs.Size())
		}
	}
	switch size := space.MaskSize(act); {
	case len(masks) == 0:
	case len(masks) != (n+1)*size:
		return e, fmt.Errorf("some rows have no %s", maskName)
	default:
		e.Mask = make([]bool, len(masks))
		for i, x := range masks {
			e.Mask[i] = x != 0
		}
	}
	return e, nil
}

// inSpace reports whether an action is in the space. Actions of a Box may exceed its bounds, because
// environments clip them.
func inSpace(act space.Space, a []float32) bool {
	if _, ok := act.(space.Box); !ok {
		return act.Contains(a)
	}
	for _, x := range a {
		if x-x != 0 {
			return false
		}
	}
	return true
}

// column returns a column of n rows without nulls.
func column(batch arrow.RecordBatch, name string) (arrow.Array, error) {
	i := batch.Schema().FieldIndices(name)
	if len(i) != 1 {
		return nil, fmt.Errorf("%d columns %q, want 1", len(i), name)
	}
	return batch.Column(i[0]), nil
}

// appendColumn appends the n values of a column, flattened as in the space.
func appendColumn(to *[]float32, batch arrow.RecordBatch, name string, s space.Space, n int) error {
	c, err := column(batch, name)
	if err != nil {
		return err
	}
	from := len(*to)
	*to = append(*to, make([]float32, n*s.Size())...)
	if err := decode(c, s, (*to)[from:], s.Size(), 0); err != nil {
		return fmt.Errorf("column %s: %w", name, err)
	}
	return nil
}

func appendRewards(to *[]float64, batch arrow.RecordBatch, n int) error {
	c, err := column(batch, "rewards")
	if err != nil {
		return err
	}
	at, err := numbers(c)
	if err != nil {
		return fmt.Errorf("column rewards: %w", err)
	}
	for i := range n {
		*to = append(*to, at(i))
	}
	return nil
}

// appendMasks appends the action masks of a batch, if it has any.
func appendMasks(to *[]float32, batch arrow.RecordBatch, size, n int) error {
	if size == 0 || !batch.Schema().HasField("infos") {
		return nil
	}
	c, err := column(batch, "infos")
	if err != nil {
		return err
	}
	infos, ok := c.(*array.Struct)
	if !ok {
		return fmt.Errorf("column infos of type %s, want a struct", c.DataType())
	}
	i, ok := infos.DataType().(*arrow.StructType).FieldIdx(maskName)
	if !ok {
		return nil
	}
	from := len(*to)
	*to = append(*to, make([]float32, n*size)...)
	if err := decode(infos.Field(i), space.MultiBinary{N: size}, (*to)[from:], size, 0); err != nil {
		return fmt.Errorf("column infos, part %s: %w", maskName, err)
	}
	return nil
}

// decode writes the values of an array of the space to rows of dst, stride apart, from an offset on.
func decode(a arrow.Array, s space.Space, dst []float32, stride, offset int) error {
	if dict, ok := s.(space.Dict); ok {
		parts, ok := a.(*array.Struct)
		if !ok {
			return fmt.Errorf("type %s, want a struct", a.DataType())
		}
		for _, f := range dict.Fields {
			i, ok := parts.DataType().(*arrow.StructType).FieldIdx(f.Key)
			if !ok {
				return fmt.Errorf("no part %q", f.Key)
			}
			if err := decode(parts.Field(i), f.Space, dst, stride, offset); err != nil {
				return fmt.Errorf("part %s: %w", f.Key, err)
			}
			offset += f.Space.Size()
		}
		return nil
	}
	if a.NullN() > 0 {
		return fmt.Errorf("%d rows are null", a.NullN())
	}
	size, from := s.Size(), func(i int) int { return i }
	if _, ok := s.(space.Discrete); !ok {
		list, ok := a.(*array.FixedSizeList)
		if !ok {
			return fmt.Errorf("type %s, want a list of %d numbers: images and texts are not read", a.DataType(), size)
		}
		if n := int(list.DataType().(*arrow.FixedSizeListType).Len()); n != size {
			return fmt.Errorf("lists of %d numbers, want %d", n, size)
		}
		from = func(i int) int { start, _ := list.ValueOffsets(i); return int(start) }
		a = list.ListValues()
	}
	at, err := numbers(a)
	if err != nil {
		return err
	}
	for i := range len(dst) / stride {
		row := dst[i*stride+offset:]
		for k := range size {
			row[k] = float32(at(from(i) + k))
		}
	}
	return nil
}

// numbers returns the elements of an array of numbers.
func numbers(a arrow.Array) (func(i int) float64, error) {
	if a.NullN() > 0 {
		return nil, fmt.Errorf("%d elements are null", a.NullN())
	}
	switch a := a.(type) {
	case *array.Float32:
		return func(i int) float64 { return float64(a.Value(i)) }, nil
	case *array.Float64:
		return a.Value, nil
	case *array.Int8:
		return func(i int) float64 { return float64(a.Value(i)) }, nil
	case *array.Int16:
		return func(i int) float64 { return float64(a.Value(i)) }, nil
	case *array.Int32:
		return func(i int) float64 { return float64(a.Value(i)) }, nil
	case *array.Int64:
		return func(i int) float64 { return float64(a.Value(i)) }, nil
	case *array.Uint8:
		return func(i int) float64 { return float64(a.Value(i)) }, nil
	case *array.Boolean:
		return func(i int) float64 {
			if a.Value(i) {
				return 1
			}
			return 0
		}, nil
	}
	return nil, fmt.Errorf("elements of type %s, want numbers", a.DataType())
}
