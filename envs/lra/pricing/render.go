package pricing

import (
	"fmt"
	"image"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

var _ envs.Renderer = (*Task)(nil)

// view describes the cluster to the renderers.
func (t *Task) view() *world.View {
	return t.ep.View(fmt.Sprintf("prices %.2f  ", t.pi))
}

// RenderANSI implements [envs.Renderer].
func (t *Task) RenderANSI(*cluster.State) string { return t.view().Text() }

// Grids implements [envs.Gridder].
func (t *Task) Grids() []envs.Grid { return t.view().Grids() }

// RenderRGB implements [envs.Renderer].
func (t *Task) RenderRGB(*cluster.State) *image.RGBA { return t.view().Heat() }
