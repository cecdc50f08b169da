package run

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// TestSeedsPrint: the last line counts the seeds that were trained, and gives their mean with its interval.
func TestSeedsPrint(t *testing.T) {
	seed := func(seed uint64, err error) SeedResult { return SeedResult{Seed: seed, Err: err} }
	for _, tc := range []struct {
		seeds []SeedResult
		eval  *tracking.Estimate
		want  string
	}{
		{[]SeedResult{seed(1, nil), seed(2, nil)}, &tracking.Estimate{Mean: 5, Low: 4, High: 6}, "ppo on k8s/X-v0, 2 seeds in 7 s: mean return 5.00, 95 % interval over seeds [4.00, 6.00]; logs in logs"},
		{[]SeedResult{seed(1, nil), seed(2, errors.New("no room"))}, &tracking.Estimate{Mean: 5, Low: 4, High: 6}, "ppo on k8s/X-v0, 1 of 2 seeds in 7 s: mean return 5.00"},
		{[]SeedResult{seed(1, errors.New("no room"))}, nil, "ppo on k8s/X-v0, 0 of 1 seeds in 7 s: no mean return; logs in logs"},
	} {
		var out bytes.Buffer
		res := &SeedsResult{Algo: "ppo", Env: "k8s/X-v0", Seeds: tc.seeds, Eval: tc.eval, Seconds: 7, Folder: "logs"}
		if err := res.Print(&out); err != nil || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%v, want %q in\n%s", err, tc.want, out.String())
		}
	}
}
