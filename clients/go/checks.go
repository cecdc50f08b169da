package client

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// checkVersion rejects the version of a session that this client does not speak.
func checkVersion(server string, version []int) error {
	if len(version) != 2 || version[0] != wire.Major {
		return fmt.Errorf("client: the server %q speaks version %v of the protocol, want [%d, minor]", server, version, wire.Major)
	}
	return nil
}

// decoded rejects the masks of the last reply, whose n rows were decoded into b with err, if one permits nothing: a
// learner cannot act then. Rows whose episode has ended need no action. Those that were never reset, which only the
// reply to a reset has, are zeros.
func (v *VecEnv) decoded(err error, b *envs.Batch, n int, reset *envs.VecResetOptions) error {
	if err != nil || v.frame.Get("mask") == nil {
		return err
	}
	k := v.layout.Mask
	for i := range n {
		fresh := reset == nil || reset.Mask == nil || reset.Mask[i]
		if !fresh || v.mode != envs.SameStep && b.Done(i) {
			continue
		}
		if !permits(v.act, b.Mask[i*k:(i+1)*k]) {
			return wire.Errorf(wire.BadField, "the action mask of row %d permits nothing", i)
		}
	}
	return nil
}

// permits reports whether a mask permits a value of each element of an action.
func permits(act space.Space, mask []bool) bool {
	switch a := act.(type) {
	case space.MultiDiscrete:
		for _, n := range a.NVec {
			if !slices.Contains(mask[:n], true) {
				return false
			}
			mask = mask[n:]
		}
		return true
	case space.MultiBinary:
		for i := range a.N {
			if !mask[2*i] && !mask[2*i+1] {
				return false
			}
		}
		return true
	}
	return slices.Contains(mask, true)
}
