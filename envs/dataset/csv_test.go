package dataset

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

func TestTable(t *testing.T) {
	table := NewTable("p: ", "f.csv", strings.NewReader("\ufeffa, b\r\n 1 ,2\r\n\r\n\"x\ny\",3\n"))
	if err := table.ReadHeader(); err != nil {
		t.Fatal(err)
	}
	index, err := table.Columns("b", "a")
	if diff := cmp.Diff([]int{1, 0}, index); diff != "" || err != nil {
		t.Errorf("Columns: %v (-want +got):\n%s", err, diff)
	}
	for _, want := range [][]string{{"1", "2"}, {"x\ny", "3"}} {
		row, err := table.Next()
		if diff := cmp.Diff(want, row); diff != "" || err != nil {
			t.Errorf("Next: %v (-want +got):\n%s", err, diff)
		}
	}
	if _, err := table.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last row: %v, want io.EOF", err)
	}
}

// TestErrorsNameThePlace counts lines as an editor does.
func TestErrorsNameThePlace(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "p: f.csv:1: empty file, want a header line with a, b"},
		{"no column", "a,c\n", `p: f.csv:1: no column "b" among ["a" "c"]`},
		{"too few fields", "a,b\n1,2\n\n3\n", "p: f.csv:4: 1 fields, want the header's 2"},
		{"a quote within", "a,b\n1,\"2\n", "p: f.csv:2: extraneous or missing"},
		{"no number", "a,b\n1,x\n", `p: f.csv:2: b "x" is not a number`},
		{"no finite number", "a,b\n1,1e999\n", `p: f.csv:2: b "1e999" is not`},
		{"infinite", "a,b\n1,-Inf\n", `p: f.csv:2: b "-Inf" is not finite`},
	} {
		if err := read(tc.text); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %s", tc.name, err, tc.want)
		}
	}
}

// read reads column b of text as numbers.
func read(text string) error {
	t := NewTable("p: ", "f.csv", strings.NewReader(text))
	if err := t.ReadHeader("a", "b"); err != nil {
		return err
	}
	at, err := t.Columns("b")
	if err != nil {
		return err
	}
	for row, err := range t.Rows() {
		if err != nil {
			return err
		}
		if err := t.Numbers(make([]float64, 1), row, at); err != nil {
			return err
		}
	}
	return nil
}

func TestReadFile(t *testing.T) {
	path := envstest.TempFile(t, "f.csv", "a,b\n1,2\n3,4\n")
	parse := func(name string, r io.Reader) (sums []float64, err error) {
		table, err := Open("p: ", name, r)
		if err != nil {
			return nil, err
		}
		for row, err := range table.Rows() {
			var v [2]float64
			if err := errors.Join(err, table.Numbers(v[:], row, []int{1, 0})); err != nil {
				return nil, err
			}
			sums = append(sums, 10*v[0]+v[1])
		}
		return sums, nil
	}
	got, err := ReadFile(path, parse)
	if diff := cmp.Diff([]float64{21, 43}, got); diff != "" || err != nil {
		t.Errorf("ReadFile: %v (-want +got):\n%s", err, diff)
	}
	if _, err := ReadFile(path+".no", parse); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadFile of a missing file: %v, want %v", err, os.ErrNotExist)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("a,b\n1,2\n")
	f.Add("\ufeffa,b\r\n\"1\",\n")
	f.Fuzz(func(t *testing.T, text string) { _ = read(text) })
}
