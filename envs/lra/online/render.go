package online

import (
	"image"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

var _ envs.Renderer = (*Task)(nil)

// RenderANSI implements [envs.Renderer]: a table of the nodes.
func (t *Task) RenderANSI(*cluster.State) string { return t.ep.View("").Text() }

// Grids implements [envs.Gridder].
func (t *Task) Grids() []envs.Grid { return t.ep.View("").Grids() }

// RenderRGB implements [envs.Renderer]: the placement matrix as a heat map.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA { return t.ep.View("").Heat() }
