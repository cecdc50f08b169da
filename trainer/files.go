package main

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
)

// writeTo makes a file, or empties it, for write.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeCSV writes a file of a header and rows.
func writeCSV(path string, header []string, rows [][]string) error {
	return writeTo(path, func(w io.Writer) error {
		return csv.NewWriter(w).WriteAll(append([][]string{header}, rows...))
	})
}
