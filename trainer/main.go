// Command trainer trains, tunes, evaluates, compares and exports agents, and reproduces published
// results.
//
//	go run ./trainer train --algo ppo --env k8s/GangWindow-v0
//
// Run it with --help for its commands and examples.
package main

import (
	"os"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/command/all"
)

func main() { os.Exit(cli.Main(all.New())) }
