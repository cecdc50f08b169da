package envs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/space"
)

// Features names the elements of one part of an observation: of a Box, or of a Dict's part. The
// elements of a part are rows that follow one another, and all rows have the same names.
type Features struct {
	Part  string   // key of the part in the Dict; "" if the observation is a Box
	Row   string   // what a row stands for, such as "node"; "" if the part is one row
	Names []string // of a row's elements, in their order; unique within the part
}

// FeatureNamer is implemented by tasks that name the elements of their observations, for plots,
// feature importance and clients. Names depend on options as spaces do.
type FeatureNamer interface {
	// Features returns the names, one Features for each Box of the observation space, in its order.
	Features() []Features
}

// CheckFeatures returns an error unless f names each element of observations in obs once.
func CheckFeatures(obs space.Space, f []Features) error {
	boxes := []space.Field{{Space: obs}}
	if d, ok := obs.(space.Dict); ok {
		boxes = d.Fields
	}
	if len(f) != len(boxes) {
		return fmt.Errorf("envs: features of %d parts for an observation of %d", len(f), len(boxes))
	}
	var errs []error
	for i, box := range boxes {
		size, n := box.Space.Size(), len(f[i].Names)
		unique := slices.Compact(slices.Sorted(slices.Values(f[i].Names)))
		switch {
		case f[i].Part != box.Key:
			errs = append(errs, fmt.Errorf("envs: features of part %q where the observation has %q", f[i].Part, box.Key))
		case n == 0 || size%n != 0 || f[i].Row == "" && size != n:
			errs = append(errs, fmt.Errorf("envs: part %q has %d elements and rows of %d names", box.Key, size, n))
		case len(unique) != n || unique[0] == "":
			errs = append(errs, fmt.Errorf("envs: part %q has names that are empty or occur twice: %q", box.Key, f[i].Names))
		}
	}
	return errors.Join(errs...)
}

// Features returns the names of the observation's elements, or nil if the task names none.
func (v *Vec) Features() []Features {
	if namer, ok := v.envs[0].task.(FeatureNamer); ok {
		return namer.Features()
	}
	return nil
}
