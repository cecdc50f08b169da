package world

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// publishedBatches is the number of first rows of a file that the published comparisons use.
const publishedBatches = 30

func (s *Source) readBatches() error {
	o := &s.Options
	if o.Batches == "" {
		if o.Arrivals == ArrivalsBatch && o.Containers > s.Slots {
			return invalid("containers is %d, want at most %d, the slots of the nodes", o.Containers, s.Slots)
		}
		return nil
	}
	all, err := files.ReadBatchesFile(o.Batches)
	if err != nil {
		return err
	}
	switch {
	case o.Batch >= len(all):
		return invalid("batch is %d, want less than %d, the rows of %s", o.Batch, len(all), o.Batches)
	case o.Batch >= 0:
		all = all[o.Batch : o.Batch+1]
	case o.Split == SplitHeldOut:
		all = all[:min(publishedBatches, len(all))]
	case len(all) <= publishedBatches:
		return invalid("%s has %d batches, none beside the %d of the heldout split", o.Batches, len(all), publishedBatches)
	default:
		all = all[publishedBatches:]
	}
	total := all[0].Total()
	for i, b := range all {
		n := b.Total()
		if n > s.Slots {
			return invalid("batch %d of %s has %d containers, want at most %d, the slots of the nodes", i, o.Batches, n, s.Slots)
		}
		if n != total && o.Objective == planner.ObjectiveVacant {
			return invalid("objective vacant needs batches of one size, %s has %d and %d", o.Batches, total, n)
		}
	}
	s.batches, o.Containers = all, total
	return nil
}

// violations returns how many of n containers may stand on nodes that are not meant for them. 1e-9 is more than the
// rounding of a product: 0.29·100 is 28.999….
func (s *Source) violations(n int) int { return int(s.Options.SoftViolations*float64(n) + 1e-9) }

// splitStream separates the episodes of the held-out split from those of the training split, even for equal seeds. Its
// value is arbitrary.
const splitStream = 0x9e3779b97f4a7c15

// Reseed sets own to the random stream of an episode of the split.
func (s *Source) Reseed(own *pcg.Source, rng *rand.Rand) {
	seed := rng.Uint64()
	if s.Options.Split == SplitHeldOut {
		seed ^= splitStream
	}
	own.Seed(seed)
}

// DrawBatch appends the applications of a batch's containers in the order of placement.
func (s *Source) DrawBatch(rng *rand.Rand, queue []uint8) []uint8 {
	if s.batches == nil {
		var count lra.Counts
		n := s.Options.Containers
		if low := s.Options.MinContainers; low > 0 {
			n = low + rng.IntN(n-low+1)
		}
		for range n {
			a := rng.IntN(lra.NumApps)
			count[a]++
			queue = append(queue, uint8(a))
		}
		if s.Options.Order == OrderApps {
			queue = appendApps(queue[:0], count)
		}
		return queue
	}
	queue = appendApps(queue, s.batches[rng.IntN(len(s.batches))])
	if s.Options.Order == OrderShuffled {
		for i := len(queue) - 1; i > 0; i-- {
			j := rng.IntN(i + 1)
			queue[i], queue[j] = queue[j], queue[i]
		}
	}
	return queue
}

func appendApps(queue []uint8, batch lra.Counts) []uint8 {
	for a, k := range batch {
		for range k {
			queue = append(queue, uint8(a))
		}
	}
	return queue
}
