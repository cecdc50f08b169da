package kwok

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/server/guard"
)

// pageOf is the page of a command, beside what the command does.
type pageOf struct {
	address   string // empty is no page
	tokenFile string
	fragment  string // of the printed address: the view to begin with
	tell      func(url string)
}

// beside calls run, and serves the page meanwhile. watch feeds it until its context ends.
func (p *pageOf) beside(ctx context.Context, cfg board.Config, watch, run func(context.Context) error) (err error) {
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
	p.tell(url + p.fragment)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- watch(watching) }()
	go func() { ended <- page.Serve(watching, l) }()
	err = run(ctx)
	stop()
	return errors.Join(err, <-ended, <-ended, page.Close())
}
