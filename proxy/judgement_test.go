package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
)

// resolve makes the proxy know the address of a host.
func (r *rig) resolve(host, addr string) {
	n := &r.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]addresses{}
	}
	n.of[host] = addresses{list: []netip.Addr{netip.MustParseAddr(addr)}, until: time.Now().Add(time.Hour)}
}

// byCategory decides like a policy with rules for categories: it finds the categories of the
// host, and applies the first rule that matches a finding.
func byCategory(t *filter.Transaction, s filter.Stage) filter.Verdict {
	if s != filter.Name {
		return t.Verdict
	}
	if category := map[string]string{"localhost": "bank", "bet.test": "bet"}[t.Host]; category != "" {
		t.Findings = append(t.Findings, filter.Finding{Check: "category", Category: category, Evidence: t.Host})
	}
	for _, f := range t.Findings {
		switch f.Category {
		case "bet":
			return block("bet")
		case "bank":
			return filter.Verdict{Action: filter.Allow, Reason: filter.Reason{Finding: f}}
		}
	}
	return filter.Verdict{}
}

// byHost decides in the same way by the host itself.
func byHost(t *filter.Transaction, _ filter.Stage) filter.Verdict {
	switch {
	case t.Host == "bet.test":
		return block("bet")
	case t.Host == "localhost":
		return filter.Verdict{Action: filter.Allow}
	}
	return filter.Verdict{}
}

// A verdict that allows one name does not open a connection to another.
func TestAllowRulesBindToTheConnection(t *testing.T) {
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, "answer")
	})
	port := host[strings.IndexByte(host, ':'):]
	host = "127.0.0.1" + port // a name with no rule
	for rules, decide := range map[string]func(*filter.Transaction, filter.Stage) filter.Verdict{"category": byCategory, "host": byHost} {
		for _, tt := range []struct {
			name, connect, sni, header string
			decrypt                    bool
			addr                       string // of bank.test
			issuer                     string // of the certificate; "": no connection
			answer                     string
			inspected                  bool
		}{
			{"one name", "localhost" + port, "localhost", "localhost", true, "127.0.0.1", "Origins", "answer", false},
			{"hello allowed, at its address", host, "localhost", "localhost", true, "127.0.0.1", "Origins", "answer", false},
			{"hello allowed, elsewhere", host, "localhost", "good.test", true, "192.0.2.1", intercept.DefaultName, "answer", true},
			{"hello and Host allowed, elsewhere", host, "localhost", "localhost", true, "192.0.2.1", intercept.DefaultName, "answer", true},
			{"hello blocked, at the address of another", host, "bet.test", "good.test", true, "127.0.0.1", intercept.DefaultName, "bet", false},
			{"Host allowed", host, "good.test", "localhost", true, "127.0.0.1", intercept.DefaultName, "answer", true},
			{"Host blocked", host, "good.test", "bet.test", true, "127.0.0.1", intercept.DefaultName, "category bet", false},
			{"CONNECT allowed, hello blocked", "localhost" + port, "bet.test", "localhost", true, "127.0.0.1", "", "", false},
			{"CONNECT allowed, hello unknown", "localhost" + port, "good.test", "localhost", true, "127.0.0.1", "Origins", "answer", false},
			{"not decrypted: CONNECT allowed, hello blocked", "localhost" + port, "bet.test", "localhost", false, "127.0.0.1", "", "", false},
			{"not decrypted: hello blocked", host, "bet.test", "good.test", false, "127.0.0.1", "", "", false},
			{"not decrypted: hello allowed", host, "localhost", "localhost", false, "192.0.2.1", "Origins", "answer", false},
		} {
			t.Run(rules+"/"+tt.name, func(t *testing.T) {
				inspected := false
				e := Engine{Decider: judge{decide: decide, wants: func(x *filter.Transaction, s filter.Stage) bool {
					inspected = inspected || s == filter.ResponseBody
					return false
				}}}
				if tt.decrypt {
					e.Intercept = w.in
				}
				r := start(t, Config{}, e)
				r.resolve("localhost", tt.addr)
				c, br := r.raw()
				defer c.Close()
				fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", tt.connect)
				if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
					t.Fatalf("CONNECT: got %q, want 200", head)
				}
				tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true})
				if err := tc.Handshake(); err != nil {
					if tt.issuer != "" {
						t.Errorf("TLS handshake: %v", err)
					}
					return
				}
				fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nAccept: text/html\r\nConnection: close\r\n\r\n", tt.header)
				b, _ := io.ReadAll(tc)
				issuer := tc.ConnectionState().PeerCertificates[0].Issuer.CommonName
				c.Close() // or stop waits for it
				r.stop()
				if issuer != tt.issuer || !strings.Contains(string(b), tt.answer) || inspected != tt.inspected {
					t.Errorf("certificate of %q, want %q; inspected: %v, want %v; answer %q, want %q", issuer, tt.issuer, inspected, tt.inspected, b, tt.answer)
				}
			})
		}
	}
}

func TestUpgradesOtherThanWebSocketNeedARule(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		for head := readHead(br); head != ""; head = readHead(br) {
			if _, wish, ok := strings.Cut(head, "\r\nUpgrade: "); ok {
				wish, _, _ = strings.Cut(wish, "\r\n")
				if strings.Contains(head, "GET /other") {
					wish = "ssh"
				}
				fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: %s\r\n\r\n", wish)
				echo(c, br)
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	r := start(t, Config{}, Engine{Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		if strings.HasSuffix(x.URL, "/allowed") {
			return filter.Verdict{Action: filter.Allow}
		}
		return filter.Verdict{}
	}}})
	for _, tt := range []struct {
		path, wish string
		status     int
		got        string
	}{
		{"/", "websocket", 101, "websocket"},
		{"/", "WebSocket", 101, "WebSocket"},
		{"/", "ssh, websocket", 101, "websocket"},
		{"/", "ssh", 403, ""},
		{"/", "websockets", 403, ""},
		{"/", "h2c", 200, ""},
		{"/", "TLS/1.0", 200, ""},
		{"/other", "websocket", 502, ""},
		{"/allowed", "ssh", 101, "ssh"},
		{"/allowed", "h2c", 101, "h2c"},
		{"/allowed", "websocket", 101, "websocket"},
	} {
		c, br := r.raw()
		fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", o, tt.path, tt.wish)
		head := readHead(br)
		if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", tt.status)) || tt.got != "" && !strings.Contains(head, "\r\nUpgrade: "+tt.got+"\r\n") {
			t.Errorf("%s, Upgrade: %s: got %q, want %d %s", tt.path, tt.wish, head, tt.status, tt.got)
		}
		c.Close()
	}
}
