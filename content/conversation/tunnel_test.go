package conversation

import (
	"encoding/binary"
	"strings"
	"testing"

	"shuultuur/test/cert"
)

func packet(sum bool) []byte {
	p := make([]byte, 40)
	copy(p, []byte{0x45, 0, 0, 40, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	if sum {
		s := uint32(0)
		for i := 0; i < 20; i += 2 {
			s += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		binary.BigEndian.PutUint16(p[10:], ^uint16(s>>16+s&0xFFFF))
	}
	return p
}

func TestConnectionsInMessagesAreRecognised(t *testing.T) {
	tlsHello := cert.Hello(t, "bad.example")
	openVPN := append([]byte{0, 14, 0x38}, make([]byte, 13)...)
	wireGuard := append([]byte{1, 0, 0, 0}, make([]byte, 144)...)
	for name, c := range map[string]struct {
		before, message string
		want, says      string
	}{
		"wisp":                  {"", "\x01\x05\x00\x00\x00\x01\xbb\x01bad.example", Wisp, "bad.example"},
		"wisp, UDP":             {"", "\x01\x05\x00\x00\x00\x02\x35\x00192.0.2.1", Wisp, "192.0.2.1"},
		"wisp behind its first": {"\x03\x00\x00\x00\x00\x80\x00\x00\x00", "\x01\x05\x00\x00\x00\x01\xbb\x01bad.example", Wisp, ""},
		"TLS in wisp":           {"", "\x02\x05\x00\x00\x00" + string(tlsHello), Wisp, "bad.example"},
		"no wisp":               {"", "\x01\x05\x00\x00\x00\x03\xbb\x01bad.example", "", ""},
		"wisp to nothing":       {"", "\x01\x05\x00\x00\x00\x01\xbb\x01\x00\x01\x02\x03", "", ""},
		"TLS":                   {"", string(tlsHello), Tunnel, "bad.example"},
		"TLS, behind another":   {"x\x00y", string(tlsHello), Tunnel, ""},
		"TLS, cut":              {"", string(tlsHello[:60]), Tunnel, "TLS"},
		"TLS, data":             {"", "\x17\x03\x03\x00\x50" + strings.Repeat("x", 80), Tunnel, "records"},
		"TLS, part of its data": {"", "\x17\x03\x03\x00\x50" + strings.Repeat("x", 79), "", ""},
		"SSH":                   {"", "SSH-2.0-OpenSSH_9.2\r\n", Tunnel, "SSH"},
		"SOCKS 5":               {"", "\x05\x01\x00", Tunnel, "SOCKS"},
		"SOCKS 5, two methods":  {"", "\x05\x02\x00\x02", Tunnel, "SOCKS"},
		"SOCKS 4":               {"", "\x04\x01\x01\xbb\xc0\x00\x02\x01\x00", Tunnel, "SOCKS"},
		"like SOCKS, later":     {"x\x00y", "\x05\x01\x00", "", ""},
		"like SOCKS, longer":    {"", "\x05\x01\x00\x00\x00", "", ""},
		"OpenVPN":               {"", string(openVPN), Tunnel, "OpenVPN"},
		"like OpenVPN":          {"", "\x00\x0e\x38ab", "", ""},
		"WireGuard":             {"", string(wireGuard), Tunnel, "WireGuard"},
		"IP":                    {"", string(packet(true)), Tunnel, "IP"},
		"IP with a wrong sum":   {"", string(packet(false)), "", ""},
		"MQTT":                  {"", "\x10\x0c\x00\x04MQTT\x04\x02\x00<\x00\x00", "", ""},
		"RFB":                   {"", "RFB 003.008\n", "", ""},
		"SignalR":               {"", "\x93\x06\x80\xc0", "", ""},
		"yjs":                   {"", "\x00\x00\x01\x00", "", ""},
		"protobuf":              {"", "\x0a\x05hello\x12\x03abc", "", ""},
		"nothing":               {"", "", "", ""},
		"after many others":     {strings.Repeat("x\x00y|", 20), string(tlsHello), Tunnel, "bad.example"},
		"wisp after many":       {strings.Repeat("x\x00y|", 20), "\x01\x05\x00\x00\x00\x01\xbb\x01bad.example", Wisp, ""},
		"SSH after many":        {strings.Repeat("x\x00y|", 20), "SSH-2.0-OpenSSH_9.2\r\n", "", ""},
	} {
		var r Recogniser
		for _, m := range strings.Split(c.before, "|") {
			if m != "" {
				if got, _ := r.Look(Message{Data: []byte(m)}); got != "" {
					t.Errorf("%s: %q before it is %s", name, m, got)
				}
			}
		}
		got, says := r.Look(Message{Data: []byte(c.message)})
		if got != c.want || !strings.Contains(says, c.says) {
			t.Errorf("%s: %q, %q; want %q with %q", name, got, says, c.want, c.says)
		}
		if again, _ := r.Look(Message{Data: []byte(c.message)}); got != "" && again != "" {
			t.Errorf("%s: found twice", name)
		}
	}
	var r Recogniser
	if got, _ := r.Look(Message{Text: true, Data: tlsHello}); got != "" {
		t.Errorf("a message of text is %s", got)
	}
}

func FuzzRecogniser(f *testing.F) {
	f.Add([]byte("\x02\x05\x00\x00\x00\x16\x03\x01\x00\x80\x01\x00\x00\x7c\x03\x03"))
	f.Fuzz(func(t *testing.T, p []byte) {
		var r Recogniser
		r.Look(Message{Data: p})
	})
}
