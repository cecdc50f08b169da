package procgroup

import (
	"strings"
	"testing"
)

func TestLastLine(t *testing.T) {
	for output, want := range map[string]string{
		"": "", "a": "a", "a\nb\n\n": "b", "\n": "", "a\n" + strings.Repeat("x", 300): strings.Repeat("x", 200),
	} {
		if got := LastLine(output); got != want {
			t.Errorf("LastLine(%.10q) = %q, want %q", output, got, want)
		}
	}
}
