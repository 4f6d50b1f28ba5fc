package conversation

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/test/cert"
)

// Ordinary users of WebSockets, message by message as their libraries frame them. Their contents differ
// by a seed; many name hosts, and carry pictures, keys or text of programs.

type speech struct {
	*rand.Rand
	hello []byte
	out   []Message
}

func (s *speech) text(format string, args ...any) {
	s.out = append(s.out, Message{Text: true, Data: fmt.Appendf(nil, format, args...)})
}
func (s *speech) data(p ...byte) { s.out = append(s.out, Message{Data: p}) }

func (s *speech) noise(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return p
}

var spoken = []string{"hello", "see https://www.example.com/a?b=c", "GET / HTTP/1.1", "ssh root@host.example.com", "localhost:8080", "192.0.2.7:443", "a.b:80 is up", "日本語", "ok", "curl -x socks5://127.0.0.1:1080 https://x.example", `{"host":"x"}`, "import socket; s.connect(('example.com', 443))"}

func (s *speech) words() string {
	var b strings.Builder
	for range 1 + s.IntN(4) {
		b.WriteString(spoken[s.IntN(len(spoken))] + " ")
	}
	return b.String()
}

func (s *speech) json(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func (s *speech) base64(n int) string { return base64.StdEncoding.EncodeToString(s.noise(n)) }

// prefixed is p behind its length, of two bytes.
func prefixed(p string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...)
}

