package credentials

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/server/session"
)

// Tokens are the bearer tokens that a server accepts, each with the quota of its client.
type Tokens struct {
	file *watched[clients]
	held map[hash]*session.Held // of every token ever read, so that a client's sessions still count after its line has changed
}

type (
	hash    [sha256.Size]byte
	clients map[hash]*session.Quota
)

// ReadTokens reads tokens from a file with one client per line: its token, and optional bounds as key:value:
//
//	2f6cK0bq name:alice sessions:4 envs:512 memory:2147483648
//
// A client without a name is named after its line. Empty lines and lines that begin with # are ignored.
func ReadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{held: map[hash]*session.Held{}}
	var err error
	t.file, err = watch(log, func(texts [][]byte) (clients, error) {
		c, err := t.parse(string(texts[0]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return c, nil
	}, path)
	return t, err
}

// Accept reports whether the token is valid.
func (t *Tokens) Accept(token string) bool { return t.Quota(token) != nil }

// Quota returns the quota of the client with the token; nil if the token is invalid.
func (t *Tokens) Quota(token string) *session.Quota {
	return t.file.get()[sha256.Sum256([]byte(token))]
}

// parse parses the file. It is not safe for concurrent use.
func (t *Tokens) parse(text string) (clients, error) {
	c := clients{}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		q := &session.Quota{Name: "the client of line " + strconv.Itoa(i+1)}
		for _, w := range words[1:] {
			if err := bound(q, w); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		h := hash(sha256.Sum256([]byte(words[0])))
		if c[h] != nil {
			return nil, fmt.Errorf("line %d has the token of a line before it", i+1)
		}
		if t.held[h] == nil {
			t.held[h] = &session.Held{}
		}
		q.Held = t.held[h]
		c[h] = q
	}
	if len(c) == 0 {
		return nil, errors.New("no token")
	}
	return c, nil
}

// bound sets one bound of a quota from key:value.
func bound(q *session.Quota, text string) error {
	key, value, _ := strings.Cut(text, ":")
	if key == "name" && value != "" {
		q.Name = value
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err == nil && n > 0 {
		switch key {
		case "sessions":
			q.Sessions = int(n)
			return nil
		case "envs":
			q.Envs = int(n)
			return nil
		case "memory":
			q.Memory = n
			return nil
		}
	}
	return fmt.Errorf("%q, want name:TEXT, sessions:N, envs:N or memory:BYTES, with N at least 1", text)
}
