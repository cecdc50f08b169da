package wire

import (
	"reflect"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/kubernasium/kubernasium/envs/space"
)

func init() { msgpack.Register(space.Bounds(nil), nil, decodeBounds) }

// decodeBounds reads the bounds of a box, which a server may write as floats of either width or as integers. The library
// takes no float64 for a float32.
func decodeBounds(dec *msgpack.Decoder, dst reflect.Value) error {
	n, err := dec.DecodeArrayLen()
	if err != nil || n < 0 { // nil
		return err
	}
	bounds := make(space.Bounds, n) // the frame, which has been checked, has as many bytes
	for i := range bounds {
		x, err := dec.DecodeFloat64()
		if err != nil {
			return err
		}
		bounds[i] = float32(x)
	}
	dst.Set(reflect.ValueOf(bounds))
	return nil
}
