package envs

// Features names the elements of one part of an observation: of a Box, or of a Box in a Dict. The
// part consists of consecutive rows, which all have the same names.
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

// Features returns the names of the observation's elements, or nil if the task names none.
func (v *Vec) Features() []Features {
	if namer, ok := v.envs[0].task.(FeatureNamer); ok {
		return namer.Features()
	}
	return nil
}
