package pcg

// Constants of NumPy's SeedSequence.
const (
	initA    = 0x43b0d7e5
	multA    = 0x931e8875
	initB    = 0x8b51f9dd
	multB    = 0x58f38ded
	mixMultL = 0xca01f9dd
	mixMultR = 0x4973f715
)

// seedWords returns SeedSequence(seed).generate_state(4, uint64).
//
// The entropy is seed in words of 32 bits, the least significant first, without leading zeros. SeedSequence also pads
// to the pool's four words with zeros, so a seed below 2^32 is no special case.
//
// Source: numpy/random/bit_generator.pyx, after O'Neill, "Developing a seed_seq
// Alternative", pcg-random.org, 2015.
func seedWords(seed uint64) [4]uint64 {
	pool := [4]uint32{uint32(seed), uint32(seed >> 32)}
	hashConst := uint32(initA)
	hash := func(x uint32) uint32 {
		x ^= hashConst
		hashConst *= multA
		x *= hashConst
		return x ^ x>>16
	}
	for i := range pool {
		pool[i] = hash(pool[i])
	}
	for src := range pool {
		for dst := range pool {
			if src != dst {
				x := mixMultL*pool[dst] - mixMultR*hash(pool[src])
				pool[dst] = x ^ x>>16
			}
		}
	}

	var words [4]uint64
	hashConst = initB
	for i := range 8 {
		x := pool[i%4] ^ hashConst
		hashConst *= multB
		x *= hashConst
		x ^= x >> 16
		words[i/2] |= uint64(x) << (32 * (i % 2))
	}
	return words
}
