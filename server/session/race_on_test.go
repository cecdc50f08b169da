//go:build race

package session

// raceEnabled tells that the race detector allocates beside the code under test.
const raceEnabled = true
