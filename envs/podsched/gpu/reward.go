package gpu

type rewardWeights struct{ alloc, frag, scarcity, waiting float64 }

// weights returns the weight of each part of the reward.
func (o *Options) weights() (w rewardWeights) {
	switch o.Reward {
	case RewardAllocation:
		w.alloc = 1
	case RewardFragmentation:
		w.frag = 1
	case RewardScarcity:
		w.alloc, w.scarcity = 1, 1
	case RewardWaiting:
		w.waiting = 1
	case RewardWeighted:
		w = rewardWeights{o.AllocWeight, o.FragWeight, o.ScarcityWeight, o.WaitingWeight}
	}
	return w
}

// measures are the parts of rewards.
type measures struct{ alloc, frag, shortage, waiting float64 }

// percent converts thousandths of a GPU to percent of the cluster's GPUs.
func (t *Task) percent(milliGPU float64) float64 {
	return 100 * milliGPU / float64(t.inventory.Size.MilliGPU)
}

func (t *Task) measure() measures {
	m := measures{alloc: t.percent(float64(t.inventory.Used.MilliGPU)), waiting: t.waiting}
	if t.weights.frag != 0 {
		m.frag = t.percent(t.inventory.Frag.Amount(t.inventory.Wasted))
	}
	if t.weights.scarcity != 0 {
		m.shortage = t.percent(t.in.Outlook.Reserve.Shortage(&t.inventory))
	}
	return m
}

// waitingScale is the number of pod seconds of waiting for a reward of -1.
const waitingScale = 1000

func (t *Task) reward(before, after measures) float64 {
	w := &t.weights
	return w.alloc*(after.alloc-before.alloc) - w.frag*(after.frag-before.frag) -
		w.scarcity*(after.shortage-before.shortage) - w.waiting*(t.waiting-before.waiting)/waitingScale
}
