package board

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// lastRequests bounds the time of pending requests when Serve ends.
const lastRequests = time.Second

// Serve answers requests on l until ctx ends, and closes l. Then streams end at once, and other requests within a
// second.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	srv.RegisterOnShutdown(s.EndStreams)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
	defer cancel()
	err := srv.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-ended
	return err
}

// EndStreams ends all streams and rejects new ones. Programs that serve the page call it before they shut down, since
// an open page would keep its stream open.
func (s *Server) EndStreams() { s.hub.close() }
