package envs

// Open returns the [Spec.Open] of an environment whose options are the struct O. It decodes the options over defaults,
// as [DecodeOptions] does, and calls load once for all copies: load checks the options and reads what the copies share.
// task then makes the task of each environment from the result of load.
func Open[O, S any, T Task](defaults func() O, load func(O) (S, error), task func(S) T) func(opts map[string]any) (Maker, error) {
	return func(opts map[string]any) (Maker, error) {
		o := defaults()
		if err := DecodeOptions(opts, &o); err != nil {
			return nil, err
		}
		shared, err := load(o)
		if err != nil {
			return nil, err
		}
		return func() (Task, error) { return task(shared), nil }, nil
	}
}
