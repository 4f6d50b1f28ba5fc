package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestWhatAServerReadsAsARequest: the first bytes of a tunnel are judged if any server might read
// them as HTTP, in one piece or byte by byte; other protocols pass at once.
func TestWhatAServerReadsAsARequest(t *testing.T) {
	for text, want := range map[string]bool{
		"GET / HTTP/1.1\r\n": true, "OPTIONS * HTTP/1.1\r\n": true, "GET http://x/ HTTP/1.1\r\n": true,
		"\r\nGET / HTTP/1.1\r\n": true, "\r\n\r\n\r\nGET / HTTP/1.1\r\n": true, "\nGET / HTTP/1.1\n": true, "  GET / HTTP/1.1\r\n": true, "\tGET /": true,
		"get / HTTP/1.1\r\n": true, "Get / http/1.0\r\n": true, "BREW-2.x! / HTTP/1.1\r\n": true, "GET\t/ HTTP/1.1\r\n": true, "GET   / HTTP/1.1\r\n": true,
		"GET HTTP://X/ HTTP/1.1\r\n": true, "GET https://x/ HTTP/1.1\r\n": true, "GET /\r\n": true,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                         true,
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\n": true,
		proxyHeader + "\x21\x11\x00\x0c":                           true,
		"SSH-2.0-OpenSSH_9.6\r\n":                                  false, "EHLO x.example\r\n": false, "USER anna\r\n": false, "\x16\x03\x01\x02\x00\x01": false,
		"\x00\x0e8\x01\x02\x03": false, "\x03\x00\x00\x13\x0e\xe0\x00": false, "BitTorrent protocol": false, "*1\r\n$4\r\nPING\r\n": false, "\xd3\x91\x02": false,
		strings.Repeat("A", 100) + " / HTTP/1.1\r\n": false,
	} {
		all, is := requestWithin(strings.NewReader(text[1:]), []byte(text[:1]))
		if is != want || want && !strings.HasPrefix(text, string(all)) {
			t.Errorf("%q is a request: %v, want %v", text, is, want)
		}
		if _, is := requestWithin(iotest.OneByteReader(strings.NewReader(text)), nil); is != want {
			t.Errorf("%q byte by byte is a request: %v, want %v", text, is, want)
		}
		if is, more := isRequest([]byte(text)); !want && more {
			t.Errorf("%q waits for more: %v, %v", text, is, more)
		}
	}
}

// TestNoRequestPassesATunnelUnread: what a lenient server would read as a request does not reach it
// through a tunnel unless the proxy has read it too.
func TestNoRequestPassesATunnelUnread(t *testing.T) {
	reached := make(chan string, 100)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1000)
				if n, _ := c.Read(b); n > 0 {
					reached <- string(b[:n])
				}
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	r := start(t, Config{ConnectPorts: []string{port}}, Engine{})
	for _, first := range []string{"  GET /bad HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /bad HTTP/1.1\r\nHost: x\r\n\r\n", proxyHeader + "\x21\x11\x00\x00GET /bad HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c, br := r.raw()
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", ln.Addr())
		if res, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"}); err != nil || res.StatusCode != 200 {
			t.Fatalf("CONNECT: %v, %v", res, err)
		}
		_, _ = io.WriteString(c, first)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, _ := io.ReadAll(br)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 4") && !strings.HasPrefix(string(answer), "HTTP/1.1 5") {
			t.Errorf("%q is answered with %q, want a refusal", first, answer)
		}
		c.Close()
	}
	select {
	case got := <-reached:
		t.Errorf("the server got %q", got)
	default:
	}
}
