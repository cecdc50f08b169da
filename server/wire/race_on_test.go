//go:build race

package wire

// raceEnabled tells that the race detector allocates beside the code under test.
const raceEnabled = true
