package clustertest

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// The states that scripts want were worked by hand from the documentation of package
// cluster; they are not output of any backend.
//
//go:embed testdata/*.txt
var testdata embed.FS

// script is a text of lines, each of them one of
//
//	# a comment
//	meta I {JSON of Meta}   enters metadata, which must get index I
//	reset
//	advance 5s
//	Bind pod=0 node=1       an op in its text form
//	want                    the lines after it, indented, are the state's String
//
// An op or advance may end in "-> ErrConflict" or another sentinel; it must then fail so, and
// change nothing.
type script struct {
	name, text string
}

var sentinels = map[string]error{
	"ErrNotFound":      cluster.ErrNotFound,
	"ErrConflict":      cluster.ErrConflict,
	"ErrInsufficient":  cluster.ErrInsufficient,
	"ErrUnschedulable": cluster.ErrUnschedulable,
	"ErrInvalid":       cluster.ErrInvalid,
}

func scripts() []script {
	entries, err := testdata.ReadDir("testdata")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	var out []script
	for _, e := range entries {
		text, err := testdata.ReadFile(path.Join("testdata", e.Name()))
		if err != nil {
			panic(err)
		}
		out = append(out, script{strings.TrimSuffix(e.Name(), ".txt"), string(text)})
	}
	return out
}

func (s script) play(t *testing.T, c cluster.Cluster) {
	lines := strings.Split(s.text, "\n")
	for i := 0; i < len(lines); i++ {
		at := fmt.Sprintf("%s.txt:%d", s.name, i+1)
		line, wantErr, fails := strings.Cut(lines[i], " -> ")
		verb, rest, _ := strings.Cut(line, " ")
		if fails && sentinels[wantErr] == nil {
			t.Fatalf("%s: unknown sentinel %q", at, wantErr)
		}
		switch {
		case verb == "" || verb == "#":
		case verb == "meta":
			playMeta(t, c, at, rest)
		case verb == "reset":
			reset(t, c)
		case verb == "want":
			var want strings.Builder
			for ; i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  "); i++ {
				want.WriteString(strings.TrimPrefix(lines[i+1], "  ") + "\n")
			}
			if d := cmp.Diff(want.String(), c.State().String()); d != "" {
				t.Fatalf("%s: state (-want +got):\n%s", at, d)
			}
		default:
			playChange(t, c, at, line, sentinels[wantErr])
		}
	}
}

func playMeta(t *testing.T, c cluster.Cluster, at, line string) {
	t.Helper()
	var want int32
	index, text, _ := strings.Cut(line, " ")
	if _, err := fmt.Sscan(index, &want); err != nil {
		t.Fatalf("%s: index %q: %v", at, index, err)
	}
	var m cluster.Meta
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if got := c.State().Intern(m); got != want {
		t.Fatalf("%s: Intern(%+v) = %d, want %d", at, m, got, want)
	}
}

// playChange plays an op or advance, which must fail with wantErr unless that is nil.
func playChange(t *testing.T, c cluster.Cluster, at, line string, wantErr error) {
	t.Helper()
	before := c.State().Clone()
	var err error
	if rest, ok := strings.CutPrefix(line, "advance "); ok {
		d, perr := time.ParseDuration(rest)
		if perr != nil {
			t.Fatalf("%s: %v", at, perr)
		}
		err = c.Advance(context.Background(), d)
	} else {
		var op cluster.Op
		if perr := op.UnmarshalText([]byte(line)); perr != nil {
			t.Fatalf("%s: %v", at, perr)
		}
		err = c.Apply(context.Background(), []cluster.Op{op})
	}
	if !errors.Is(err, wantErr) {
		t.Fatalf("%s: %s = %v, want %v", at, line, err, wantErr)
	}
	if d := cluster.Diff(before, c.State()); wantErr != nil && d != "" {
		t.Fatalf("%s: failed %s changed the state (-before +after):\n%s", at, line, d)
	}
}
