package team

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// TestEachPartOnce: whatever the number of workers, each part is computed once, and no worker computes two at one time.
func TestEachPartOnce(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 8} {
		tm := New()
		tm.SetWorkers(workers)
		busy := make([]atomic.Bool, tm.Workers())
		for round := range 300 {
			parts := []int{0, 1, 2, 7, 100}[round%5]
			counts := make([]atomic.Int64, parts)
			f := func(worker, part int) {
				if !busy[worker].CompareAndSwap(false, true) {
					t.Errorf("worker %d of %d computes two parts at one time", worker, workers)
				}
				counts[part].Add(1)
				busy[worker].Store(false)
			}
			if round%2 == 0 {
				tm.Do(parts, f)
			} else {
				tm.Lanes(parts, f)
			}
			if round%7 == 0 {
				tm.Rest()
			}
			for part := range counts {
				if n := counts[part].Load(); n != 1 {
					t.Fatalf("%d workers, round %d: part %d computed %d times, want once", workers, round, part, n)
				}
			}
		}
	}
}

// TestPartsRunTogether: two parts that wait for each other end.
func TestPartsRunTogether(t *testing.T) {
	tm := New()
	tm.SetWorkers(2)
	for _, do := range []func(int, func(int, int)){tm.Do, tm.Lanes} {
		meet := [2]chan bool{make(chan bool, 1), make(chan bool, 1)}
		do(2, func(_, part int) {
			meet[part] <- true
			<-meet[1-part]
		})
	}
}

func TestLanesKeepTheirWorkers(t *testing.T) {
	tm := New()
	tm.SetWorkers(2)
	meet := make(chan bool)
	tm.Lanes(2, func(worker, lane int) {
		if worker != lane {
			t.Errorf("worker %d computes lane %d", worker, lane)
		}
		if lane == 0 {
			<-meet
		} else {
			meet <- true
		}
	})
}

func TestDoPanicsAsAPartDoes(t *testing.T) {
	tm := New()
	for _, workers := range []int{1, 4} {
		tm.SetWorkers(workers)
		for part := range 8 {
			got := func() (p any) {
				defer func() { p = recover() }()
				tm.Do(8, func(_, i int) {
					if i == part {
						panic(fmt.Sprint("part ", i))
					}
				})
				return nil
			}()
			if want := fmt.Sprint("part ", part); got != want {
				t.Errorf("%d workers: panic %v, want %v", workers, got, want)
			}
		}
		n := atomic.Int64{}
		tm.Do(5, func(_, _ int) { n.Add(1) })
		if n.Load() != 5 {
			t.Errorf("after panics %d parts, want 5", n.Load())
		}
	}
}

// TestStay: helpers that stay outlast Rest.
func TestStay(t *testing.T) {
	tm := New()
	tm.SetWorkers(2)
	if tm.Rest(); !tm.resting.Load() {
		t.Error("Rest does not end the helpers")
	}
	if tm.Stays() {
		t.Error("Stays before Stay")
	}
	tm.Stay()
	tm.Do(2, func(int, int) {})
	if tm.Rest(); tm.resting.Load() || !tm.Stays() {
		t.Error("after Stay, Rest ends the helpers")
	}
}

func TestNoTeam(t *testing.T) {
	var tm *Team
	sum := 0
	tm.Do(4, func(worker, part int) { sum += 10*worker + part })
	tm.Rest()
	if sum != 6 || tm.Workers() != 1 || Of(3) != nil {
		t.Errorf("sum %d, %d workers, team %v; want 6, 1 and none", sum, tm.Workers(), Of(3))
	}
}

func TestNothingAllocates(t *testing.T) {
	tm := New()
	tm.SetWorkers(2)
	f := func(int, int) {}
	if n := testing.AllocsPerRun(100, func() { tm.Do(9, f); tm.Lanes(2, f) }); n != 0 {
		t.Errorf("%v allocs/op, want 0", n)
	}
}
