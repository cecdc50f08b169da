// Package zktest starts ZooKeeper servers for tests.
package zktest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/kwok/procgroup"
)

// jar is the server's path in Debian's package zookeeper.
const jar = "/usr/share/java/zookeeper.jar"

const startTimeout = time.Minute // a start takes 1 s on an idle machine

// Start starts a server on loopback that ends with the test, and returns its address. It skips the test if
// ZooKeeper is not installed.
func Start(t *testing.T) string {
	t.Helper()
	java, err := exec.LookPath("java")
	if _, missing := os.Stat(jar); err != nil || missing != nil {
		t.Skip("needs ZooKeeper: apt-get install zookeeper; .ci/run does")
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	config := dir + "/zoo.cfg"
	text := fmt.Sprintf("tickTime=1000\ndataDir=%s/data\nclientPort=%s\nclientPortAddress=%s\nadmin.enableServer=false\n", dir, port, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(java, "-Xmx128m", "-Dzookeeper.admin.enableServer=false", "-cp", jar, "org.apache.zookeeper.server.ZooKeeperServerMain", config)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &log, &log, dir
	procgroup.Lead(cmd, true)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for timer := time.After(startTimeout); ; {
		conn, events, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		answered := answers(events, ended)
		conn.Close()
		select {
		case <-ended:
			t.Fatalf("ZooKeeper ended:\n%s", &log)
		case <-timer:
			t.Fatalf("ZooKeeper does not answer at %s", address)
		default:
			if answered {
				return address
			}
		}
	}
}

// answers waits for a session, but not long: a server that is just starting may accept a connection and never answer on it.
func answers(events <-chan zk.Event, ended <-chan struct{}) bool {
	for timer := time.After(5 * time.Second); ; {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return true
			}
		case <-ended:
			return false
		case <-timer:
			return false
		}
	}
}
