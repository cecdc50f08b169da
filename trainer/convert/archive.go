package convert

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// paiHeaders holds the header lines of Alibaba's trace of 2020, whose tables are published without them.
var paiHeaders = map[string]string{
	"pai_machine_spec": "machine,gpu_type,cap_cpu,cap_mem,cap_gpu",
	"pai_task_table":   "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
}

func pai(j *job) error {
	for _, name := range []string{"pai_machine_spec", "pai_task_table"} {
		err := j.unpack("source/pai/"+name+".tar.gz", name+".csv", func(r io.Reader) error {
			return j.write("pai/"+name+".csv", func(w io.Writer) error {
				if _, err := io.WriteString(w, paiHeaders[name]+"\n"); err != nil {
					return err
				}
				_, err := io.Copy(w, r)
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func philly(j *job) error {
	for _, file := range []string{"cluster_machine_list.csv", "cluster_job_log.json"} {
		member, _, _ := strings.Cut(file, ".")
		err := j.unpack("source/philly/trace-data.tar.gz", member, func(r io.Reader) error {
			return j.write("philly/"+file, func(w io.Writer) error {
				_, err := io.Copy(w, r)
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func helios(j *job) error {
	name := j.in("source/helios/data.zip")
	z, err := zip.OpenReader(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = z.Close() }() // opened only for reading
	for _, cluster := range []string{"Earth", "Saturn", "Uranus", "Venus"} {
		for _, file := range []string{"cluster_gpu_number.csv", "cluster_log.csv"} {
			f, err := z.Open("data/" + cluster + "/" + file)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			err = j.write("helios/"+cluster+"/"+file, func(w io.Writer) error {
				_, err := io.Copy(w, dataset.UntilDone(j.ctx, f))
				return err
			})
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func alibaba(j *job) error {
	for _, name := range []string{"container_meta", "container_usage"} {
		err := j.unpack("source/alibaba/"+name+".tar.gz", name+".csv", func(r io.Reader) error {
			return j.write("alibaba/"+name+".csv.gz", func(w io.Writer) error {
				z := gzip.NewWriter(w)
				if _, err := io.Copy(z, r); err != nil {
					return err
				}
				return z.Close()
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unpack calls read with the named file of an archive, in whatever folder it is, and then reads the rest of the
// archive, because the checksum is at its end.
func (j *job) unpack(archive, member string, read func(io.Reader) error) error {
	name := j.in(archive)
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened only for reading
	z, err := gzip.NewReader(dataset.UntilDone(j.ctx, f))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s has no file %s", name, member)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Typeflag != tar.TypeReg || path.Base(h.Name) != member {
			continue
		}
		if err := read(t); err != nil {
			return fmt.Errorf("%s: %s: %w", name, h.Name, err)
		}
		if _, err := io.Copy(io.Discard, z); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
}
