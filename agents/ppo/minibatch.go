package ppo

import (
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/models/team"
	"github.com/kubernasium/kubernasium/models/vmath"
)

// This file gathers the rows of minibatches from the rollout.

// A rowRecord holds what the loss reads of a row of the rollout, so that a row in random order costs one miss of the
// cache.
type rowRecord struct {
	logProb, value, ret float32
	action              float32 // if it is one number
}

// minibatch is the memory into which rows of the rollout are gathered.
type minibatch struct {
	obs, dOut []float32
	mask      []bool
	records   []rowRecord
	stats     []stats   // of each row
	state     []float32 // of a recurrent policy, before each sequence
	begins    []bool

	rows         []int     // of the rollout
	next         []int     // the first rows of the next minibatch
	adv          []float32 // advantages
	sums         stats     // over rows
	dists        []distribution.Distribution
	blocks       []blockMemory // of each worker
	clip, clipVf float64
}

// blockMemory is the memory for the losses of a block.
type blockMemory struct {
	rows            *distribution.Rows // nil if the distributions are computed one by one
	logRatio, ratio [blockRows]float64
}

const (
	blockRows  = onpolicy.BlockRows // rows that one worker handles at a time
	packedRows = 1 << 10            // rows whose records a worker packs at a time
	ahead      = 2                  // rows between the one copied and the one prefetched
	wideObs    = 64                 // numbers of an observation from which prefetching it twice pays
)

// packRecords packs a block of records.
func (l *Learner) packRecords(_, block int) {
	buf := l.collector.Buf
	lo, hi := team.Block(block, len(l.records), packedRows)
	for r := lo; r < hi; r++ {
		l.records[r] = rowRecord{logProb: buf.LogProb[r], value: buf.Value[r], ret: buf.Ret[r]}
		if buf.ActSize == 1 {
			l.records[r].action = buf.Action[r]
		}
	}
}

// minibatch returns the part of perm that belongs to minibatch i, and the range of its rows in adv.
func (l *Learner) minibatch(i int) (part []int, lo, hi int) {
	k := len(l.perm) * l.cfg.BatchSize / len(l.adv)
	return l.perm[i*k : (i+1)*k], i * l.cfg.BatchSize, (i + 1) * l.cfg.BatchSize
}

// gatherAdvantages gathers the advantages of minibatch i and normalizes them [7]. A sum over a minibatch cannot be
// divided, so that workers share the minibatches.
func (l *Learner) gatherAdvantages(_, i int) {
	part, lo, hi := l.minibatch(i)
	adv := l.adv[lo:hi]
	if l.collector.Seq != nil {
		l.eachOf(part, func(j, row int) { adv[j] = l.collector.Buf.Adv[row] })
	} else {
		for j, r := range part {
			adv[j] = l.collector.Buf.Adv[r]
		}
	}
	if l.cfg.NormalizeAdvantage {
		rollout.Normalize(adv)
	}
}

// gatherRows copies the observations, masks and records of the minibatch's rows lo to hi, and prefetches the next block.
func (l *Learner) gatherRows(_, lo, hi int) {
	b, buf := &l.batch, l.collector.Buf
	next := b.rows[hi:min(hi+blockRows, len(b.rows))]
	if len(next) == 0 {
		next = b.next
	}
	for _, r := range next { // they arrive while the worker computes its rows
		l.prefetch(r)
		vmath.Prefetch(l.records[r : r+1])
	}
	for i, r := range b.rows[lo:hi] {
		if next := lo + i + ahead; buf.ObsSize >= wideObs && next < hi { // again: a block may be too large for the cache
			l.prefetch(b.rows[next])
		}
		copy(b.obs[(lo+i)*buf.ObsSize:(lo+i+1)*buf.ObsSize], buf.Obs[r*buf.ObsSize:])
		copy(b.mask[(lo+i)*buf.MaskSize:(lo+i+1)*buf.MaskSize], buf.Mask[r*buf.MaskSize:])
		b.records[lo+i] = l.records[r]
	}
}

// prefetch prefetches the observation and the mask of row r. Shuffled rows come from main memory, whose latency would
// dominate the copy.
func (l *Learner) prefetch(r int) {
	buf := l.collector.Buf
	vmath.Prefetch(buf.Obs[r*buf.ObsSize : (r+1)*buf.ObsSize])
	_, mask := l.collector.Row(r)
	vmath.Prefetch(mask)
}
