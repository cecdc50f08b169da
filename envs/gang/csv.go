package gang

import (
	"io"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// newTable reads the header line of r; name stands for r in messages.
func newTable(name string, r io.Reader) (*dataset.Table, error) {
	t := dataset.NewTable("gang: ", name, r)
	return t, t.ReadHeader()
}
