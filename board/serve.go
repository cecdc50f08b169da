package board

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// lastRequests is how long requests may run on when Serve ends.
const lastRequests = time.Second

// Serve answers requests on l until ctx ends, and closes l. Streams end at once then; other requests get a second.
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

// EndStreams ends all streams and refuses new ones. It is for hosts of the page that shut down: an open page would keep
// its stream, and with it the host, for as long as the host waits.
func (s *Server) EndStreams() { s.hub.close() }
