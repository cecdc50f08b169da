package cputime

import (
	"testing"
	"time"
)

// TestUsed: two busy loops of some time each use at least as much as they last, and a pause of an idle test uses less than
// it lasts.
func TestUsed(t *testing.T) {
	const span = 50 * time.Millisecond
	begin := Used()
	for Used()-begin < span { // it ends only if busy time counts
	}
	begin = Used()
	time.Sleep(2 * time.Second)
	if used := Used() - begin; used > time.Second {
		t.Errorf("%v used in a pause of 2 s", used)
	}
}
