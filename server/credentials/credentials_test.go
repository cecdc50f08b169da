package credentials

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// tokens reads a file that is looked at whenever a token is asked for.
func tokens(t *testing.T, text string) (*Tokens, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	envstest.Write(t, path, text)
	k, err := ReadTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k.file.every, k.file.next = 0, time.Time{}
	return k, path
}

func TestReadTokens(t *testing.T) {
	k, _ := tokens(t, "# clients\nalpha name:alice sessions:4 envs:512 memory:2147483648\n\n  beta\t\r\n")
	a, b := k.Quota("alpha"), k.Quota("beta")
	if a == nil || a.Name != "alice" || a.Sessions != 4 || a.Envs != 512 || a.Memory != 2<<30 {
		t.Errorf("the quota of alpha is %+v", a)
	}
	if b == nil || b.Name != "the client of line 4" || b.Sessions != 0 || b.Envs != 0 || b.Memory != 0 {
		t.Errorf("the quota of beta is %+v", b)
	}
	for _, bad := range []string{"", "#", "# clients", "alph", "alpha ", "name:alice"} {
		if k.Accept(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestInvalidTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "no token",
		"# nobody\n":               "no token",
		"a envs:0":                 `line 1: "envs:0"`,
		"a\nb envs:many":           `line 2: "envs:many"`,
		"a envs":                   `line 1: "envs"`,
		"a name:":                  `line 1: "name:"`,
		"a cpu:3":                  `"cpu:3", want name:TEXT, sessions:N, envs:N or memory:BYTES`,
		"a\na":                     "line 2 has the token of a line before it",
		strings.Repeat("a", 2<<20): "more than 1048576 bytes",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		envstest.Write(t, path, text)
		if _, err := ReadTokens(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v, want an error with %q and the file", text, err, want)
		}
	}
}

// TestTokensChange withdraws a token, adds one and changes a bound, while a client holds sessions; and a bad file and a
// missing one change nothing.
func TestTokensChange(t *testing.T) {
	k, path := tokens(t, "alpha sessions:4\nbeta")
	k.Quota("alpha").Held.Sessions.Add(3)
	envstest.Write(t, path, "alpha sessions:2\ngamma")
	if k.Accept("beta") || !k.Accept("gamma") {
		t.Errorf("beta is accepted: %v, gamma: %v; want it the other way around", k.Accept("beta"), k.Accept("gamma"))
	}
	check := func(when string) {
		t.Helper()
		if q := k.Quota("alpha"); q == nil || q.Sessions != 2 || q.Held.Sessions.Load() != 3 {
			t.Errorf("%s the quota of alpha is %+v, want 2 sessions at most, 3 held", when, q)
		}
	}
	check("after a change")
	envstest.Write(t, path, "alpha sessions:none")
	check("with a bad file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("without the file")
	envstest.Write(t, path, "delta")
	if k.Accept("alpha") || !k.Accept("delta") {
		t.Error("a good file after a bad one is not read")
	}
}
