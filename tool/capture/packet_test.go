package capture

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// Keywords on the heads of packets.
func TestKeywordsOnHeads(t *testing.T) {
	be := binary.BigEndian
	ip := func(fragment uint16, options string, proto uint16, transport []byte) []byte {
		head := blocks(be, uint16(0x4000|uint16(5+len(options)/4)<<8), uint16(20+len(options)+len(transport)), uint16(7), fragment, 64<<8|proto, uint16(0), "\x0a\x00\x00\x01", "\xc0\x00\x02\x50", options)
		be.PutUint16(head[10:], ^uint16(sum(head)))
		return append(head, transport...)
	}
	segment := func(flags uint16, options string) []byte {
		s := blocks(be, uint16(40000), uint16(80), uint32(5), uint32(0), uint16(5+len(options)/4)<<12|flags, uint16(100), uint16(0), uint16(0), options)
		pseudo := blocks(be, "\x0a\x00\x00\x01\xc0\x00\x02\x50", uint16(6), uint16(len(s)))
		be.PutUint16(s[16:], ^uint16(sum(pseudo, s)))
		return s
	}
	plain := ip(0, "", 6, segment(2, ""))
	broken := slices.Clone(plain)
	broken[10]++
	wrong := slices.Clone(plain)
	wrong[20+16]++
	v6 := func(next uint16, transport []byte) []byte {
		return blocks(be, uint32(6<<28), uint16(len(transport)), next<<8|64, "\x20\x01aaaabbbbccccdd", "\x20\x01aaaabbbbccccde", transport)
	}
	tooBig := blocks(be, uint16(0x0200), uint16(0), uint32(1280), "packet")
	for _, x := range []struct {
		packet  []byte
		yes, no []string
	}{
		{ip(0x4000, "", 6, segment(2, "")), []string{"fragbits:D", "fragbits:D+", "fragbits:DM*", "fragbits:!M", "fragoffset:0"}, []string{"fragbits:M", "fragbits:DM+", "fragbits:!D", "fragbits:M*", "fragbits:DM"}},
		{plain, []string{"fragbits:!D", "ipv4-csum:valid", "tcpv4-csum:valid", "l3_proto:ip4", "l3_proto:!ipv6", "ip_proto:6", "ip_proto:!17", "ip_proto:<7"}, []string{"fragbits:D", "fragbits:D*", "ipv4-csum:invalid", "tcpv4-csum:invalid", "udpv4-csum:valid", "l3_proto:ip6", "ip_proto:udp", "ipopts:any", "tcp.mss:1"}},
		{broken, []string{"ipv4-csum:invalid", "tcpv4-csum:valid"}, []string{"ipv4-csum:valid"}},
		{wrong, []string{"tcpv4-csum:invalid", "ipv4-csum:valid"}, []string{"tcpv4-csum:valid", "tcpv6-csum:invalid"}},
		{ip(0, "\x07\x04\x00\x00", 6, segment(2, "")), []string{"ipopts:rr", "ipopts:any"}, []string{"ipopts:ts", "ipopts:eol", "ipopts:lsrr"}},
		{ip(0, "\x01\x83\x03\x00", 6, segment(2, "")), []string{"ipopts:nop", "ipopts:lsrr", "ipopts:any"}, []string{"ipopts:ssrr", "ipopts:rr"}},
		{ip(0, "\x83\x09\x00\x00", 6, segment(2, "")), []string{"ipopts:lsrr"}, []string{"ipopts:rr"}},
		{ip(0, "", 6, segment(2, "\x02\x04\x05\xb4\x01\x03\x03\x07")), []string{"tcp.mss:1460", "tcp.mss:<1461", "tcp.wscale:7", "tcp.seq:5", "tcp.ack:0"}, []string{"tcp.mss:>1460", "tcp.wscale:8"}},
		{ip(0, "", 6, segment(2, "\x02\x03\x05\x00")), nil, []string{"tcp.mss:>0", "tcp.wscale:>0"}},
		{ip(0, "", 6, segment(2, "\x02\x09\x05\x00")), nil, []string{"tcp.mss:>0"}},
		{v6(58, tooBig), []string{"icmpv6.mtu:1280", "l3_proto:ip6", "icmpv6-csum:invalid", "itype:2"}, []string{"icmpv6.mtu:>1280", "ipv4-csum:invalid", "fragbits:!D", "ipopts:any", "l3_proto:ip4"}},
		{v6(58, tooBig[:6]), nil, []string{"icmpv6.mtu:>0"}},
	} {
		for _, list := range []struct {
			want    bool
			options []string
		}{{true, x.yes}, {false, x.no}} {
			for _, option := range list.options {
				r := newRecording()
				r.b = blocks(binary.LittleEndian, r.b, uint32(1), uint32(0), uint32(len(x.packet)), uint32(len(x.packet)), x.packet)
				sids, _ := r.found(t, Config{}, "alert ip any any -> any any ("+option+"; sid:1;)")
				if got := slices.Equal(sids, []int{1}); got != list.want {
					t.Errorf("%s matches %x: %v, want %v", option, x.packet, got, list.want)
				}
			}
		}
	}
}

// Groups of expressions are in the records for which they are meant, in their order.
func TestGroupsOfExpressionsInRecords(t *testing.T) {
	for names, want := range map[string][3]string{ // metadata.flowvars, metadata.pktvars, alert.context
		"flow:b, flow:a":        {"[map[b:curl] map[a:8]]", "<nil>", "<nil>"},
		"flow:key, flow:value":  {"[map[key:curl] map[value:8]]", "<nil>", "<nil>"},
		"pkt:b, pkt:a":          {"<nil>", "[map[b:curl] map[a:8]]", "<nil>"},
		"pkt:key, pkt:value":    {"<nil>", "[map[curl:8]]", "<nil>"},
		"alert:b, alert:a":      {"<nil>", "<nil>", "map[a:8 b:curl]"},
		"flow:a, alert:b":       {"[map[a:curl]]", "<nil>", "map[b:8]"},
		"pkt:a":                 {"<nil>", "[map[a:curl]]", "<nil>"},
		"flow:x/y.z, pkt:x/y.z": {"[map[x/y.z:curl]]", "[map[x/y.z:8]]", "<nil>"},
	} {
		r := newRecording()
		r.tcp(40000, 80, 1460, client("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/8\r\n\r\n"), server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
		_, records := r.found(t, Config{}, `alert http any any -> any any (http.user_agent; content:"curl"; pcre:"/^(\w+)\/(\d+)/, `+names+`"; sid:1;)`)
		if len(records["alert"]) != 1 {
			t.Errorf("%s: %d alerts", names, len(records["alert"]))
			continue
		}
		for i, path := range []string{"metadata.flowvars", "metadata.pktvars", "alert.context"} {
			v, _ := field(records["alert"][0], path)
			if got := fmt.Sprint(v); got != want[i] {
				t.Errorf("%s: %s is %s, want %s", names, path, got, want[i])
			}
		}
		v, _ := field(records["flow"][0], "metadata.flowvars")
		if got := fmt.Sprint(v); got != want[0] {
			t.Errorf("%s: the connection has %s, want %s", names, got, want[0])
		}
	}
}
