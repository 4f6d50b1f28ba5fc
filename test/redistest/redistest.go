// Package redistest starts real Redis servers for tests, or Valkey where Redis is not
// installed: a single server, a cluster, or a Sentinel that watches one. Each has its own
// folder and ports on loopback, writes nothing to disk unless configured to, and ends with the
// test.
//
// A test that needs a server and finds none installed is skipped and names the package to
// install; test/setup.sh installs it on Debian.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/test/peer"
)

// patience is how long a server may take to start, or a cluster to agree.
const patience = 20 * time.Second

// A Server is one running redis-server.
type Server struct {
	Addr string // host:port, the same after a Restart
	Dir  string // its working folder, with the files that its arguments name

	program string
	args    []string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended

	mu     sync.Mutex
	client *redis.Client
}

// Start starts a server with further arguments, such as "--maxmemory", "1mb". It fails the test
// if the server does not start, and ends the server with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, nil, args)
}

// StartValkey is Start with Valkey, even where Redis is installed.
func StartValkey(t testing.TB, args ...string) *Server {
	t.Helper()
	return startProgram(t, peer.Program(t, "valkey-server"), nil, args)
}

func start(t testing.TB, own func() []string, args []string) *Server {
	t.Helper()
	return startProgram(t, peer.Program(t, "redis-server", "valkey-server"), own, args)
}

// startProgram starts a server. own makes the arguments that must change when the port is
// taken; they go first.
func startProgram(t testing.TB, program string, own func() []string, args []string) *Server {
	t.Helper()
	s := &Server{Dir: t.TempDir(), program: program}
	t.Cleanup(func() {
		if s.client != nil {
			s.client.Close()
		}
		s.Stop()
	})
	// Another process may take a free port before it is used.
	for try := 0; ; try++ {
		port := peer.Port(t)
		s.Addr = "127.0.0.1:" + port
		s.args = nil
		if own != nil {
			s.args = own()
		}
		s.args = append(s.args, "--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", filepath.Join(s.Dir, "log"))
		s.args = append(s.args, args...)
		err := s.run(t)
		if err == nil {
			return s
		}
		if try == 4 {
			t.Fatalf("starting redis-server: %v", err)
		}
	}
}

// run starts the program and waits until it answers.
func (s *Server) run(t testing.TB) error {
	s.cmd = peer.Command(t, s.program, s.args...)
	s.cmd.Dir = s.Dir
	var out bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &out, &out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		cmd.Wait() //nolint:errcheck // how it ended is in its log
		close(ended)
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-ended:
			b, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("%s ended: %s%s", strings.Join(s.cmd.Args, " "), out.Bytes(), b)
		default:
		}
		if s.answers() {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.Stop()
	return errors.New("it does not answer")
}

// answers reports whether the server answers and has loaded its data.
func (s *Server) answers() bool {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the read says it
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	b := make([]byte, 32)
	n, err := c.Read(b)
	return err == nil && (bytes.HasPrefix(b[:n], []byte("+PONG")) || bytes.HasPrefix(b[:n], []byte("-NOAUTH")))
}

// Do sends one command to this server and returns the reply. An error fails the test.
func (s *Server) Do(t testing.TB, words ...string) redis.Reply {
	t.Helper()
	r, err := s.Try(t, words...)
	if err != nil {
		t.Fatalf("%.200s: %v", strings.Join(words, " "), err)
	}
	return r
}

// Try is Do that returns the error. It waits for a server that has just been
// restarted.
func (s *Server) Try(t testing.TB, words ...string) (r redis.Reply, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var b redis.Batch
		b.Add(words...)
		if s.client == nil {
			s.client, err = redis.Connect(ctx, redis.Config{Addresses: []string{s.Addr}}, redis.Options{})
		}
		if s.client != nil {
			err = s.client.DoAt(ctx, s.Addr, &b)
		}
		switch {
		case err == nil:
			return b.Reply(0), nil
		case redis.Code(err) != "" || ctx.Err() != nil:
			return r, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Stop kills the server as a power cut would.
func (s *Server) Stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-s.ended
	}
}

// Restart starts a stopped server at the same address. Its data is lost unless its arguments
// make it persistent.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := s.run(t); err != nil {
		t.Fatalf("restarting redis-server: %v", err)
	}
}

// Pause makes the server hang: connections stay, nothing answers.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("sending %v to redis-server: %v", sig, err)
	}
}

// slots is the number of slots of a cluster.
const slots = 16384

// StartCluster starts a cluster of n masters that share the slots, and returns
// when all of them agree that it works.
func StartCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	var all []*Server
	for range n {
		s := start(t, func() []string {
			return []string{"--cluster-enabled", "yes", "--cluster-port", peer.Port(t), "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf"}
		}, args)
		all = append(all, s)
	}
	for i, s := range all {
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		s.Do(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
	}
	_, port, _ := net.SplitHostPort(all[0].Addr)
	for _, s := range all[1:] {
		s.Do(t, "CLUSTER", "MEET", "127.0.0.1", port, all[0].busPort())
	}
	for _, s := range all {
		s.await(t, "cluster_state:ok", "CLUSTER", "INFO")
		s.await(t, "cluster_known_nodes:"+strconv.Itoa(n), "CLUSTER", "INFO")
	}
	return all
}

func (s *Server) busPort() string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

// await repeats a command until the answer contains text.
func (s *Server) await(t testing.TB, text string, words ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		m := s.Do(t, words...)
		got, _ := m.Text()
		if strings.Contains(got, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s says\n%s\nand never %q", strings.Join(words, " "), got, text)
		}
	}
}

// StartSentinel starts a Sentinel that watches master under name, and returns
// its address.
func StartSentinel(t testing.TB, master *Server, name string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 1000\n", name, host, port, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, func() []string { return []string{file, "--sentinel"} }, nil)
}
