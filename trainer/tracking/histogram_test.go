package tracking

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/trainer/tracking/trackingtest"
)

// Worked by hand.
var (
	wholeNumbers = []float64{2, 5, 2, 3}
	whole        = Histogram{
		Min: 2, Max: 5, Num: 4, Sum: 12, SumSquares: 42, // 4 + 25 + 4 + 9
		Limits: []float64{2.5, 3.5, 4.5, 5.5}, Counts: []float64{2, 1, 0, 1},
	}
)

func TestHistograms(t *testing.T) {
	if diff := cmp.Diff(whole, IntegerHistogram(wholeNumbers)); diff != "" {
		t.Errorf("whole numbers (-want +got):\n%s", diff)
	}
	got := ContinuousHistogram([]float64{0, 3, 0.05, 1.55})
	counts := make([]float64, 30) // of width 0.1
	counts[0], counts[15], counts[29] = 2, 1, 1
	if diff := cmp.Diff(counts, got.Counts); diff != "" || got.Limits[29] != 3 || got.Num != 4 {
		t.Errorf("limits %v, counts (-want +got):\n%s", got.Limits, diff)
	}
	equal := Histogram{Min: 7, Max: 7, Num: 2, Sum: 14, SumSquares: 98, Limits: []float64{7}, Counts: []float64{2}}
	if diff := cmp.Diff(equal, ContinuousHistogram([]float64{7, 7})); diff != "" {
		t.Errorf("equal numbers (-want +got):\n%s", diff)
	}
	// In floating point, 0.2 + 30·((0.9 - 0.2)/30) is less than 0.9, which has to be in the last bucket.
	if h := ContinuousHistogram([]float64{0.2, 0.9}); h.Limits[29] != 0.9 {
		t.Errorf("the last bucket ends at %v, want 0.9", h.Limits[29])
	}
	if h := IntegerHistogram(nil); h.Num != 0 || h.Limits != nil {
		t.Errorf("of nothing: %v", h)
	}
}

func writeHistograms(t *testing.T, folder string) {
	t.Helper()
	w := newWriter(t, folder)
	check(t, w.Histograms(100, map[string]Histogram{"rollout/actions": whole, "b": ContinuousHistogram([]float64{7, 7}), "none": IntegerHistogram(nil)}))
	check(t, w.Histograms(200, map[string]Histogram{"none": IntegerHistogram(nil)}))
	closeWriter(t, w)
}

func TestReadEventsReadsHistograms(t *testing.T) {
	folder := t.TempDir()
	writeHistograms(t, folder)
	files, err := filepath.Glob(filepath.Join(folder, eventPrefix+"*"))
	check(t, err)
	f, err := os.Open(files[0])
	check(t, err)
	defer f.Close()
	events, err := trackingtest.ReadEvents(f)
	check(t, err)
	want := []trackingtest.TaggedHistogram{
		{Tag: "b", Histogram: trackingtest.Histogram(ContinuousHistogram([]float64{7, 7}))},
		{Tag: "rollout/actions", Histogram: trackingtest.Histogram(whole)},
	}
	if diff := cmp.Diff(want, events[len(events)-1].Histograms); diff != "" || len(events) != 2 {
		t.Errorf("%d events, histograms (-want +got):\n%s", len(events), diff)
	}
}

// TestTensorBoardReadsOurEventsOfHistograms compares what TensorBoard's EventAccumulator reads
// with what was written.
func TestTensorBoardReadsOurEventsOfHistograms(t *testing.T) {
	python := os.Getenv("TENSORBOARD_PYTHON")
	if python == "" {
		t.Skip("set TENSORBOARD_PYTHON to a Python that has the pip package tensorboard")
	}
	folder := t.TempDir()
	writeHistograms(t, folder)
	out, err := exec.Command(python, filepath.Join("testdata", "check_tensorboard.py"), folder, "--histograms").Output()
	if err != nil {
		t.Fatalf("check_tensorboard.py: %v", err)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("check_tensorboard.py printed %s: %v", out, err)
	}
	var want map[string]any
	text := `{"rollout/actions": [[100, [2, 5, 4, 12, 42], [2.5, 3.5, 4.5, 5.5], [2, 1, 0, 1]]], "b": [[100, [7, 7, 2, 14, 98], [7], [2]]]}`
	check(t, json.Unmarshal([]byte(text), &want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("histograms differ (-want +got):\n%s", diff)
	}
}
