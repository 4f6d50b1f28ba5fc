//go:build !small

package booth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/vote"
)

func TestAnswersAreMailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailer(Mail{Server: "mail.example", From: "filter@example.org"}, nil, slog.New(slog.DiscardHandler))
		type letter struct {
			to, text string
			after    time.Duration
		}
		var sent []letter
		begin := time.Now()
		failures := 2
		m.send = func(_ context.Context, to string, text []byte) error {
			if failures > 0 {
				failures--
				return &textproto.Error{Code: 451, Msg: "try later"}
			}
			sent = append(sent, letter{to, string(text), time.Since(begin)})
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = m.run(ctx) }()
		m.add(&vote.Decision{Site: "a.example", Action: vote.Open, Who: "pupils", Reason: "You are right."}, []string{"x@example.org", "y@example.org?language=mn"})
		time.Sleep(5 * time.Minute)
		stop()
		<-ended
		if len(sent) != 2 || sent[0].after != 2*mailWait {
			t.Fatalf("the mails sent are %+v", sent)
		}
		for n, to := range []string{"x@example.org", "y@example.org"} {
			for _, want := range []string{"To: " + to + "\r\n", "Subject: Your vote on a.example\r\n", "\r\n\r\na.example is open for some people here. You are right.\r\n"} {
				if sent[n].to != to || !strings.Contains(sent[n].text, want) {
					t.Errorf("the mail to %s is %q and lacks %q", sent[n].to, sent[n].text, want)
				}
			}
		}
	})
}

// TestAMailServerIsKilledAndReturns uses a server that hangs, is killed,
// returns, and finally refuses one mail for good, which must not delay others.
func TestAMailServerIsKilledAndReturns(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().String()
	m := newMailer(Mail{Server: at, From: "filter@example.org"}, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	m.limit = 300 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.run(ctx) }()
	defer func() { stop(); <-ended }()
	m.add(&vote.Decision{Site: "a.example", Action: vote.Open}, []string{"nobody@example.org", "x@example.org"})
	for range 2 { // the server does not answer, so the mail is tried again
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the mailer waits for longer than its limit: %v", err)
		}
		c.Close()
	}
	ln.Close()
	time.Sleep(time.Second) // it is away
	if ln, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := make(chan string)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go takeMail(c, taken)
		}
	}()
	if got := <-taken; !strings.Contains(got, "To: x@example.org\r\n") {
		t.Errorf("after its return the server got %q", got)
	}
}

// takeMail serves a connection of a mail server that accepts mails, except for
// nobody@.
func takeMail(c net.Conn, taken chan<- string) {
	defer c.Close()
	in := textproto.NewReader(bufio.NewReader(c))
	fmt.Fprint(c, "220 mail.example\r\n")
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		switch {
		case strings.Contains(line, "nobody@"):
			fmt.Fprint(c, "550 nobody is here\r\n")
		case line == "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			text, err := in.ReadDotBytes()
			if err != nil {
				return
			}
			fmt.Fprint(c, "250 ok\r\n")
			taken <- strings.ReplaceAll(string(text), "\n", "\r\n")
		default:
			fmt.Fprint(c, "250 ok\r\n")
		}
	}
}
