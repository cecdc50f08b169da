//go:build race

package session

// raceEnabled: the race detector allocates beside the code under test.
const raceEnabled = true
