package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"shuultuur/test/redistest"
)

func (f *fake) Bind(addr string) error {
	if err, ok := f.ports[addr]; ok {
		return &net.OpError{Op: "listen", Net: "udp", Err: os.NewSyscallError("bind", err)}
	}
	return f.err
}

func (f *fake) Addresses() ([]netip.Addr, error) { return f.addresses, f.err }

func TestPortsOfTheNameServer(t *testing.T) {
	const port = "192.0.2.1:53"
	udp := "ss -Hlunp sport = :53"
	for _, c := range []struct {
		name   string
		system string
		err    error
		output map[string]string
		level  Level
		found  string
		mend   string
	}{
		{"free", "linux", nil, nil, OK, "free", ""},
		{"systemd", "linux", syscall.EADDRINUSE, map[string]string{udp: "UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:* users:((\"systemd-resolve\",pid=512,fd=12))\n"}, Bad, "in use by systemd-resolve", "DNSStubListener=no"},
		{"dnsmasq", "linux", syscall.EADDRINUSE, map[string]string{udp: "UNCONN 0 0 0.0.0.0:53 0.0.0.0:* users:((\"dnsmasq\",pid=9,fd=4))\n"}, Bad, "in use by dnsmasq", "port=0"},
		{"another", "linux", syscall.EADDRINUSE, map[string]string{udp: "UNCONN 0 0 *:53 *:* users:((\"named\",pid=9,fd=4))\n"}, Bad, "in use by named", "disable --now named"},
		{"ourselves", "linux", syscall.EADDRINUSE, map[string]string{udp: "UNCONN 0 0 *:53 *:* users:((\"shuultuur\",pid=9,fd=4))\n"}, OK, "served by shuultuur", ""},
		{"over TCP alone", "linux", syscall.EADDRINUSE, map[string]string{udp: "", "ss -Hltnp sport = :53": "LISTEN 0 4 *:53 *:* users:((\"unbound\",pid=9,fd=4))\n"}, Bad, "in use by unbound", "unbound"},
		{"nobody knows", "linux", syscall.EADDRINUSE, nil, Bad, "in use", "ss -lunp"},
		{"FreeBSD", "freebsd", syscall.EADDRINUSE, map[string]string{"sockstat -l -q -p 53": "unbound  local-unbo 733   3  udp4   *:53    *:*\n"}, Bad, "in use by local-unbo", "service local-unbo stop"},
		{"not root", "linux", syscall.EACCES, nil, Low, "not for this user", "CAP_NET_BIND_SERVICE"},
		{"not ours", "linux", syscall.EADDRNOTAVAIL, nil, Bad, "does not have the address", "listen"},
		{"who knows", "linux", syscall.EIO, nil, Unknown, "input/output error", ""},
	} {
		m := strong()
		m.system, m.output = c.system, c.output
		if c.err != nil {
			m.ports = map[string]error{port: c.err}
		}
		got := find(t, Look(t.Context(), m, Config{Names: &Names{Listen: []string{port}}}), "port "+port)
		if got.Level != c.level || !strings.Contains(got.Found, c.found) || !strings.Contains(strings.Join(got.Mend, "\n"), c.mend) || (got.Level == Bad || got.Level == Low) != (got.Why != "") {
			t.Errorf("%s: the finding is %+v, want %s, %q, and the remedy %q", c.name, got, c.level, c.found, c.mend)
		}
	}
}

func TestNamesOverIPv6(t *testing.T) {
	for _, c := range []struct {
		listen []string
		has    []netip.Addr
		want   Level
	}{
		{[]string{"192.0.2.1:53", "[2001:db8::1]:53"}, nil, OK},
		{[]string{":53"}, nil, OK},
		{[]string{"127.0.0.1:53"}, []netip.Addr{netip.MustParseAddr("2001:db8::1")}, OK},
		{[]string{"192.0.2.1:53"}, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("::1")}, OK},
		{[]string{"192.0.2.1:53"}, []netip.Addr{netip.MustParseAddr("2001:db8::1")}, Low},
	} {
		m := strong()
		m.addresses = c.has
		if got := find(t, Look(t.Context(), m, Config{Names: &Names{Listen: c.listen}}), "names over IPv6"); got.Level != c.want {
			t.Errorf("listening on %v with the addresses %v: %+v", c.listen, c.has, got)
		}
	}
}

