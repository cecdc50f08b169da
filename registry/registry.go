// Package registry registers the environments of the programs of this module, their twins on an API
// server, and the readers of files in options. The trainer, the server and their tests import it,
// so that all of them accept the same options.
package registry

import (
	_ "github.com/kubernasium/kubernasium/agents/subscheduler" // .safetensors for the option subscheduler
	_ "github.com/kubernasium/kubernasium/envs/all"
	_ "github.com/kubernasium/kubernasium/kwok" // the twins
)
