package envcheck

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// CheckFeatures returns an error unless f names each element of observations in obs once.
func CheckFeatures(obs space.Space, f []envs.Features) error {
	boxes := []space.Field{{Space: obs}}
	if d, ok := obs.(space.Dict); ok {
		boxes = d.Fields
	}
	if len(f) != len(boxes) {
		return fmt.Errorf("envcheck: features of %d parts for an observation of %d", len(f), len(boxes))
	}
	var errs []error
	for i, box := range boxes {
		size, n := box.Space.Size(), len(f[i].Names)
		unique := slices.Compact(slices.Sorted(slices.Values(f[i].Names)))
		switch {
		case f[i].Part != box.Key:
			errs = append(errs, fmt.Errorf("envcheck: features of part %q where the observation has %q", f[i].Part, box.Key))
		case n == 0 || size%n != 0 || f[i].Row == "" && size != n:
			errs = append(errs, fmt.Errorf("envcheck: part %q has %d elements and rows of %d names", box.Key, size, n))
		case len(unique) != n || unique[0] == "":
			errs = append(errs, fmt.Errorf("envcheck: part %q has names that are empty or occur twice: %q", box.Key, f[i].Names))
		}
	}
	return errors.Join(errs...)
}
