// Command compliance tests whether a server, in any language, implements the protocol kubernasium.v1. It prints
// a line for each part of server/PROTOCOL.md, and exits with 0 if the server conforms to all of them.
//
// Usage: go run ./tools/compliance [--env ID] [--run REGEXP] ws://HOST:PORT
//
// The environment variable KUBERNASIUM_TOKEN has the token, if the server requires one. The server must permit
// two sessions of 64 environments. The output names optional parts that the server lacks.
package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/server/compliance"
	"github.com/kubernasium/kubernasium/server/wire"
)

// suite is the name of the only test. Its parts are subtests.
const suite = "kubernasium.v1"

func main() {
	if err := command().Execute(); err != nil {
		os.Exit(2) // cobra has printed it
	}
}

func command() *cobra.Command {
	var opts compliance.Options
	var parts string
	c := &cobra.Command{
		Use: "compliance [flags] URL", Short: "Test a server of the protocol kubernasium.v1",
		Args: cobra.ExactArgs(1), SilenceUsage: true,
		RunE: func(_ *cobra.Command, args []string) error {
			address, err := complete(args[0])
			if err != nil {
				return err
			}
			if _, err := regexp.Compile(parts); err != nil {
				return fmt.Errorf("--run: %w", err)
			}
			opts.Token = os.Getenv("KUBERNASIUM_TOKEN")
			test(address, opts, parts)
			return nil
		},
	}
	c.Flags().StringVar(&opts.Env, "env", "classic/CartPole-v1", "id of an environment with Discrete actions that include 0")
	c.Flags().StringVar(&parts, "run", "", "only the parts whose names match this regular expression, such as resume")
	return c
}

// complete returns the address of a WebSocket server, and adds a missing path.
func complete(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	if u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
		return "", fmt.Errorf("URL %q, want ws://HOST:PORT or wss://HOST:PORT", rawURL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = wire.Path
	}
	return u.String(), nil
}

// test runs the suite as go test runs tests, and exits with the same status.
func test(address string, opts compliance.Options, parts string) {
	os.Args = []string{os.Args[0], "-test.v", "-test.run=^" + regexp.QuoteMeta(suite) + "$/" + parts}
	testing.Init()
	testing.Main(matches, []testing.InternalTest{{
		Name: suite, F: func(t *testing.T) { compliance.Run(t, address, opts) },
	}}, nil, nil)
}

func matches(pattern, name string) (bool, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return false, errors.New("unreachable: " + err.Error()) // the command has already compiled it
	}
	return re.MatchString(name), nil
}
