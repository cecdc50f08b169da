package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{"1..3": {1, 2, 3}, "7..7": {7}, "4": {4}, "1, 2,9": {1, 2, 9}} {
		got, err := parseSeeds(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("parseSeeds(%q): %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "3..1", "1..", "1..x", "-1", "1,1", "0..1000", "1,,2"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("parseSeeds(%q) = %v, want an error", text, got)
		}
	}
}
