package hierarchical

import (
	"fmt"
	"image"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

var _ envs.Renderer = (*Task)(nil)

func (t *Task) view() *world.View {
	return &world.View{
		Title: fmt.Sprintf("divided %d of %d  throughput of a container %.4f", t.next, len(t.queue), t.tally.Throughput/float64(max(1, t.tally.Placed))),
		Nodes: t.x, Kind: func(i int) *world.Kind { return t.src.Kinds[t.src.Class[i]] },
	}
}

// RenderANSI implements [envs.Renderer]: the nodes, empty until the end or, with dense rewards, as last filled.
func (t *Task) RenderANSI(*cluster.State) string { return t.view().Text() }

// Grids implements [envs.Gridder].
func (t *Task) Grids() []envs.Grid { return t.view().Grids() }

// RenderRGB implements [envs.Renderer]: the placement matrix as a heat map.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA { return t.view().Heat() }
