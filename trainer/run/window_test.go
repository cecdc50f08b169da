package run

import "testing"

// TestWindow: means are over the last 100 episodes. Of returns 1 to 150 these are 51 to 150, of mean
// 100.5; of 1 to 3 all, of mean 2.
func TestWindow(t *testing.T) {
	var w Window
	if _, _, ok := w.Means(); ok {
		t.Error("means of no episode")
	}
	for i := 1; i <= 150; i++ {
		w.add(float64(i), int64(2*i))
		want := map[int]float64{3: 2, 150: 100.5}[i]
		if ret, length, ok := w.Means(); want != 0 && (!ok || ret != want || length < 2*want-1e-9 || length > 2*want+1e-9) {
			t.Errorf("after %d episodes: mean return %v and length %v, want %v and %v", i, ret, length, want, 2*want)
		}
	}
}
