package session

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// troubles are requests to test/Trouble-v0 and test/Backend-v0 whose causes hold the word secret.
var troubles = map[string]struct {
	env    string
	action int
	reason wire.Reason
}{
	"an environment that fails": {"test/Trouble-v0", 1, wire.EnvFailed},
	"a panic":                   {"test/Trouble-v0", 2, wire.EnvFailed},
	"a backend that is down":    {"test/Backend-v0", 0, wire.BackendDown},
}

// faultOf returns the err that a fault gives, and the log.
func faultOf(t *testing.T, name string, report bool) (got m, log string) {
	t.Helper()
	var buf bytes.Buffer
	cfg := newConfig()
	cfg.ReportCauses, cfg.Log = report, slog.New(slog.NewTextHandler(&buf, nil))
	s := newSession(t, cfg)
	f := troubles[name]
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": f.env}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
	})
	got = handle(t, s, m{"t": "step", "id": 4, "eid": 1, "a": f.action})
	if got["reason"] != string(f.reason) {
		t.Errorf("%s: %v, want reason %s", name, got, f.reason)
	}
	return got, buf.String()
}

// A server that only this machine reaches reports to a client why an environment failed.
func TestCausesAreReported(t *testing.T) {
	for name := range troubles {
		if got, _ := faultOf(t, name, true); !strings.Contains(got["msg"].(string), "secret") {
			t.Errorf("%s: %v, want the cause", name, got)
		}
	}
}

// Other servers keep the cause, and report the id of the log's line.
func TestCausesAreInTheLog(t *testing.T) {
	id := regexp.MustCompile(`error_id=([0-9a-f]{12})`)
	for name := range troubles {
		got, log := faultOf(t, name, false)
		msg := got["msg"].(string)
		if strings.Contains(msg, "secret") {
			t.Errorf("%s: the client gets %q", name, msg)
		}
		named := id.FindString(msg)
		if named == "" {
			t.Fatalf("%s: message %q has no id", name, msg)
		}
		found := false
		for line := range strings.Lines(log) {
			found = found || strings.Contains(line, named) && strings.Contains(line, "secret")
		}
		if !found {
			t.Errorf("%s: no line of the log has both %s and the cause:\n%s", name, named, log)
		}
	}
}

// A panic of the server itself, here of a callback, is reported like a failure of an environment.
func TestCauseOfAPanic(t *testing.T) {
	for _, report := range []bool{false, true} {
		var log bytes.Buffer
		cfg := newConfig()
		cfg.ReportCauses, cfg.Log = report, slog.New(slog.NewTextHandler(&log, nil))
		cfg.OnStep = func(time.Duration) { panic("a secret of the server") }
		s := newSession(t, cfg)
		play(t, s, []line{
			helloLine,
			{m{"t": "make", "id": 2, "env": "test/Timing-v0"}, m{"eid": 1}},
			{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
		})
		got := handle(t, s, m{"t": "step", "id": 4, "eid": 1, "a": 0})
		msg, _ := got["msg"].(string)
		if got["reason"] != string(wire.ServerFault) || strings.Contains(msg, "secret") != report || strings.Contains(msg, "error_id=") == report {
			t.Errorf("with causes %v: %v", report, got)
		}
		if !strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "TestCauseOfAPanic") {
			t.Errorf("the log has not cause and stack:\n%s", log.String())
		}
	}
}

func TestTooManySessionsNamesTheFlag(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.Sessions = 0
	if got := handle(t, newSession(t, cfg), helloLine.send); !strings.Contains(got["msg"].(string), "--max-sessions") {
		t.Errorf("%v, want the flag", got)
	}
}

func init() {
	timing := envcheck.Timing(3, 0)
	timing.ID, timing.Options = "test/Read-v0", &fileOptions{}
	open := timing.Open
	timing.Open = func(opts map[string]any) (envs.Maker, error) {
		var o fileOptions
		if err := envs.DecodeOptions(opts, &o); err != nil {
			return nil, err
		}
		if _, err := os.ReadFile(o.Source); err != nil {
			return nil, err
		}
		return open(nil)
	}
	envs.Register(timing)
}

// Relative paths are relative to the client's folder.
func TestFolderOfTheClient(t *testing.T) {
	dir := t.TempDir()
	envstest.Write(t, filepath.Join(dir, "here.csv"), "")
	play(t, newSession(t, newConfig()), []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Read-v0", "cwd": dir, "options": m{"source": "here.csv"}}, m{"t": "make.ok"}},
		{m{"t": "make", "id": 3, "env": "test/Read-v0", "cwd": dir, "options": m{"source": "there.csv"}}, refused(3, wire.InvalidOption)},
		{m{"t": "make", "id": 4, "env": "test/Read-v0", "options": m{"source": "here.csv"}}, refused(4, wire.InvalidOption)},
		{m{"t": "make", "id": 5, "env": "test/Read-v0", "cwd": "a", "options": m{"source": "here.csv"}}, refused(5, wire.BadField)},
	})
	cfg := newConfig()
	cfg.DenyFiles = true
	play(t, newSession(t, cfg), []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Read-v0", "cwd": dir, "options": m{"source": "here.csv"}}, refused(2, wire.InvalidOption)},
	})
}

// Refusals name the option, the flag or the field, and no types of the server's language.
func TestRefusalsName(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		helloLine,
		{m{"t": "make", "id": 2, "env": "test/Read-v0", "options": m{"sauce": 1}}, m{"reason": "INVALID_OPTION", "option": "sauce"}},
		{m{"t": "make", "id": 3, "env": "test/Read-v0", "options": m{"steps": "x"}}, m{"reason": "INVALID_OPTION", "option": nil}},
	})
	for i, tc := range []struct {
		request m
		want    string
	}{
		{m{"t": "make", "env": "test/Read-v0", "n": 1 << 20}, "--max-envs-make"},
		{m{"t": "make", "env": 3}, "field env is of type int, want string"},
		{m{"t": "make", "env": "test/Read-v0", "n": "a"}, "field n is of type string, want int"},
		{m{"t": "make", "env": "test/Read-v0", "n": 2.5}, "field n is of type float, want int"},
		{m{"t": "make", "env": "test/Read-v0", "options": []any{1}}, "field options is of type list, want map"},
		{m{"t": "envs", "filter": 3}, "field filter is of type int, want string"},
	} {
		tc.request["id"] = 10 + i
		if got := handle(t, s, tc.request); got["t"] != "err" || !strings.Contains(got["msg"].(string), tc.want) {
			t.Errorf("%v: %v, want a message with %q", tc.request, got, tc.want)
		}
	}
}
