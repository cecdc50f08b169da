package plane

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestSteppedClock(t *testing.T) { synctest.Test(t, testSteppedClock) }

func testSteppedClock(t *testing.T) {
	c, begin := NewSteppedClock(epoch), time.Now()
	fired := c.After(time.Hour)
	c.Step(90 * time.Second)
	if now, want := <-fired, epoch.Add(90*time.Second); !now.Equal(want) || time.Since(begin) != 0 {
		t.Errorf("After fired with %v after %v, want %v at once", now, time.Since(begin), want)
	}
	if got := c.Since(epoch); got != 90*time.Second {
		t.Errorf("Since(start) = %v, want 90s", got)
	}
	// Without a step, a waiter looks again, and the clock stands still.
	<-c.After(time.Hour)
	if took := time.Since(begin); took != recheck {
		t.Errorf("a waiter was woken to look again after %v, want %v", took, recheck)
	}
	if got := c.Since(epoch); got != 90*time.Second {
		t.Errorf("Since(start) = %v after waiting, want 90s", got)
	}
}

func TestSteppedClockOverHTTP(t *testing.T) {
	c := NewSteppedClock(epoch)
	for _, tc := range []struct {
		name, method, body string
		status             int
		reply              string
	}{
		{"read", "GET", "", http.StatusOK, `{"now":"2026-01-01T00:00:00Z"}`},
		{"step", "POST", `{"advance": "1.5s"}`, http.StatusOK, `{"now":"2026-01-01T00:00:01.5Z"}`},
		{"no step", "POST", `{"advance": "0s"}`, http.StatusOK, `{"now":"2026-01-01T00:00:01.5Z"}`},
		{"back", "POST", `{"advance": "-1s"}`, http.StatusBadRequest, `advance is "-1s"`},
		{"no unit", "POST", `{"advance": "5"}`, http.StatusBadRequest, `advance is "5"`},
		{"no JSON", "POST", `5s`, http.StatusBadRequest, "body is not JSON"},
		{"too long", "POST", `{"advance": "` + strings.Repeat("1", 2000) + `s"}`, http.StatusBadRequest, "body is not JSON"},
		{"method", "DELETE", "", http.StatusMethodNotAllowed, "is not GET or POST"},
		{"unchanged by errors", "GET", "", http.StatusOK, `{"now":"2026-01-01T00:00:01.5Z"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(tc.method, ClockPath, strings.NewReader(tc.body)))
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.reply) {
				t.Errorf("%s %s = %d %s, want %d %s", tc.method, tc.body, w.Code, w.Body, tc.status, tc.reply)
			}
		})
	}
}
