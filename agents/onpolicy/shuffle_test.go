package onpolicy

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// TestShuffle: the order and the state of the generator are those of math/rand/v2.
func TestShuffle(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 8, 1000, 4096, 100_000} {
		got, want := make([]int, n), make([]int, n)
		for i := range got {
			got[i], want[i] = i, i
		}
		src, other := pcg.New(uint64(n)), pcg.New(uint64(n))
		shuffle(src, got)
		rand.New(other).Shuffle(n, func(i, j int) { want[i], want[j] = want[j], want[i] })
		if !slices.Equal(got, want) {
			t.Errorf("%d elements are in another order than by rand.Shuffle", n)
		}
		if *src != *other {
			t.Errorf("after %d elements the generator is in another state than after rand.Shuffle", n)
		}
	}
}

// before returns a generator whose next output is 0: its next state has two equal words.
func before(t *testing.T) *pcg.Source {
	t.Helper()
	n := func(s string) *big.Int {
		x, ok := new(big.Int).SetString(s, 0)
		if !ok {
			t.Fatal(s)
		}
		return x
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), 128)
	x := n("0x00000000000000050000000000000005") // rotated by 0
	x.Sub(x, n("0x1234567"))                     // the increment
	x.Mul(x, new(big.Int).ModInverse(n("0x2360ed051fc65da44385df649fccf645"), modulus)).Mod(x, modulus)
	state := x.FillBytes(make([]byte, 16))
	src := &pcg.Source{}
	if err := src.UnmarshalBinary(append(append([]byte("pcg64:"), state...), n("0x1234567").FillBytes(make([]byte, 16))...)); err != nil {
		t.Fatal(err)
	}
	if c := *src; c.Uint64() != 0 {
		t.Fatal("the next output is not 0")
	}
	return src
}

// TestShuffleRejects: an output that would bias the order is rejected, as by math/rand/v2.
func TestShuffleRejects(t *testing.T) {
	src, other := before(t), before(t)
	got, want := []int{0, 1, 2}, []int{0, 1, 2}
	shuffle(src, got)
	rand.New(other).Shuffle(3, func(i, j int) { want[i], want[j] = want[j], want[i] })
	if !slices.Equal(got, want) || *src != *other {
		t.Errorf("shuffled to %v, want %v and the state of the generator after rand.Shuffle", got, want)
	}
	plain := before(t)
	plain.Uint64()
	plain.Uint64() // without a rejection
	if *src == *plain {
		t.Error("nothing was rejected")
	}
}

func BenchmarkShuffle(b *testing.B) {
	x, src := make([]int, 131072), pcg.New(1)
	rng := rand.New(src)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			shuffle(src, x)
		}
	})
	b.Run("rand", func(b *testing.B) {
		for b.Loop() {
			rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		}
	})
}
