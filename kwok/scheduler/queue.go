package scheduler

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// turn is what decides which of two pods comes first: the higher priority, then the earlier
// creation, then the earlier arrival.
type turn struct {
	priority int32
	created  time.Time
	seq      uint64
}

func compareTurns(t, u turn) int {
	return cmp.Or(cmp.Compare(u.priority, t.priority), t.created.Compare(u.created), cmp.Compare(t.seq, u.seq))
}

// newQueue returns the queue of pods to place. One that is added again after a failure waits from
// first to most, twice as long each time.
func newQueue(order func(types.UID) turn, first, most time.Duration) workqueue.TypedRateLimitingInterface[types.UID] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](first, most),
		workqueue.TypedRateLimitingQueueConfig[types.UID]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.UID]{Queue: &turns{order: order}}),
			}),
		})
}

// turns holds pods in the order of their turns, the next one last. Most arrive in their order, so
// that an insertion moves much memory but compares little.
type turns struct {
	order func(types.UID) turn
	items []turnOf
}

type turnOf struct {
	turn
	uid types.UID
}

var _ workqueue.Queue[types.UID] = (*turns)(nil)

// Touch implements [workqueue.Queue].
func (*turns) Touch(types.UID) {}

// Push implements [workqueue.Queue].
func (q *turns) Push(uid types.UID) {
	t := q.order(uid)
	i, _ := slices.BinarySearchFunc(q.items, t, func(a turnOf, t turn) int { return compareTurns(t, a.turn) })
	q.items = slices.Insert(q.items, i, turnOf{t, uid})
}

// Len implements [workqueue.Queue].
func (q *turns) Len() int { return len(q.items) }

// Pop implements [workqueue.Queue].
func (q *turns) Pop() types.UID {
	last := len(q.items) - 1
	uid := q.items[last].uid
	q.items = q.items[:last]
	return uid
}
