package forward

import (
	miekg "github.com/miekg/dns"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

func TestAnswersOverUDPAndTCP(t *testing.T) {
	s := serve(t, says("192.0.2.1"))
	for _, scheme := range []string{"", "udp://", "tcp://"} {
		f := start(t, Config{Upstreams: []string{scheme + s.addr}})
		for _, host := range []string{"www.example.com", "WWW.Example.COM.", "a.b.c.d.example."} {
			if got := get(f, host); got != "192.0.2.1" {
				t.Errorf("%s: %s has address %s, want 192.0.2.1", scheme, host, got)
			}
		}
	}
	if s.tcp.Load() != 3 {
		t.Errorf("the server got %d queries over TCP, want 3", s.tcp.Load())
	}
}

func TestTruncatedAnswersAreAskedForOverTCP(t *testing.T) {
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		m := says("192.0.2.7")(q, tcp)
		if !tcp {
			m.Truncated, m.Answer = true, nil
		}
		return m
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	if got := get(f, "big.example"); got != "192.0.2.7" {
		t.Errorf("truncated answer: got %s, want 192.0.2.7 over TCP", got)
	}
	if n := first(f).truncated.Load(); n != 1 {
		t.Errorf("%d truncated answers counted, want 1", n)
	}
}

func TestRefusedPortIsNoticedAtOnce(t *testing.T) {
	gone := serve(t, says("192.0.2.1"))
	gone.stop()
	good := serve(t, says("192.0.2.2"))
	f := start(t, Config{Upstreams: []string{gone.addr, good.addr}, Order: Strict})
	if got := get(f, "example.com"); got != "192.0.2.2" {
		t.Errorf("first upstream fails: got %s, want 192.0.2.2", got)
	}
	alone := start(t, Config{Upstreams: []string{gone.addr}})
	if got := get(alone, "example.com"); !strings.Contains(got, "refused") {
		t.Errorf("got %q, want an error that says refused", got)
	}
}

func TestLongestRouteIsTaken(t *testing.T) {
	all, corp, lab, net10 := serve(t, says("192.0.2.1")), serve(t, says("192.0.2.2")), serve(t, says("192.0.2.3")), serve(t, says("192.0.2.4"))
	f := start(t, Config{Upstreams: []string{all.addr}, Routes: map[string]setting.OneOrMore[string]{
		"corp.example": {corp.addr}, "lab.CORP.example.": {lab.addr}, "10.0.0.0/8": {net10.addr}, "172.16.0.0/12": {net10.addr},
	}})
	for host, want := range map[string]string{
		"example": "192.0.2.1", "corp.example": "192.0.2.2", "x.corp.example": "192.0.2.2", "xcorp.example": "192.0.2.1",
		"a.b.lab.corp.example": "192.0.2.3", "4.3.2.10.in-addr.arpa": "192.0.2.4", "1.0.31.172.in-addr.arpa": "192.0.2.4",
		"1.0.32.172.in-addr.arpa": "192.0.2.1", "11.in-addr.arpa": "192.0.2.1",
	} {
		if got := get(f, host); got != want {
			t.Errorf("%s: got the answer of %s, want %s", host, got, want)
		}
	}
}
