package clustertrace

// Read is [Load] from a Reader.
func Read(r *Reader) (*Trace, error) {
	t, err := read(r)
	if ignoreCut(err) != nil {
		return nil, err
	}
	return t, err
}
