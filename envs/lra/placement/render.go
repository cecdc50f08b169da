package placement

import (
	"image"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

var _ envs.Renderer = (*Task)(nil)

// RenderANSI implements [envs.Renderer]: a table of the nodes.
func (t *Task) RenderANSI(*cluster.State) string { return t.ep.View().Text() }

// RenderRGB implements [envs.Renderer]: the placement matrix as a heat map.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA { return t.ep.View().Heat() }
