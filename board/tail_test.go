package board

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestForgottenTail: a viewer gets all rows of a file that was forgotten, and rewritten with fewer rows than the viewer has.
func TestForgottenTail(t *testing.T) {
	path := envstest.TempFile(t, "progress.csv", "a,b\n1,2\n3,4\n")
	seen := tail{path: path}
	if _, err := seen.readNew(); err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, path, "a,b\n5,6\n")
	anew := tail{path: path}
	if _, err := anew.readNew(); err != nil {
		t.Fatal(err)
	}
	from := anew.next(seen.began, seen.rows())
	if got := anew.since(from); from != 0 || len(got.Values) != 2 || len(got.Values[0]) != 1 || *got.Values[0][0] != 5 {
		t.Errorf("from row %d on %+v, want all", from, got)
	}
	if from := seen.next(0, 1); from != 1 {
		t.Errorf("who has a row gets those from %d on, want 1", from)
	}
}
