package reproduce

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare/published"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestInterruptReproduceFGD: lists that were played to the end are in the table and drawn.
func TestInterruptReproduceFGD(t *testing.T) {
	dir, plots := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		published.NodeFile:         "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\n",
		"openb_pod_list_one.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\np,1000,1024,1,500,,LS,Running,0,9,0\n",
		"openb_pod_list_three.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\nq,1000,1024,1,250,,LS,Running,0,9,0\n",
	} {
		envstest.Write(t, filepath.Join(dir, name), text)
	}
	args := []string{"reproduce", "fgd", "--all", "--data", dir, "--policy", "BestFit", "--plot", plots, "--json"}
	const seeds = 10 // that each list is played with
	_, text := root.Interrupted(t, clitest.EndsAfter(t, seeds+2), `interrupted: 1 of 2 lists are complete; .*--list`, args...)
	rows, whole := clitest.Decode[[]published.Row](t, text), clitest.Decode[[]published.Row](t, mustExecute(t, args...))
	if len(rows) != 1 || len(whole) != 2 || rows[0].List != "one" || rows[0].Mean != whole[0].Mean || len(rows[0].Runs) != seeds {
		t.Errorf("%+v, want the first row of %+v", rows, whole)
	}
	if text, _, err := execute(t, clitest.EndsAfter(t, 2), args...); !errors.Is(err, cli.ErrInterrupted) || text != "" {
		t.Errorf("in the first list: %v and\n%s\nwant an interrupt and no table", err, text)
	}
}
