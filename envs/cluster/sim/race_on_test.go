//go:build race

package sim_test

// raceEnabled: the race detector allocates beside the code under test.
const raceEnabled = true
