//go:build race

package wire

// raceEnabled: the race detector allocates beside the code under test.
const raceEnabled = true
