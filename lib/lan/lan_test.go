package lan

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	udpHead = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
	stub    = "  123: 3500007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 0\n"
	every   = "  124: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n"
	every6  = "  124: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4713 2 0000000000000000 0\n"
	other   = "  125: 1401A8C0:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4714 2 0000000000000000 0\n"
	route   = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\nenp1s0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\nenp1s0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
)

// A fake is a machine of files, whose programs hold port 53 until they are started again.
type fake struct {
	t       *testing.T
	machine Machine
	calls   []string
	after   string // the table of UDP sockets when a program has started again
	fails   error  // of systemctl
}

func newFake(t *testing.T, table string, processes map[string]string) *fake {
	f := &fake{t: t, machine: Machine{Root: t.TempDir()}, after: udpHead}
	f.machine.Run = func(_ context.Context, name string, args ...string) error {
		f.calls = append(f.calls, name+" "+strings.Join(args, " "))
		if _, err := os.Stat(filepath.Join(f.machine.Root, resolvedFile)); err == nil {
			f.write("proc/net/udp", f.after)
		} else if _, err := os.Stat(filepath.Join(f.machine.Root, dnsmasqFile)); err == nil {
			f.write("proc/net/udp", f.after)
		} else {
			f.write("proc/net/udp", table)
		}
		return f.fails
	}
	f.write("proc/net/udp", table)
	for inode, name := range processes {
		f.write("proc/"+inode+"/comm", name+"\n")
		link := filepath.Join(f.machine.Root, "proc", inode, "fd/7")
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("socket:["+inode+"]", link)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fake) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.machine.Root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func TestWhoHasAPort(t *testing.T) {
	for _, c := range []struct {
		name, table string
		processes   map[string]string
		want        string
		yields      bool
		blocks      bool // for 192.168.1.20
	}{
		{"nobody", udpHead + other, nil, "", false, false},
		{"no table", "", nil, "", false, false},
		{"the stub, seen by its administrator", udpHead + stub, map[string]string{"4711": "systemd-resolve"}, "systemd-resolved at 127.0.0.53:53", true, false},
		{"the stub, seen by a service without rights", udpHead + stub, nil, "systemd-resolved at 127.0.0.53:53", true, false},
		{"dnsmasq everywhere", udpHead + every + other, map[string]string{"4712": "dnsmasq"}, "dnsmasq at 0.0.0.0:53", true, true},
		{"named", udpHead + every, map[string]string{"4712": "named"}, "named at 0.0.0.0:53", false, true},
		{"unknown", udpHead + every, nil, "0.0.0.0:53", false, true},
		{"lines that are none", udpHead + "x\n 1: zz:0035 a 07 b c d 0 0 99\n 2: 00:0035 a 07 b c d 0 0 99\n", nil, "", false, false},
	} {
		f := newFake(t, c.table, c.processes)
		all := f.machine.Holders(53)
		var got string
		for _, h := range all {
			got += h.String()
			if h.Yields() != c.yields || h.Blocks(netip.MustParseAddr("192.168.1.20")) != c.blocks {
				t.Errorf("%s: yields %v and blocks %v, want %v and %v", c.name, h.Yields(), h.Blocks(netip.MustParseAddr("192.168.1.20")), c.yields, c.blocks)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	f := newFake(t, udpHead, nil)
	f.write("proc/net/udp6", udpHead+every6)
	if all := f.machine.Holders(53); len(all) != 1 || !all[0].Blocks(netip.MustParseAddr("10.0.0.1")) {
		t.Errorf("a socket for both families: %v", all)
	}
}

// TestPort53IsFreedOrPutBack: the stub is moved aside, and comes back when anything fails.
func TestPort53IsFreedOrPutBack(t *testing.T) {
	lan := netip.MustParseAddr("192.168.1.20")
	for _, c := range []struct {
		name, table string
		process     map[string]string
		after       string
		fails       error
		works       error
		file        string // is there in the end
		says        string
	}{
		{"the stub", udpHead + stub, map[string]string{"4711": "systemd-resolve"}, udpHead, nil, nil, resolvedFile, ""},
		{"dnsmasq", udpHead + every, map[string]string{"4712": "dnsmasq"}, udpHead, nil, nil, dnsmasqFile, ""},
		{"a look-up fails", udpHead + stub, map[string]string{"4711": "systemd-resolve"}, udpHead, nil, errors.New("no answer"), "", "no answer"},
		{"it does not start again", udpHead + stub, map[string]string{"4711": "systemd-resolve"}, udpHead, errors.New("unit failed"), nil, "", "unit failed"},
		{"named", udpHead + every, map[string]string{"4712": "named"}, udpHead, nil, nil, "", "by hand"},
	} {
		f := newFake(t, c.table, c.process)
		f.after, f.fails = c.after, c.fails
		link := filepath.Join(f.machine.Root, resolvFile)
		f.write("etc/hosts", "")
		if err := os.Symlink("../run/systemd/resolve/stub-resolv.conf", link); err != nil {
			t.Fatal(err)
		}
		undo, err := f.machine.Free(t.Context(), lan, func(context.Context) error { return c.works })
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		there := func() (files []string) {
			for _, name := range []string{resolvedFile, dnsmasqFile} {
				if _, err := os.Stat(filepath.Join(f.machine.Root, name)); err == nil {
					files = append(files, name)
				}
			}
			return files
		}
		if got := strings.Join(there(), " "); got != c.file {
			t.Errorf("%s: the files %q are there, want %q", c.name, got, c.file)
		}
		to, _ := os.Readlink(link)
		if want := c.file == resolvedFile; (to == "../run/systemd/resolve/resolv.conf") != want {
			t.Errorf("%s: programs of this machine ask by %s", c.name, to)
		}
		if err == nil {
			if err := undo(t.Context()); err != nil || there() != nil {
				t.Errorf("%s: undo: %v, the files %q are there", c.name, err, there())
			}
			if to, _ := os.Readlink(link); to != "../run/systemd/resolve/stub-resolv.conf" {
				t.Errorf("%s: after undo, programs of this machine ask by %s", c.name, to)
			}
		}
		if c.name == "the stub" && !slices.Contains(f.calls, "systemctl restart systemd-resolved") {
			t.Errorf("the commands were %q", f.calls)
		}
	}
}

func TestOnlyAnAdministratorMovesProgramsAside(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	f := newFake(t, udpHead+stub, nil)
	if err := os.Mkdir(filepath.Join(f.machine.Root, "etc"), 0o555); err != nil {
		t.Fatal(err)
	}
	if _, err := f.machine.Free(t.Context(), netip.MustParseAddr("192.168.1.20"), nil); !errors.Is(err, ErrRight) {
		t.Errorf("without rights: %v", err)
	}
}

func TestTheRouterAndTheServersOfTheNetwork(t *testing.T) {
	f := newFake(t, udpHead, nil)
	if _, r := f.machine.Router(); r.IsValid() || f.machine.NameServers() != nil {
		t.Error("a machine without files has a router or name servers")
	}
	f.write("proc/net/route", route)
	f.write("etc/resolv.conf", "nameserver 127.0.0.53\noptions edns0\n")
	if got := f.machine.NameServers(); got != nil {
		t.Errorf("a machine that asks itself: %v", got)
	}
	f.write("run/systemd/resolve/resolv.conf", "# x\nnameserver 192.168.1.1\nnameserver fe80::1%eth0\nnameserver 192.168.1.1\nnameserver 9.9.9.9\nnameserver\n")
	if card, r := f.machine.Router(); card != "enp1s0" || r.String() != "192.168.1.1" {
		t.Errorf("the router is %s at %s", r, card)
	}
	if got := fmt.Sprint(f.machine.NameServers()); got != "[192.168.1.1 9.9.9.9]" {
		t.Errorf("the name servers are %s", got)
	}
}

// TestARealProcessHoldsAPort: another process is found by its socket.
func TestARealProcessHoldsAPort(t *testing.T) {
	if _, err := os.Stat("/proc/net/udp"); err != nil {
		t.Skip("this system has no such table")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "TestHoldsAPort")
	cmd.Env = append(os.Environ(), "HOLDS_A_PORT=yes")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at, err := netip.ParseAddrPort(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	all := Machine{}.Holders(at.Port())
	if len(all) != 1 || all[0].Process != cmd.Process.Pid || all[0].Addr != at || all[0].Program == "" || all[0].Yields() {
		t.Errorf("the holders of %s are %+v, want process %d", at, all, cmd.Process.Pid)
	}
}

// TestHoldsAPort is the other process.
func TestHoldsAPort(t *testing.T) {
	if os.Getenv("HOLDS_A_PORT") == "" {
		t.Skip("another test starts this")
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.LocalAddr())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the other test ends
}
