package lanes

// Sets returns the names of the instruction sets that this CPU has, "none" among them.
func Sets() []string { return []string{"none", "avx2", "avx512"}[:supported()+1] }

// Use has Step use the set with that index in Sets, and returns a function that takes it back.
func Use(set int) (restore func()) {
	old := best
	best = set
	return func() { best = old }
}
