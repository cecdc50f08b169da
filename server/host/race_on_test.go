//go:build race

package host_test

// raceEnabled: the race detector allocates beside the code under test.
const raceEnabled = true
