package recommender_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// golden opens the golden recommendations, or skips the test.
func golden(tb testing.TB) *os.File {
	tb.Helper()
	root := os.Getenv("KUBERNASIUM_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared", "data") // beside the repository's root
	}
	f, err := os.Open(filepath.Join(root, "vpa", "golden_recommender.json"))
	if err != nil {
		tb.Skipf("%v: set KUBERNASIUM_DATA to the folder that holds vpa/ to enable this test", err)
	}
	tb.Cleanup(func() { f.Close() })
	return f
}

// All 70 rows were compared with upstream's packages when the file was made.
func TestGoldenRecommendations(t *testing.T) {
	rows, err := recommender.Reproduce(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 70 {
		t.Fatalf("%d rows, want 70", len(rows))
	}
	for _, r := range rows {
		if r.Expected == nil || !r.Equal() {
			t.Errorf("%s after %d samples: %+v, want %+v", r.Scenario, r.Samples, r.Bounds, r.Expected)
		}
	}
}

func TestReproduceWithoutGolden(t *testing.T) {
	rows, err := recommender.Reproduce(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 70 || rows[0].Expected != nil {
		t.Fatalf("%d rows, the first of them %+v; want 70 without expected values", len(rows), rows[0])
	}
	for _, bad := range []string{
		"", "{", `{"scenarios":[{"name":"other","rows":[{"samples":1}]}]}`, `{"scenarios":[{"name":"idle","rows":[{"samples":1}]}]}`,
	} {
		if _, err := recommender.Reproduce(strings.NewReader(bad)); err == nil {
			t.Errorf("Reproduce(%q): no error", bad)
		}
	}
}
