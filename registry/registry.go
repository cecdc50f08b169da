// Package registry registers everything that the programs of this module play: the environments,
// their twins on an API server, and the readers of files that options name. The trainer, the server
// and their tests import it, so that equal options work in all of them.
package registry

import (
	_ "github.com/kubernasium/kubernasium/agents/subscheduler" // .safetensors for the option subscheduler
	_ "github.com/kubernasium/kubernasium/envs/all"
	_ "github.com/kubernasium/kubernasium/kwok" // the twins
)
