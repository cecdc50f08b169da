//go:build race

package host_test

// raceEnabled tells that the race detector allocates beside the code under test.
const raceEnabled = true
