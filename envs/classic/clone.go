package classic

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Clone implements [envs.Cloner].
func (p *CartPole) Clone(*rand.Rand) envs.Task {
	return new(*p)
}

// AppendEpisode implements [envs.Resumer]: the state is all there is.
func (p *CartPole) AppendEpisode(dst []byte, _ *cluster.State) ([]byte, error) {
	for _, x := range p.state {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst, nil
}

// ResumeEpisode implements [envs.Resumer].
func (p *CartPole) ResumeEpisode(_ context.Context, _ cluster.Cluster, data []byte) error {
	if len(data) != 8*len(p.state) {
		return fmt.Errorf("a CartPole's episode of %d bytes, want %d", len(data), 8*len(p.state))
	}
	for i := range p.state {
		p.state[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return nil
}
