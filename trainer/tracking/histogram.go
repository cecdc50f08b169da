package tracking

import (
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of tensorflow.HistogramProto, and its number in Summary.Value. Source:
// tensorflow/core/framework/summary.proto.
const (
	valueHisto = protowire.Number(5)

	histoMin        = protowire.Number(1)
	histoMax        = protowire.Number(2)
	histoNum        = protowire.Number(3)
	histoSum        = protowire.Number(4)
	histoSumSquares = protowire.Number(5)
	histoLimit      = protowire.Number(6)
	histoBucket     = protowire.Number(7)
)

// A Histogram counts values in buckets, for TensorBoard's tab Histograms.
type Histogram struct {
	Min, Max        float64
	Num             float64 // number of values
	Sum, SumSquares float64
	Limits          []float64 // right edges of the buckets, ascending; the first bucket starts at Min
	Counts          []float64 // number of values in each bucket
}

// continuousBuckets is TensorBoard's own default.
const continuousBuckets = 30

// IntegerHistogram counts whole numbers. Each number from the smallest to the largest has a bucket centred on
// it.
func IntegerHistogram(values []float64) Histogram {
	h := newHistogram(values)
	if len(values) == 0 {
		return h
	}
	h.Limits, h.Counts = make([]float64, int(h.Max-h.Min)+1), make([]float64, int(h.Max-h.Min)+1)
	for i := range h.Limits {
		h.Limits[i] = h.Min + float64(i) + 0.5
	}
	for _, v := range values {
		h.Counts[int(v-h.Min)]++
	}
	return h
}

// ContinuousHistogram counts values in 30 buckets of equal width, or in one bucket if all are equal.
func ContinuousHistogram(values []float64) Histogram {
	h := newHistogram(values)
	if len(values) == 0 {
		return h
	}
	n := continuousBuckets
	if h.Min == h.Max {
		n = 1
	}
	width := (h.Max - h.Min) / float64(n)
	h.Limits, h.Counts = make([]float64, n), make([]float64, n)
	for i := range h.Limits {
		h.Limits[i] = h.Min + float64(i+1)*width
	}
	h.Limits[n-1] = h.Max
	for _, v := range values {
		i := 0
		if width > 0 {
			i = min(int((v-h.Min)/width), n-1)
		}
		h.Counts[i]++
	}
	return h
}

// newHistogram returns a Histogram of the values without buckets.
func newHistogram(values []float64) Histogram {
	h := Histogram{Min: math.Inf(1), Max: math.Inf(-1), Num: float64(len(values))}
	for _, v := range values {
		h.Min, h.Max = min(h.Min, v), max(h.Max, v)
		h.Sum += v
		h.SumSquares += v * v
	}
	return h
}

// Histograms writes one event with the histograms at the timestep step, tags in sorted order. It omits empty
// histograms.
func (w *EventWriter) Histograms(step int64, values map[string]Histogram) error {
	var summary []byte
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		if values[tag].Num == 0 {
			continue
		}
		histo := protowire.AppendTag(nil, valueHisto, protowire.BytesType)
		summary = appendValue(summary, tag, protowire.AppendBytes(histo, values[tag].proto()))
	}
	return w.writeSummary(step, summary)
}

// proto returns the HistogramProto.
func (h Histogram) proto() []byte {
	var m []byte
	number := func(field protowire.Number, x float64) {
		m = protowire.AppendTag(m, field, protowire.Fixed64Type)
		m = protowire.AppendFixed64(m, math.Float64bits(x))
	}
	packed := func(field protowire.Number, x []float64) {
		var raw []byte
		for _, v := range x {
			raw = protowire.AppendFixed64(raw, math.Float64bits(v))
		}
		m = protowire.AppendTag(m, field, protowire.BytesType)
		m = protowire.AppendBytes(m, raw)
	}
	number(histoMin, h.Min)
	number(histoMax, h.Max)
	number(histoNum, h.Num)
	number(histoSum, h.Sum)
	number(histoSumSquares, h.SumSquares)
	packed(histoLimit, h.Limits)
	packed(histoBucket, h.Counts)
	return m
}
