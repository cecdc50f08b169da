package core

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// boardConfig holds the arguments of board.
type boardConfig struct {
	board.Config
	listen, tokenFile string

	begin func(ctx context.Context, page *board.Server) (fragment string, err error) // returns the fragment of the address; nil starts no episode
}

// boardAddress is the address of the page, unless --listen names another.
const boardAddress = "127.0.0.1:6007"

func newBoard() *cobra.Command {
	var c boardConfig
	cmd := &cobra.Command{
		Use:   "board",
		Short: "Show trainings, comparisons and episodes on a page in the browser",
		Example: `  trainer board                      # http://127.0.0.1:6007, beside running or finished trainings
  trainer board --allow-control      # and visitors may play episodes
  trainer board --report report.json # what kwok shadow --json has printed
  trainer board -f logs --listen 127.0.0.1:8080
  trainer board --listen 0.0.0.0:6007 --token-file TOKEN`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.readToken(); err != nil {
				return err
			}
			return c.serve(cmd.Context(), func(url string) { fmt.Fprintln(cmd.OutOrStdout(), url) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.Logs, "log-folder", "f", "logs", "folder of logs and models")
	f.StringArrayVar(&c.Models, "models", []string{"models/pretrained"}, "folder of models to offer, besides the best models of the logs (repeat)")
	f.StringArrayVar(&c.Reports, "report", nil, "output of kwok shadow --json, besides shadow*.json in the folder of logs (repeat)")
	f.BoolVar(&c.AllowControl, "allow-control", false, "let visitors start, play and fork episodes, which uses this machine's CPUs; without it the page is read-only")
	f.StringVar(&c.listen, "listen", boardAddress, "address; port 0 selects a free one. An address beyond the loopback interface needs a token")
	f.StringVar(&c.tokenFile, "token-file", "", "file with the token that visitors need")
	return cmd
}

func (c *boardConfig) readToken() error {
	if c.tokenFile != "" {
		text, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return err
		}
		token := strings.TrimSpace(string(text))
		if token == "" {
			return fmt.Errorf("%s holds no token", c.tokenFile)
		}
		c.Guard.Accept = guard.Only(token)
		return nil
	}
	name, _, err := net.SplitHostPort(c.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen %s is beyond the loopback interface: give --token-file", c.listen)
	}
	return nil
}

// serve serves the page until ctx ends, and calls ready with its address.
func (c *boardConfig) serve(ctx context.Context, ready func(url string)) error {
	c.Open = openForBoard
	page := board.New(c.Config)
	defer page.Close()
	fragment := ""
	if c.begin != nil {
		var err error
		if fragment, err = c.begin(ctx, page); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String() + "/"
	if c.Guard.Asks() {
		url += "?token=TOKEN"
	}
	ready(url + fragment)
	return page.Serve(ctx, l)
}

// openForBoard opens a policy for an episode on the page.
func openForBoard(ctx context.Context, v *envs.Vec, name string, seed uint64) (agents.Policy, func(), error) {
	c := play.Config{Baseline: name, Seed: seed}
	if strings.HasSuffix(name, models.Ext) {
		c.Model, c.Baseline = name, ""
	}
	_, p, closePolicy, err := play.OpenPolicy(ctx, v, c)
	if m, ok := p.(*play.Model); ok {
		p = m.Policy // its scores, if its algorithm has any
	}
	return p, closePolicy, err
}
