package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// readArgs reads and checks the arguments. An unknown field is an error.
func readArgs(obj runtime.Object) (schedulerconfig.Args, labels.Selector, error) {
	a := schedulerconfig.Args{}
	if raw, ok := obj.(*runtime.Unknown); ok {
		if err := yaml.UnmarshalStrict(raw.Raw, &a); err != nil {
			return a, nil, fmt.Errorf("%s: arguments: %w", Name, err)
		}
	}
	a.Budget.Duration = cmp.Or(a.Budget.Duration, 100*time.Millisecond)
	a.ReloadEvery.Duration = cmp.Or(a.ReloadEvery.Duration, 5*time.Second)
	a.Order = cmp.Or(a.Order, schedulerconfig.OrderRespect)
	if a.Margin == nil {
		a.Margin = new(int64)
		*a.Margin = schedulerconfig.DefaultMargin
	}
	if orders := []string{schedulerconfig.OrderRespect, schedulerconfig.OrderPolicy, schedulerconfig.OrderTiebreak}; !slices.Contains(orders, a.Order) {
		return a, nil, fmt.Errorf("%s: order %q, want one of %s", Name, a.Order, strings.Join(orders, ", "))
	}
	if a.Budget.Duration < 0 || a.ReloadEvery.Duration < 0 || *a.Margin < 0 {
		return a, nil, fmt.Errorf("%s: budget %v, reloadEvery %v, margin %d, want none below 0", Name, a.Budget.Duration, a.ReloadEvery.Duration, *a.Margin)
	}
	selector, err := labels.Parse(a.NodeSelector)
	if err != nil {
		return a, nil, fmt.Errorf("%s: nodeSelector: %w", Name, err)
	}
	return a, selector, nil
}
