package recommender

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrUsage means that the content of a usage file is invalid. Errors wrap it.
var ErrUsage = errors.New("recommender: usage file")

// A Usage is a row of a usage file: the usage of a container at an instant.
type Usage struct {
	Time        time.Duration // since the Unix epoch, or any other start
	MilliCPU    int64
	MemoryBytes int64
	OOM         bool  // it was OOM-killed then
	OOMRequest  int64 // with this memory request in bytes
}

// Columns of a usage file.
const (
	columnTime = "time_s"
	columnCPU  = "cpu_m"
	columnMem  = "mem_b"
	columnOOM  = "oom_request_b"
)

// A UsageReader reads usage from CSV. The first line names the columns, in any order: time_s (seconds), cpu_m
// (millicores), mem_b (bytes), and, if there are OOM kills, oom_request_b, the memory request in bytes of a container
// killed after this sample, otherwise empty or 0. It rounds fractions of a millicore or byte up, as the metrics API
// does.
type UsageReader struct {
	csv                 *csv.Reader
	time, cpu, mem, oom int // columns; oom is -1 if there is none
	last                time.Duration
	started             bool
}

// NewUsageReader reads the line with the columns' names. It returns an error that wraps
// [ErrUsage] if one is missing, repeated or unknown.
func NewUsageReader(r io.Reader) (*UsageReader, error) {
	u := &UsageReader{csv: csv.NewReader(r)}
	u.csv.ReuseRecord = true
	u.csv.TrimLeadingSpace = true
	header, err := u.csv.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("%w: empty, want a line with the columns %s, %s, %s and perhaps %s", ErrUsage, columnTime, columnCPU, columnMem, columnOOM)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	known := []string{columnTime, columnCPU, columnMem, columnOOM}
	at := []int{-1, -1, -1, -1}
	for i, name := range header {
		k := slices.Index(known, strings.TrimSpace(name))
		if k < 0 {
			return nil, fmt.Errorf("%w: line 1: unknown column %q, want %s, %s, %s and perhaps %s", ErrUsage, name, columnTime, columnCPU, columnMem, columnOOM)
		}
		if at[k] >= 0 {
			return nil, fmt.Errorf("%w: line 1: column %s twice", ErrUsage, known[k])
		}
		at[k] = i
	}
	for k, i := range at[:3] {
		if i < 0 {
			return nil, fmt.Errorf("%w: line 1: no column %s, only %s", ErrUsage, known[k], strings.Join(header, ","))
		}
	}
	u.time, u.cpu, u.mem, u.oom = at[0], at[1], at[2], at[3]
	return u, nil
}

// Read reads the next row. It returns io.EOF after the last. Its error wraps [ErrUsage] and names line and column if a
// field is missing, not a finite number, negative, too large, or an earlier time than that of the previous row.
func (u *UsageReader) Read(row *Usage) error {
	record, err := u.csv.Read()
	if err == io.EOF {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	seconds, err := u.number(record, u.time, columnTime, -century.Seconds(), century.Seconds())
	if err != nil {
		return err
	}
	whole, fraction := math.Modf(seconds)
	t := time.Duration(whole)*time.Second + time.Duration(math.Round(fraction*1e9))
	if u.started && t < u.last {
		return u.errorf(u.time, columnTime, "time %s is before that of the sample above, %v s", record[u.time], u.last.Seconds())
	}
	cpu, err := u.number(record, u.cpu, columnCPU, 0, float64(MaxAmount))
	if err != nil {
		return err
	}
	mem, err := u.number(record, u.mem, columnMem, 0, float64(MaxAmount))
	if err != nil {
		return err
	}
	*row = Usage{Time: t, MilliCPU: int64(math.Ceil(cpu)), MemoryBytes: int64(math.Ceil(mem))}
	if u.oom >= 0 && strings.TrimSpace(record[u.oom]) != "" {
		request, err := u.number(record, u.oom, columnOOM, 0, float64(MaxAmount))
		if err != nil {
			return err
		}
		row.OOMRequest = int64(math.Ceil(request))
		row.OOM = row.OOMRequest > 0
	}
	u.last, u.started = t, true
	return nil
}

// number parses a field as a number in [low, high].
func (u *UsageReader) number(record []string, i int, column string, low, high float64) (float64, error) {
	text := strings.TrimSpace(record[i])
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "":
		return 0, u.errorf(i, column, "is empty, want a number")
	case err != nil || math.IsNaN(x) || math.IsInf(x, 0):
		return 0, u.errorf(i, column, "%q is not a finite number", text)
	case x < low && low == 0:
		return 0, u.errorf(i, column, "%s is negative", text)
	case x < low || x > high:
		return 0, u.errorf(i, column, "%s is out of range, want %.4g to %.4g", text, low, high)
	}
	return x, nil
}

func (u *UsageReader) errorf(i int, column, format string, args ...any) error {
	line, _ := u.csv.FieldPos(i)
	return fmt.Errorf("%w: line %d, column %s: %s", ErrUsage, line, column, fmt.Sprintf(format, args...))
}

// Replay feeds a usage file to r and calls each with the recommendation after every samples. It returns the first error
// of reading or of each.
func Replay(r *Recommender, file io.Reader, every int, each func(samples int, b Bounds) error) error {
	if every < 1 {
		return fmt.Errorf("recommender: every %d samples, want at least 1", every)
	}
	u, err := NewUsageReader(file)
	if err != nil {
		return err
	}
	state := r.NewState(0)
	var c Container
	var rec Recommendation
	var row Usage
	for samples := 1; ; samples++ {
		if err := u.Read(&row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		c.AddCPU(state, row.Time, row.MilliCPU) // fails only for repeated times
		c.AddMemory(state, row.Time, row.MemoryBytes)
		if row.OOM {
			if err := c.RecordOOM(state, row.Time, row.OOMRequest); err != nil {
				return err
			}
		}
		if samples%every != 0 {
			continue
		}
		state.Recommend(&rec)
		if err := each(samples, rec.Bounds); err != nil {
			return err
		}
	}
}