func varint(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

var ordinary = map[string]func(s *speech){
	"socket.io": func(s *speech) {
		s.text("2probe")
		s.text("5")
		s.text("40/chat,%s", s.json(map[string]string{"token": s.base64(40)}))
		for i := range 20 {
			switch s.IntN(4) {
			case 0:
				s.text("42/chat,%d%s", i, s.json([]any{"message", map[string]any{"text": s.words(), "room": "a.example", "port": 3}}))
			case 1:
				s.text("451-%s", s.json([]any{"upload", map[string]any{"_placeholder": true, "num": 0}}))
				s.data(s.noise(1 + s.IntN(3000))...)
			case 2:
				s.text("3")
			default:
				s.text("42%s", s.json([]any{"connect", "open", s.base64(30)}))
			}
		}
	},
	"SignalR": func(s *speech) {
		if s.IntN(2) == 0 {
			s.text("{\"protocol\":\"json\",\"version\":1}\x1e")
			for range 20 {
				s.text("%s\x1e", s.json(map[string]any{"type": 1, "target": "Send", "invocationId": fmt.Sprint(s.IntN(99)), "arguments": []any{s.words(), map[string]any{"server": "eu.example.com", "url": "https://a.example/x"}}}))
			}
			return
		}
		s.text("{\"protocol\":\"messagepack\",\"version\":1}\x1e")
		for range 20 { // messages of MessagePack behind their length
			w := s.words()
			p := append([]byte{0x96, 1, 0x80, 0xC0, 0xA4, 'S', 'e', 'n', 'd', 0x91, 0xDA}, prefixed(w)...)
			s.data(append(append(varint(len(p)+1), p...), 0x90)...)
		}
	},
	"Phoenix": func(s *speech) {
		s.text(`["3","3","room:lobby","phx_join",{"token":"%s"}]`, s.base64(50))
		for i := range 20 {
			if s.IntN(3) == 0 { // a binary push: kind, lengths, and the names
				s.data(append([]byte{0, 1, 1, 10, 6, '3', byte('0' + i%10)}, append([]byte("room:lobbyupload"), s.noise(s.IntN(2000))...)...)...)
				continue
			}
			s.text(`[null,"%d","phoenix","heartbeat",%s]`, i, s.json(map[string]any{"value": s.words(), "uri": "wss://www.example.com/live", "headers": map[string]any{}}))
		}
	},
	"MQTT": func(s *speech) {
		id := []string{"sensor.example.com", "mqttjs_" + fmt.Sprintf("%08x", s.Uint32()), "a.io", "x"}[s.IntN(4)]
		body := append(prefixed("MQTT"), 4+byte(s.IntN(2)), 0xC2, 0, []byte{60, 80, 0, 22}[s.IntN(4)])
		if body[6] == 5 {
			body = append(body, 0)
		}
		body = append(append(append(body, prefixed(id)...), prefixed("user@host.example")...), prefixed("secret")...)
		s.data(append(append([]byte{0x10}, varint(len(body))...), body...)...)
		for i := range 20 {
			topic := prefixed([]string{"home/kitchen.temp", "example.com/443", "$SYS/broker"}[s.IntN(3)])
			body := append(append(topic, 0, byte(i)), s.words()...)
			if s.IntN(3) == 0 {
				body = append(topic, s.noise(s.IntN(500))...)
			}
			s.data(append(append([]byte{0x30}, varint(len(body))...), body...)...)
			s.data(0xC0, 0)
		}
	},
	"graphql-ws": func(s *speech) {
		s.text(`{"type":"connection_init","payload":{"authorization":"Bearer %s","headers":{"origin":"https://www.example.com"}}}`, s.base64(60))
		for i := range 20 {
			s.text("%s", s.json(map[string]any{"id": fmt.Sprint(i), "type": "subscribe", "payload": map[string]any{
				"query": "subscription($host:String!){server(host:$host){port url}}", "operationName": "Servers",
				"variables":  map[string]any{"input": map[string]any{"host": "db.example.com", "text": s.words()}},
				"extensions": map[string]any{"persistedQuery": map[string]any{"sha256Hash": fmt.Sprintf("%064x", s.Uint64())}}}}))
		}
	},
	"yjs": func(s *speech) {
		s.data(0, 0, 1, 0) // what is known
		for range 20 {
			switch s.IntN(3) {
			case 0:
				w := s.words()
				p := append([]byte{1, 1}, s.noise(5)...)
				p = append(append(append(p, 0, 4, 1, 7, 'c', 'o', 'n', 't', 'e', 'n', 't'), varint(len(w))...), w...)
				s.data(append(append([]byte{0, 2}, varint(len(p)+1)...), append(p, 0)...)...)
			case 1: // who is there
				st := s.json(map[string]any{"user": map[string]any{"name": s.words(), "color": "#ff0000"}, "cursor": nil})
				p := append(append(append([]byte{1}, varint(int(s.Uint32()))...), 7), append(varint(len(st)), st...)...)
				s.data(append(append([]byte{1}, varint(len(p))...), p...)...)
			default:
				s.data(append([]byte{0, 1, 0x80, 1}, s.noise(128)...)...)
			}
		}
	},
	"Jupyter": func(s *speech) {
		for range 20 {
			content := map[string]any{"code": s.words(), "silent": false, "data": map[string]any{"image/png": "iVBORw0KGgo" + s.base64(600)}}
			m := map[string]any{"header": map[string]any{"msg_id": fmt.Sprintf("%032x", s.Uint64()), "msg_type": "execute_request", "username": "a.b@example.com"}, "parent_header": map[string]any{}, "metadata": map[string]any{}, "content": content, "channel": "shell", "buffers": []any{}}
			if s.IntN(2) == 0 {
				s.text("%s", s.json(m))
				continue
			}
			var p []byte // v1.kernel.websocket.jupyter.org: offsets, and the parts
			parts := []string{"shell", s.json(m["header"]), "{}", "{}", s.json(content)}
			at := 8 * (len(parts) + 2)
			p = binary.LittleEndian.AppendUint64(p, uint64(len(parts)+1))
			for _, x := range append([]string{""}, parts...) {
				at += len(x)
				p = binary.LittleEndian.AppendUint64(p, uint64(at))
			}
			s.data(append(p, strings.Join(parts, "")...)...)
		}
	},
	"noVNC": func(s *speech) {
		s.data([]byte("RFB 003.008\n")...)
		if s.IntN(3) == 0 { // VeNCrypt secures itself by TLS
			s.data(19)
			s.data(0, 2)
			s.data(0, 0, 1, 4)
			s.data(s.hello...)
			return
		}
		s.data(2)
		s.data(s.noise(16)...)
		s.data(1)
		for range 20 {
			switch s.IntN(4) {
			case 0:
				s.data(append([]byte{5}, s.noise(5)...)...) // the pointer
			case 1:
				s.data(append([]byte{4, 1, 0, 0}, s.noise(4)...)...) // a key
			case 2:
				s.data(3, 1, 0, 0, 0, 0, 4, 0, 3, 0) // the screen again
			default:
				w := s.words()
				s.data(append(binary.BigEndian.AppendUint32([]byte{6, 0, 0, 0}, uint32(len(w))), w...)...)
			}
		}
	},
	"RDP gateway": func(s *speech) {
		request := []byte("\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00")
		switch s.IntN(3) {
		case 0: // MS-TSGU
			wrap := func(kind byte, p []byte) []byte {
				return append(binary.LittleEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(p)+8)), p...)
			}
			s.data(wrap(1, []byte{1, 0, 0, 0, 2, 0})...)
			s.data(wrap(4, append([]byte{0x3F, 0, 0, 0, 1, 0, 0, 0}, s.noise(200)...))...)
			s.data(wrap(6, []byte{0, 0, 0, 0, 8, 0, 'p', 0, 'c', 0, 0, 0})...)
			s.data(wrap(8, append([]byte{1, 0, 0x3D, 0x0D, 3, 0}, []byte("\x18\x00p\x00c\x00.\x00e\x00x\x00.\x00o\x00r\x00g\x00\x00\x00")...))...)
			for _, p := range [][]byte{request, s.hello, s.noise(400), s.noise(30)} {
				s.data(wrap(10, append(binary.LittleEndian.AppendUint16(nil, uint16(len(p))), p...))...)
			}
		case 1: // the connection itself
			s.data(request...)
			s.data(s.hello...)
			s.data(append([]byte{0x17, 3, 3, 0, 40}, s.noise(40)...)...)
		default: // Guacamole
			s.text("6.select,3.rdp;")
			s.text("4.size,4.1024,3.768,2.96;5.audio;5.video;5.image;")
			s.text("7.connect,12.VERSION_1_5,15.pc1.example.com,4.3389,3.abc;")
			for range 20 {
				s.text("5.mouse,%d.%d,1.5,1.0;4.blob,1.0,20.%s;", len("100"), 100, s.base64(15))
			}
		}
	},
	"VS Code tunnel": func(s *speech) {
		if s.IntN(2) == 0 { // the editor's own protocol: kind, number, acknowledged, length
			frame := func(kind byte, p string) {
				s.data(append(binary.BigEndian.AppendUint32(append([]byte{kind}, 0, 0, 0, 1, 0, 0, 0, 0), uint32(len(p))), p...)...)
			}
			frame(2, `{"type":"auth","auth":"00000000000000000000","data":"`+s.base64(20)+`"}`)
			frame(2, `{"type":"connectionType","commit":"abc","signedData":"`+s.base64(40)+`","desiredConnectionType":3,"args":{"host":"localhost","port":8080}}`)
			for range 20 {
				frame(1, string(s.noise(20))+s.words())
			}
			return
		}
		s.text("") // the relay: SSH in a subprotocol of its own
		s.data([]byte("SSH-2.0-dev-tunnels-ssh_3.11\r\n")...)
		for range 20 {
			s.data(append(binary.BigEndian.AppendUint32(nil, 60), s.noise(60)...)...)
		}
	},
}

