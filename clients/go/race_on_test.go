//go:build race

package client_test

// raceEnabled: the race detector allocates beside the code under test.
const raceEnabled = true
