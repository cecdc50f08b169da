package classic

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"
)

var recordingPath = flag.String("recording", "testdata/cartpole.json.gz", "recording of Gymnasium by testdata/record.py to compare with")

// recording is the output of testdata/record.py.
type recording struct {
	MaxEpisodeSteps int     `json:"max_episode_steps"`
	RewardThreshold float64 `json:"reward_threshold"`
	Thresholds      float64s
	Masses          float64s
	Low, High       float32s
	Baselines       map[string][]int
	Runs            []recordedRun
}

// recordedRun is one environment; episodes after the first continue its random stream.
type recordedRun struct {
	Name     string
	Options  map[string]any
	Episodes []recordedEpisode
}

// recordedEpisode has T actions and T+1 states and observations of four numbers.
type recordedEpisode struct {
	Seed       *uint64
	Options    map[string]any
	Actions    string
	Rewards    []float64
	Terminated []bool
	Truncated  []bool
	States     float64s
	Obs        float32s
}

func (e *recordedEpisode) action(t int) int { return int(e.Actions[t] - '0') }

func (e *recordedEpisode) state(t int) [4]float64 { return [4]float64(e.States[4*t : 4*t+4]) }

func (e *recordedEpisode) obs(t int) [4]float32 { return [4]float32(e.Obs[4*t : 4*t+4]) }

// float64s and float32s are arrays written as the hexadecimal digits of their bits.
type (
	float64s []float64
	float32s []float32
)

func (f *float64s) UnmarshalText(text []byte) error {
	return eachWord(text, 8, func(w uint64) { *f = append(*f, math.Float64frombits(w)) })
}

func (f *float32s) UnmarshalText(text []byte) error {
	return eachWord(text, 4, func(w uint64) { *f = append(*f, math.Float32frombits(uint32(w))) })
}

// eachWord calls do with every big-endian word of size bytes.
func eachWord(text []byte, size int, do func(uint64)) error {
	data, err := hex.DecodeString(string(text))
	for ; len(data) >= size; data = data[size:] {
		var w uint64
		for _, c := range data[:size] {
			w = w<<8 | uint64(c)
		}
		do(w)
	}
	return err
}

func loadRecording(t *testing.T) *recording {
	t.Helper()
	f, err := os.Open(*recordingPath)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rec := new(recording)
	if err := json.NewDecoder(z).Decode(rec); err != nil {
		t.Fatal(err)
	}
	if len(rec.Runs) == 0 {
		t.Fatalf("%s has no runs", *recordingPath)
	}
	return rec
}
