package cli

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
)

// WriteTo creates or empties a file and calls write with it. It does nothing for an empty path, that of a file that the
// user did not ask for.
func WriteTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// WriteCSV writes a file with a header and rows, as WriteTo does.
func WriteCSV(path string, header []string, rows [][]string) error {
	return WriteTo(path, func(w io.Writer) error {
		return csv.NewWriter(w).WriteAll(append([][]string{header}, rows...))
	})
}
