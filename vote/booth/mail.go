//go:build !small

package booth

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"time"

	"shuultuur/lib/smtp"
	"shuultuur/text"
	"shuultuur/vote"
)

// A mailer sends answers to voters in the background, so that no request waits
// for the mail server. If more than maxWaiting answers wait, later ones are
// dropped and logged.
type mailer struct {
	config Mail
	texts  text.Choice
	log    *slog.Logger
	queue  chan answer
	send   func(ctx context.Context, to string, text []byte) error
	limit  time.Duration // for one mail
}

type answer struct {
	to   string
	body []byte
}

const (
	maxWaiting = 20_000
	mailTries  = 5 // attempts for a mail that the server refuses for now
	mailWait   = 30 * time.Second
	mailLimit  = 20 * time.Minute // for a server that is slow at each step
	mailAgain  = time.Second      // interval of attempts while the server is away
	mailFor    = time.Hour        // after which an attempt is given up
)

func newMailer(c Mail, texts text.Choice, log *slog.Logger) *mailer {
	m := &mailer{config: c, texts: texts, log: log, queue: make(chan answer, maxWaiting), limit: mailLimit}
	m.send = m.transmit
	return m
}

// transmit gives a mail to the server, with TLS if it offers that.
func (m *mailer) transmit(ctx context.Context, to string, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	host, port, err := net.SplitHostPort(m.config.Server)
	if err != nil {
		host, port = m.config.Server, "25"
	}
	s := smtp.Server{Address: net.JoinHostPort(host, port), TLS: &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}}
	return s.Send(ctx, m.config.From, []string{to}, text)
}

// add queues the answers to the voters of a decision.
func (m *mailer) add(d *vote.Decision, to []string) {
	dropped := 0
	for _, t := range to {
		t, language := vote.MailOf(t)
		says := m.texts.For(language)
		body := fmt.Appendf(nil, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\nAuto-Submitted: auto-replied\r\n\r\n%s\r\n",
			m.config.From, t, mime.QEncoding.Encode("utf-8", says.Say("Your vote on {site}", "site", d.Site)), time.Now().Format(time.RFC1123Z), d.Answer(says))
		select {
		case m.queue <- answer{t, body}:
		default:
			dropped++
		}
	}
	if dropped > 0 {
		m.log.Error("answers by mail are dropped: too many wait for the mail server", "answers", dropped)
	}
}

func (m *mailer) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-m.queue:
			m.deliver(ctx, a)
		}
	}
}

func (m *mailer) deliver(ctx context.Context, a answer) {
	begin := time.Now()
	for tries := 1; ; {
		err := m.send(ctx, a.to, a.body)
		if err == nil {
			return
		}
		wait, give := mailAgain, time.Since(begin) > mailFor
		if smtp.Answered(err) {
			wait, give = mailWait, tries == mailTries || smtp.Final(err)
			tries++
		}
		if give {
			m.log.Error("an answer by mail is given up", "server", m.config.Server, "error", err)
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
