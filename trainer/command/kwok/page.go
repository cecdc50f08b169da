package kwok

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/server/guard"
)

// sidePage configures the page of a command that does something else.
type sidePage struct {
	address   string // empty: no page
	tokenFile string
	fragment  string // fragment of the printed address: the first view
	announce  func(url string)
}

// serveDuring calls run, and serves the page until run returns. watch updates the page until its context ends.
func (p *sidePage) serveDuring(ctx context.Context, cfg board.Config, watch, run func(context.Context) error) (err error) {
	token, err := readToken(p.tokenFile)
	if err != nil {
		return err
	}
	cfg.Guard = guard.Guard{Accept: guard.Only(token)}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("--board: %w", err)
	}
	page := board.New(cfg)
	url := "http://" + l.Addr().String() + "/"
	if token != "" {
		url += "?token=TOKEN"
	}
	p.announce(url + p.fragment)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- watch(watching) }()
	go func() { ended <- page.Serve(watching, l) }()
	err = run(ctx)
	stop()
	return errors.Join(err, <-ended, <-ended, page.Close())
}
