package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/kubernasium/kubernasium/kwok/filters"
)

// added is a queue that notes what it is given.
type added struct {
	workqueue.TypedRateLimitingInterface[types.UID]
	uids []types.UID
}

func (q *added) Add(uid types.UID) { q.uids = append(q.uids, uid) }

// TestRetryInTurn: pods that may fit now are queued by priority, then by age, so that a worker that waits takes the
// first of them first.
func TestRetryInTurn(t *testing.T) {
	var pods []*corev1.Pod
	want := []types.UID{"urgent", "old", "young", "low"}
	for name, rank := range map[string][2]int{"low": {1, 90}, "old": {5, 20}, "young": {5, 10}, "urgent": {9, 0}} {
		pods = append(pods, ranked(madePod(name, "", 1000, 1), int32(rank[0]), rank[1]))
	}
	q := &added{}
	s := &Scheduler{cache: cacheOf(nil, pods), queue: q, unfit: map[types.UID]*filters.Pod{}}
	for range 10 { // maps have no order
		for _, p := range pods {
			s.unfit[p.UID] = s.cache.rules(p.UID)
		}
		if s.retryUnfit(); !slices.Equal(q.uids, want) {
			t.Fatalf("queued %v, want %v", q.uids, want)
		}
		q.uids = nil
	}
}