func TestOrdinaryConversationsAreNoConnections(t *testing.T) {
	hello := cert.Hello(t, "pc1.example.com")
	for name, say := range ordinary {
		for n := range 1000 {
			s := &speech{Rand: rand.New(rand.NewPCG(uint64(n), 7)), hello: hello}
			say(s)
			var r Recogniser
			if name == "VS Code tunnel" {
				r.Agreed([]byte("tunnel-relay-client-v2-dev"))
			}
			for i, m := range s.out {
				if category, says := r.Look(m); category != "" {
					t.Fatalf("%s, session %d, message %d: %s: %s in %.200q", name, n, i, category, says, m.Data)
				}
			}
		}
	}
}

// TestConnectionsBehindWrappersAreRecognised: what wrappers put before a connection, and how they cut it,
// makes no difference.
func TestConnectionsBehindWrappersAreRecognised(t *testing.T) {
	hello := string(cert.Hello(t, "bad.example"))
	request := "GET /x HTTP/1.1\r\nHost: bad.example\r\n\r\n"
	whole := func(p string) []string { return []string{p} }
	cut := func(p string, n int) (all []string) {
		for len(p) > n {
			all, p = append(all, p[:n]), p[n:]
		}
		return append(all, p)
	}
	uuid := strings.Repeat("\xA7", 16)
	frame := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, packet(true)...)
	quic := append([]byte{0xC3, 0, 0, 0, 1, 8}, make([]byte, 1200)...)
	for name, c := range map[string]struct {
		say  []string
		text bool
		says string
	}{
		"HTTP":                  {whole(request), false, "bad.example"},
		"HTTP as text":          {whole(request), true, "bad.example"},
		"HTTP, wrapped":         {whole("\x02\x00\x00\x00\x07" + request), false, "bad.example"},
		"CONNECT":               {whole("CONNECT bad.example:443 HTTP/1.1\r\n\r\n"), true, "bad.example:443"},
		"HTTP/2":                {whole("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), false, "HTTP"},
		"TLS, wrapped":          {whole("\x01\x00\x00\x00\x07\x00\x00\x02\x00" + hello), false, "bad.example"},
		"TLS in small pieces":   {cut(hello, 7), false, "TLS"},
		"TLS in bytes":          {cut(hello, 1), false, "TLS"},
		"a head, then TLS":      {[]string{"\x00\x00\x00\x07", hello}, false, "bad.example"},
		"TLS in base64":         {whole(base64.StdEncoding.EncodeToString([]byte(hello))), true, "bad.example"},
		"TLS in base64 in JSON": {whole(`{"t":"data","id":1,"d":"` + base64.StdEncoding.EncodeToString([]byte(hello)) + `"}`), true, "bad.example"},
		"TLS in hexadecimal":    {whole(fmt.Sprintf("%x", hello)), true, "TLS"},
		"SSH, wrapped":          {whole("\x00\x00\x00\x01SSH-2.0-OpenSSH_9\r\n"), false, "SSH"},
		"SSH as text":           {whole("SSH-2.0-OpenSSH_9\r\n"), true, "SSH"},
		"SOCKS, a target":       {whole("\x05\x01\x00\x03\x0bbad.example\x01\xbb"), false, "bad.example"},
		"VLESS":                 {whole("\x00" + uuid + "\x00\x01\x01\xbb\x02\x0bbad.example" + "x"), false, "bad.example"},
		"Trojan":                {whole(strings.Repeat("a1", 28) + "\r\n\x01\x03\x0bbad.example\x01\xbb\r\n"), false, "bad.example"},
		"a target":              {whole("bad.example:443"), true, "bad.example:443"},
		"a target, as bytes":    {whole("\x0bbad.example\x01\xbb"), false, "bad.example"},
		"a target in JSON":      {whole(`{"type":"connect","host":"bad.example","port":443}`), true, "bad.example:443"},
		"a target in a call":    {whole(`["open",{"hostname":"bad.example","port":"443"}]`), true, "bad.example:443"},
		"a request in JSON":     {whole(`{"type":"connect","remote":"wss://bad.example/","protocols":[],"headers":{}}`), true, "bad.example"},
		"Ethernet":              {whole(string(frame)), false, "IP"},
		"IP behind its length":  {whole("\x00\x28" + string(packet(true))), false, "IP"},
		"QUIC":                  {whole(string(quic)), false, "QUIC"},
		"OpenVPN, UDP":          {whole("\x38abcdefgh\x00\x00\x00\x00\x00"), false, "OpenVPN"},
		"wisp by address":       {whole("\x01\x01\x00\x00\x00\x01\xbb\x01192.0.2.1"), false, "192.0.2.1"},
		"wisp, IPv6":            {whole("\x01\x01\x00\x00\x00\x01\xbb\x01[2001:db8::1]"), false, "2001:db8::1"},
	} {
		var r Recogniser
		category, says := "", ""
		for _, p := range c.say {
			if category == "" {
				category, says = r.Look(Message{Text: c.text, Data: []byte(p)})
			}
		}
		if category == "" || !strings.Contains(says, c.says) {
			t.Errorf("%s: %q, %q; want a finding with %q", name, category, says, c.says)
		}
	}
}

func BenchmarkOrdinaryMessages(b *testing.B) {
	s := &speech{Rand: rand.New(rand.NewPCG(1, 7))}
	ordinary["socket.io"](s)
	ordinary["Jupyter"](s)
	n := 0
	for _, m := range s.out {
		n += len(m.Data)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		var r Recogniser
		for _, m := range s.out {
			r.Look(m)
		}
	}
}
