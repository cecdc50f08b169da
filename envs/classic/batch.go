package classic

import (
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/classic/lanes"
)

var _ [lanes.Rows]struct{} = [envs.BatchRows]struct{}{}

var constants = lanes.NewConstants(lanes.System{
	Gravity: gravity, MassPole: massPole, MassTotal: massTotal, HalfLength: halfLength, PoleMassLength: poleMassLength,
	FourThirds: 4.0 / 3.0, Tau: tau,
})

// ApplyBatch implements [envs.Batcher].
func (p *CartPole) ApplyBatch(b *envs.Batch, rows []int32, tasks []envs.Task, actions []float32) {
	var l lanes.CartPoles
	small := true
	var states [envs.BatchRows]*[4]float64
	for k, i := range rows {
		s := &tasks[k].(*CartPole).state
		states[k] = s
		l.Pos[k], l.Vel[k], l.Theta[k], l.Omega[k] = s[posX], s[velX], s[posTheta], s[velTheta]
		l.Force[k] = forceOf(int(actions[i]))
		small = small && math.Abs(s[posTheta]) <= math.Pi/4
	}
	vectors := small && l.Step(constants, len(rows))
	for k, i := range rows {
		s := states[k]
		if vectors {
			*s = [4]float64{l.Pos[k], l.Vel[k], l.Theta[k], l.Omega[k]}
		} else {
			CartPoleStep(s, int(actions[i]))
		}
		*(*[4]float32)(b.Obs[4*i:]) = [4]float32{float32(s[0]), float32(s[1]), float32(s[2]), float32(s[3])}
		b.Terminated[i] = terminal(s)
		b.Reward[i] = p.reward(b.Terminated[i])
	}
}
