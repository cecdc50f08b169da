package board_test

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/board"
)

// TestServeEndsStreams: when Serve's context ends, an open stream ends as a reply does, and is not cut off after the time
// that requests get.
func TestServeEndsStreams(t *testing.T) {
	s := board.New(board.Config{Logs: writeLogs(t)})
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	resp := openStream(t, "http://"+l.Addr().String()+"/", "runs")
	stop()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestHostShutsDown: a host that registers EndStreams shuts down although a page is open, without closing connections.
func TestHostShutsDown(t *testing.T) {
	s := board.New(board.Config{Logs: writeLogs(t)})
	defer s.Close()
	srv := httptest.NewUnstartedServer(s)
	srv.Config.RegisterOnShutdown(s.EndStreams)
	srv.Start()
	openStream(t, srv.URL+"/", "runs")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := srv.Config.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown with an open page: %v", err)
	}
}