func TestUpstreamsAreAsked(t *testing.T) {
	ask := func(_ context.Context, upstream string) (bool, error) {
		switch upstream {
		case "gone":
			return false, errors.New("i/o timeout")
		case "plain":
			return false, nil
		}
		return true, nil
	}
	for _, c := range []struct {
		all      string
		validate bool
		want     string
	}{
		{"good", true, "ok"}, {"good plain", true, "ok bad"}, {"plain", false, "ok"}, {"good gone", false, "ok low"}, {"gone", false, "bad"},
	} {
		n := &Names{Upstreams: strings.Fields(c.all), Ask: ask, Validate: c.validate}
		r := Look(t.Context(), strong(), Config{Names: n})
		var got []string
		for _, up := range n.Upstreams {
			got = append(got, string(find(t, r, "upstream "+up).Level))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("upstreams %s, validate %v: %v, want %s", c.all, c.validate, got, c.want)
		}
	}
}

func TestRedisHasToTellOfZones(t *testing.T) {
	setting := func(flags string) string {
		return bulkString("# Server\r\nredis_version:7.2.4\r\n") + "*2\r\n" + bulkString("notify-keyspace-events") + bulkString(flags)
	}
	for _, c := range []struct {
		names Names
		reply string
		want  Level
	}{
		{Names{}, setting("AK"), OK},
		{Names{}, setting("g$hsxK"), OK},
		{Names{}, setting(""), Low},
		{Names{}, setting("AE"), Low},
		{Names{SetNotify: true}, "", OK},
		{Names{RedisClosed: true}, "", Unknown},
		{Names{}, bulkString("") + "-ERR unknown command\r\n", Unknown},
		{Names{}, "-NOAUTH\r\n", Bad},
	} {
		n := c.names
		n.Redis = redisServer(t, c.reply)
		if got := find(t, Look(t.Context(), strong(), Config{Names: &n}), "redis "+n.Redis+" notify-keyspace-events"); got.Level != c.want {
			t.Errorf("%+v, %q: %+v, want %s", c.names, c.reply, got, c.want)
		}
	}
}

func TestARealRedisIsAskedForItsEvents(t *testing.T) {
	s := redistest.Start(t)
	n := &Names{Redis: s.Addr}
	about := fmt.Sprintf("redis %s notify-keyspace-events", s.Addr)
	if got := find(t, Look(t.Context(), strong(), Config{Names: n}), about); got.Level != Low {
		t.Errorf("a Redis without keyspace events: %+v, want it low", got)
	}
	s.Do(t, "CONFIG", "SET", "notify-keyspace-events", "KA")
	if got := find(t, Look(t.Context(), strong(), Config{Names: n}), about); got.Level != OK {
		t.Errorf("after the advice was followed: %+v, want it ok", got)
	}
}

func TestEncryptedDNSOfBrowsers(t *testing.T) {
	for doh, want := range map[bool]Level{true: OK, false: Low} {
		if got := find(t, Look(t.Context(), strong(), Config{Names: &Names{DoH: doh}}), "encrypted DNS of browsers"); got.Level != want {
			t.Errorf("with a list of encrypted DNS %v: %+v", doh, got)
		}
	}
	if slices.ContainsFunc(Look(t.Context(), strong(), Config{}).Findings, func(f Finding) bool { return strings.Contains(f.About, "DNS") }) {
		t.Error("the report has findings about DNS although there is no name server")
	}
}
