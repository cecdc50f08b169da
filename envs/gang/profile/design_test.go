package profile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// TestDesignByHand: a grid of one size and two shares that differ by a factor e², of a measurement at the
// first point. With c = ∓1 the prior variance of each point is 10² + 2² + 0.5² + 0.1² = 104.26 and their
// covariance 10² − 2² + 0.5² = 96.25; noise of 1 has the variance 1.
func TestDesignByHand(t *testing.T) {
	d := NewDesign([]float64{7}, []float64{1000, 1000 * math.E * math.E}, 1)
	if want := (104.26*104.26 + 96.25*96.25) / 105.26; math.Abs(d.Gain(0)-want) > 1e-9 || math.Abs(d.Gain(1)-want) > 1e-9 {
		t.Errorf("gains %v and %v, want %v", d.Gain(0), d.Gain(1), want)
	}
	if want := math.Sqrt(104.26); math.Abs(d.Error()-want) > 1e-9 {
		t.Errorf("error %v at first, want %v", d.Error(), want)
	}
	d.Measured(0)
	first, second := 104.26-104.26*104.26/105.26, 104.26-96.25*96.25/105.26
	if want := math.Sqrt((first + second) / 2); math.Abs(d.Error()-want) > 1e-9 {
		t.Errorf("error %v after a measurement, want %v", d.Error(), want)
	}
	if !(d.Gain(1) > d.Gain(0)) {
		t.Errorf("gain %v of the point that was measured and %v of the other, want more of the other", d.Gain(0), d.Gain(1))
	}
}

// TestDesignFits: profiles filled in from the points that a Design chooses are nearer to the law than those from as
// many points at random. The laws are those of the published profile with their noise.
func TestDesignFits(t *testing.T) {
	sizes, shares := emptyProfile().Sizes, emptyProfile().Shares
	const most = 16 // of 224 points
	order := func() []int {
		d, points := NewDesign(sizes, shares, 0.05), []int(nil)
		for range most {
			best := 0
			for i := range len(sizes) * len(shares) {
				if d.Gain(i) > d.Gain(best) {
					best = i
				}
			}
			d.Measured(best)
			points = append(points, best)
		}
		return points
	}()
	rng := rand.New(pcg.New(3))
	var adaptive, random float64
	const tries = 20
	for range tries {
		for _, l := range laws {
			noisy := map[int]float64{}
			for i := range len(sizes) * len(shares) {
				noisy[i] = l.Duration(sizes[i/len(shares)], shares[i%len(shares)]) * math.Exp(l.RMS*rng.NormFloat64())
			}
			adaptive += lawError(t, l, noisy, order) / tries / float64(len(laws))
			random += lawError(t, l, noisy, rng.Perm(len(noisy))[:most]) / tries / float64(len(laws))
		}
	}
	t.Logf("root mean square of log D off the law: %.4f by design, %.4f at random", adaptive, random)
	if !(adaptive < 0.85*random) {
		t.Errorf("fits by design are %.4f off, those at random %.4f; want at least 15 %% less", adaptive, random)
	}
}

// lawError fits a law to some points of its grid, and returns how far the logarithm of the fit is off the law on all.
func lawError(t *testing.T, l Law, noisy map[int]float64, points []int) float64 {
	t.Helper()
	sizes, shares := emptyProfile().Sizes, emptyProfile().Shares
	var text bytes.Buffer
	fmt.Fprintln(&text, "Task Name,Workload Size,CPU Shares,Duration")
	for _, i := range points {
		fmt.Fprintf(&text, "%s,%v,%v,%v\n", l.Task, sizes[i/len(shares)], shares[i%len(shares)], noisy[i])
	}
	p, err := FillFrom("points", &text, sizes, shares, true)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, size := range sizes {
		for j, share := range shares {
			r := math.Log(p.Duration(0, i, j) / l.Duration(size, share))
			sum += r * r
		}
	}
	return math.Sqrt(sum / float64(len(sizes)*len(shares)))
}
