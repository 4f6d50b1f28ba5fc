package booth

import (
	"context"
	"errors"
	"log/slog"
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
		m.send = func(to string, text []byte) error {
			if failures > 0 {
				failures--
				return errors.New("try later")
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
			t.Fatalf("sent %+v", sent)
		}
		for n, to := range []string{"x@example.org", "y@example.org"} {
			for _, want := range []string{"To: " + to + "\r\n", "Subject: Your vote on a.example\r\n", "\r\n\r\na.example is open for some people here. You are right.\r\n"} {
				if sent[n].to != to || !strings.Contains(sent[n].text, want) {
					t.Errorf("to %s: %q lacks %q", sent[n].to, sent[n].text, want)
				}
			}
		}
	})
}
