package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"shuultuur/proxy/upstream"
)

func TestPortsAreReadAsSquidsAre(t *testing.T) {
	for _, tt := range []struct {
		text      string
		yes, no   []uint16
		fault     string
		connected bool // the ports of CONNECT
	}{
		{"", []uint16{80, 21, 443, 70, 210, 280, 488, 591, 777, 1025, 8080, 65535}, []uint16{0, 1, 22, 25, 110, 143, 587, 1024, 6379, 11211}, "", false},
		{"safe-ports: any", []uint16{1, 25, 6379, 65535}, []uint16{0}, "", false},
		{"safe-ports: [80, 8000-8100]", []uint16{80, 8000, 8100}, []uint16{81, 7999, 8101}, "", false},
		{"safe-ports: 80", []uint16{80}, []uint16{81}, "", false},
		{"safe-ports: [80, 9-1]", nil, nil, `safe-ports[1]: "9-1" is neither`, false},
		{"safe-ports: 65536", nil, nil, `safe-ports[0]: "65536" is neither`, false},
		{"", []uint16{443, 8443}, []uint16{22, 80}, "", true},
		{"connect-ports: any", []uint16{22, 443}, []uint16{0}, "", true},
		{"connect-ports: [any]", []uint16{22, 443}, nil, "", true},
		{"connect-ports: [443, 9000-9001]", []uint16{443, 9001}, []uint16{8443}, "", true},
	} {
		var cfg Config
		if err := yaml.Unmarshal([]byte(tt.text), &cfg); err != nil {
			t.Fatalf("%s: %v", tt.text, err)
		}
		p, err := New(cfg, &Engine{Decider: judge{}, Identify: anybody}, nil, nil)
		if tt.fault != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.fault) {
				t.Errorf("setting %s: got error %v, want %s…", tt.text, err, tt.fault)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", tt.text, err)
		}
		set := p.safePorts
		if tt.connected {
			set = p.connectPorts
		}
		for _, port := range tt.yes {
			if !set.has(port) {
				t.Errorf("setting %q refuses port %d, want it permitted", tt.text, port)
			}
		}
		for _, port := range tt.no {
			if set.has(port) {
				t.Errorf("setting %q permits port %d, want it refused", tt.text, port)
			}
		}
	}
}

func TestRequestsToPortsOfOtherProtocolsAreRefused(t *testing.T) {
	r := start(t, Config{}, Engine{})
	for _, port := range []int{22, 25, 587, 6379} {
		got := r.talk(fmt.Sprintf("POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\nHELO x", port))
		if !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, fmt.Sprint("port ", port)) {
			t.Errorf("request to port %d: got %q, want 403 that names the port", port, got)
		}
	}
}

func TestRelaxedIsForResponses(t *testing.T) {
	const odd = "HTTP/1.1 200 OK\nContent-Length: 2\nA: b\n c\nContent-Length: 2\n\nok"
	for relaxed, want := range map[bool]string{false: "HTTP/1.1 502 ", true: "HTTP/1.1 200 OK\r\nA: b c\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"} {
		o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
			for readHead(br) != "" {
				io.WriteString(c, odd)
			}
		})
		r := start(t, Config{Upstream: upstream.Config{Relaxed: relaxed}}, Engine{})
		if got := r.talk("GET http://" + o + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, want) {
			t.Errorf("relaxed: %v: got %q, want %q", relaxed, got, want)
		}
		if got := r.talk("GET http://" + o + "/ HTTP/1.1\nHost: x\nConnection: close\n\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("relaxed: %v: a request with bare LF got %q, want 400", relaxed, got)
		}
	}
}

func TestConnectionsAreKeptForOtherClients(t *testing.T) {
	greedy, modest := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	c := clients{n: map[netip.Addr]int{}}
	open := int64(0)
	for open < 640 && c.enter(greedy, anyNumber, open+1, 640) {
		open++
	}
	if open != 480 {
		t.Errorf("one client got %d connections of 640, want 480: all but a quarter", open)
	}
	other := 0
	for open < 640 && c.enter(modest, anyNumber, open+1, 640) {
		open++
		other++
	}
	if other != 21 { // a thirty-second, and one
		t.Errorf("another client got %d of the reserved connections, want 21", other)
	}
	if !c.enter(netip.MustParseAddr("10.0.0.3"), anyNumber, 640, 640) {
		t.Error("a client without connections was refused the last one")
	}
	if c.enter(modest, 21, 1, 640) || !c.enter(modest, 22, 640, 640) {
		t.Error("connections-client is set, but something else limits the client")
	}
}

func TestFilesLimitConnections(t *testing.T) {
	for files, want := range map[int64]int64{1 << 20: 524160, 1024: 384, 512: 128, 256: 64, 4: 1, 0: 1} {
		if got := connectionsFor(files); got != want {
			t.Errorf("connectionsFor(%d) = %d, want %d", files, got, want)
		}
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Skip(err)
	}
	p := &Proxy{limits: limits{connections: 1 << 40}}
	var logged strings.Builder
	p.log = slog.New(slog.NewTextHandler(&logged, nil))
	p.connections = limitFiles(p.connections, p.log)
	if int64(p.connections) != min(connectionsFor(int64(l.Cur)), 1<<31-1) || l.Cur < 1<<30 && !strings.Contains(logged.String(), "limit of open files is too low") {
		t.Errorf("limit of %d files: got %d connections, log %q", l.Cur, p.connections, logged.String())
	}
}
