// Command server serves the environments of this module over the protocol kubernasium.v1,
// which PROTOCOL.md defines.
//
// Usage: go run ./server [flags]
//
// When ready, it prints one line of JSON on stdout: url, unix, pid and version. It logs to stderr.
// It stops on SIGTERM and SIGINT and, with --exit-with-stdin, at the end of stdin.
package main

import (
	"os"

	"github.com/kubernasium/kubernasium/server/command"
)

func main() { os.Exit(command.Main()) }
