package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var start = time.UnixMilli(1_700_000_000_500)

func TestQueryRange(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth := r.Header.Values("Authorization"); len(auth) != 0 {
			t.Errorf("authorization %q without a token", auth)
		}
		_ = r.ParseForm()
		fmt.Fprint(w, r.Method, " ", r.URL, " ", r.Form.Encode())
	}))
	defer server.Close()
	c := Client{URL: server.URL + "/prefix/", Timeout: 61500 * time.Millisecond}
	got, err := c.QueryRange(t.Context(), "sum(up)", start, start.Add(2*time.Minute), 1500*time.Millisecond)
	if want := "POST /prefix/api/v1/query_range end=1700000120.5&query=sum%28up%29&start=1700000000.5&step=1.5&timeout=61.5"; err != nil || string(got) != want {
		t.Errorf("asked for %s, %v; want %s", got, err, want)
	}
}

func TestQueryRangeErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("query") {
		case "wrong":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"parse error"}`)
		case "proxy":
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `<html>`)
		case "slow":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	for _, tc := range []struct{ url, query, want string }{
		{server.URL, "wrong", "400 Bad Request: parse error"},
		{server.URL, "proxy", "502 Bad Gateway"},
		{"localhost:9090", "up", `server "localhost:9090", want a URL such as`},
		{"ftp://localhost", "up", `server "ftp://localhost", want a URL such as`},
	} {
		c := Client{URL: tc.url, Timeout: time.Minute}
		if _, err := c.QueryRange(t.Context(), tc.query, start, start, time.Second); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s of %s: %v, want an error with %q", tc.query, tc.url, err, tc.want)
		}
	}
	c := Client{URL: server.URL, Timeout: 10 * time.Millisecond}
	if _, err := c.QueryRange(t.Context(), "slow", start, start, time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that does not reply: %v, want %v", err, context.DeadlineExceeded)
	}
}
