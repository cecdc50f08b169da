package clitest

import (
	"bytes"
	"strings"
	"sync"
)

// untilText collects what is printed. It is safe for concurrent use.
type untilText struct {
	mu   sync.Mutex
	b    bytes.Buffer
	text string
	then func()
}

// NewUntilText returns a writer that calls then at each write once text has been printed.
func NewUntilText(text string, then func()) *untilText { return &untilText{text: text, then: then} }

// String returns what was printed.
func (u *untilText) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.b.String()
}

func (u *untilText) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.b.Write(p)
	if strings.Contains(u.b.String(), u.text) {
		u.then()
	}
	return n, err
}
