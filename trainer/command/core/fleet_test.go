package core

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// rebuiltWithin is how long the environments of a killed server may take to be made again elsewhere; on a quiet machine
// it is below 0.1 s.
const rebuiltWithin = 5 * time.Second

// envsOn returns how many environments the servers hold.
func envsOn(servers []*victim) int {
	sum := 0
	for _, v := range servers {
		n, _ := strconv.Atoi(v.metric("kubernasium_envs")) // one that was killed has none
		sum += n
	}
	return sum
}

// TestTrainOnFleet trains on four servers in processes of their own, one of which is killed in the middle and stays
// dead. Its environments are made again on the others, and the training ends with the bytes of one in this process.
func TestTrainOnFleet(t *testing.T) {
	steps := "8192"
	if testing.Short() {
		steps = "4096"
	}
	want := parameters(t, steps)
	var servers []*victim
	var args []string
	for range 4 {
		v := startVictim(t)
		servers, args = append(servers, v), append(args, "--url", "ws://"+v.address)
	}
	folder := t.TempDir()
	var ended atomic.Bool
	killed := make(chan int, 1)
	go func() { killed <- killInMiddle(t, folder, servers, &ended) }()
	got := parametersIn(t, folder, steps, args...)
	ended.Store(true)
	dead := <-killed
	if got != want {
		t.Error("the training on four servers, one of which was killed, ends in other parameters than the one in process")
	}
	for k, v := range servers {
		if k != dead {
			v.kill()
		}
		if v.crashes > 0 {
			t.Errorf("server %d crashed: %s", k, v.log.String())
		}
	}
}

// killInMiddle waits for the 30th episode of the training in folder, kills a server that has environments, and waits
// until the others have them. It returns which server it has killed.
func killInMiddle(t *testing.T, folder string, servers []*victim, ended *atomic.Bool) int {
	monitor := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "monitor.csv")
	for {
		data, _ := os.ReadFile(monitor) // it is not there at first
		if bytes.Count(data, []byte("\n")) >= 30 {
			break
		}
		if ended.Load() {
			t.Error("the training ended before the 30th episode")
			return -1
		}
		time.Sleep(time.Millisecond)
	}
	before, dead := envsOn(servers), 0
	for k := range servers {
		if envsOn(servers[k:k+1]) > 0 {
			dead = k
		}
	}
	begin := time.Now()
	servers[dead].kill()
	if ended.Load() {
		t.Error("the training ended before a server was killed")
	}
	for !ended.Load() && envsOn(servers) < before {
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(begin)
	t.Logf("%d environments on four servers; those of server %d were elsewhere after %v", before, dead, took.Round(time.Millisecond))
	if ended.Load() || took > rebuiltWithin {
		t.Errorf("the environments of the killed server were not on the others within %v", rebuiltWithin)
	}
	return dead
}
