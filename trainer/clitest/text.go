package clitest

import (
	"bytes"
	"strings"
	"sync"
)

// UntilText collects output. It is safe for concurrent use.
type UntilText struct {
	mu   sync.Mutex
	b    bytes.Buffer
	text string
	then func()
}

// NewUntilText returns a writer that calls then at each write once the output contains text.
func NewUntilText(text string, then func()) *UntilText { return &UntilText{text: text, then: then} }

// String returns the output so far.
func (u *UntilText) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.b.String()
}

func (u *UntilText) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.b.Write(p)
	if strings.Contains(u.b.String(), u.text) {
		u.then()
	}
	return n, err
}
