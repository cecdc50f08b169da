package clitest

import (
	"encoding/json"
	"testing"
)

// Decode decodes a JSON document.
func Decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}
