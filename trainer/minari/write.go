package minari

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// Free returns an error unless [Write] can write the dataset, because its name is invalid or it exists.
func Free(dataset string) error {
	folder, err := Folder(dataset)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "data", metadataName)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists: name another dataset, or remove it", path)
	}
	return nil
}

// Write writes a new dataset in the folder that [Folder] returns. It is an error if the dataset exists. It
// writes metadata.json last, so that a crash leaves no incomplete dataset.
func Write(dataset string, m Meta, obs, act space.Space, episodes []Episode) error {
	folder, err := Folder(dataset)
	if err != nil {
		return err
	}
	if err := Free(dataset); err != nil {
		return err
	}
	data := filepath.Join(folder, "data")
	out := metadata{Episodes: len(episodes), Format: format, ID: m.ID, Algorithm: m.Algorithm, Version: version}
	if out.ObservationSpace, err = serialize(obs); err != nil {
		return err
	}
	if out.ActionSpace, err = serialize(act); err != nil {
		return err
	}
	if out.EnvSpec, err = envSpec(m); err != nil {
		return err
	}
	if err := models.MkdirAll(data); err != nil {
		return err
	}
	if !IsPath(dataset) {
		if err := namespaces(folder, dataset); err != nil {
			return err
		}
	}
	size := int64(0)
	for i, e := range episodes {
		n, err := writeFolder(filepath.Join(data, strconv.Itoa(i)), i, e, obs, act)
		if err != nil {
			return err
		}
		size += n
		out.Steps += len(e.Reward)
	}
	out.Size = math.Round(float64(size)/1e5) / 10
	return writeJSON(filepath.Join(data, metadataName), out)
}

// envSpec returns the environment as Gymnasium's EnvSpec, from which the Python client makes it again.
func envSpec(m Meta) (string, error) {
	kwargs := map[string]any{"env_id": m.Env}
	for name, v := range m.EnvKwargs {
		kwargs[name] = v
	}
	text, err := json.Marshal(map[string]any{
		"id": m.Env, "entry_point": "kubernasium.env:Env", "reward_threshold": nil, "nondeterministic": false, "max_episode_steps": nil,
		"order_enforce": true, "disable_env_checker": false, "kwargs": kwargs, "additional_wrappers": []any{}, "vector_entry_point": "kubernasium.vector:VectorEnv",
	})
	return string(text), err
}

// namespaces writes missing metadata of the folders between Minari's root and the dataset.
func namespaces(folder, id string) error {
	for parent, left := filepath.Dir(folder), filepath.Dir(filepath.FromSlash(id)); left != "."; parent, left = filepath.Dir(parent), filepath.Dir(left) {
		path := filepath.Join(parent, "namespace_metadata.json")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := writeJSON(path, map[string]any{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return models.WriteFileAtomic(path, func(w io.Writer) error { _, err := w.Write(text); return err })
}

// writeFolder writes an episode and returns the size of its file.
func writeFolder(dir string, id int, e Episode, obs, act space.Space) (int64, error) {
	if rows := len(e.Reward) + 1; rows > maxRows {
		return 0, fmt.Errorf("minari: episode %d has %d steps, and Minari reads at most %d", id, rows-1, maxRows-1)
	}
	if err := models.MkdirAll(dir); err != nil {
		return 0, err
	}
	path := filepath.Join(dir, "part-0."+format)
	if err := models.WriteFileAtomic(path, func(w io.Writer) error { return writeEpisode(w, e, obs, act) }); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), writeJSON(filepath.Join(dir, metadataName), episodeMetadata{ID: id, Steps: len(e.Reward)})
}

// writeEpisode writes the file of an episode.
func writeEpisode(w io.Writer, e Episode, obs, act space.Space) error {
	action := append(append([]float32(nil), e.Action...), make([]float32, act.Size())...)
	fields := []arrow.Field{
		{Name: "observations", Type: typeOf(obs)}, {Name: "actions", Type: typeOf(act)}, {Name: "rewards", Type: arrow.PrimitiveTypes.Float64},
		{Name: "terminations", Type: arrow.FixedWidthTypes.Boolean}, {Name: "truncations", Type: arrow.FixedWidthTypes.Boolean},
	}
	if e.Mask != nil {
		size := space.MaskSize(act)
		mask := arrow.Field{Name: maskName, Type: arrow.FixedSizeListOf(int32(size), arrow.PrimitiveTypes.Int8), Metadata: arrow.NewMetadata([]string{"shape"}, []string{strconv.Itoa(size)})}
		fields = append(fields, arrow.Field{Name: "infos", Type: arrow.StructOf(mask)})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range len(e.Reward) + 1 {
		appendValue(b.Field(0), obs, e.Obs[i*obs.Size():(i+1)*obs.Size()])
		appendValue(b.Field(1), act, action[i*act.Size():(i+1)*act.Size()])
		reward, terminated, truncated := 0.0, false, false
		if i < len(e.Reward) {
			reward, terminated, truncated = e.Reward[i], e.Terminated[i], e.Truncated[i]
		}
		b.Field(2).(*array.Float64Builder).Append(reward)
		b.Field(3).(*array.BooleanBuilder).Append(terminated)
		b.Field(4).(*array.BooleanBuilder).Append(truncated)
		if e.Mask != nil {
			infos := b.Field(5).(*array.StructBuilder)
			infos.Append(true)
			appendMask(infos.FieldBuilder(0).(*array.FixedSizeListBuilder), e.Mask[i*space.MaskSize(act):(i+1)*space.MaskSize(act)])
		}
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	f, err := ipc.NewFileWriter(w, ipc.WithSchema(batch.Schema()))
	if err != nil {
		return err
	}
	return errors.Join(f.Write(batch), f.Close())
}

// typeOf returns the column type for values of the space, as in Minari.
func typeOf(s space.Space) arrow.DataType {
	switch s := s.(type) {
	case space.Dict:
		var fields []arrow.Field
		for _, f := range s.Fields {
			fields = append(fields, arrow.Field{Name: f.Key, Type: typeOf(f.Space)})
		}
		return arrow.StructOf(fields...)
	case space.Discrete:
		return arrow.PrimitiveTypes.Int64
	case space.MultiDiscrete:
		return arrow.FixedSizeListOf(int32(s.Size()), arrow.PrimitiveTypes.Int64)
	case space.MultiBinary:
		return arrow.FixedSizeListOf(int32(s.Size()), arrow.PrimitiveTypes.Int8)
	}
	return arrow.FixedSizeListOf(int32(s.Size()), arrow.PrimitiveTypes.Float32)
}

// appendValue appends a value of the space to a column of type typeOf.
func appendValue(b array.Builder, s space.Space, v []float32) {
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range s.(space.Dict).Fields {
			appendValue(b.FieldBuilder(i), f.Space, v[:f.Space.Size()])
			v = v[f.Space.Size():]
		}
	case *array.Int64Builder:
		b.Append(int64(v[0]))
	case *array.FixedSizeListBuilder:
		b.Append(true)
		switch e := b.ValueBuilder().(type) {
		case *array.Float32Builder:
			e.AppendValues(v, nil)
		case *array.Int64Builder:
			for _, x := range v {
				e.Append(int64(x))
			}
		case *array.Int8Builder:
			for _, x := range v {
				e.Append(int8(x))
			}
		}
	}
}

func appendMask(b *array.FixedSizeListBuilder, mask []bool) {
	b.Append(true)
	for _, permitted := range mask {
		x := int8(0)
		if permitted {
			x = 1
		}
		b.ValueBuilder().(*array.Int8Builder).Append(x)
	}
}
