//go:build !small

package booth

import (
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/smtp"
	"time"

	"shuultuur/text"
	"shuultuur/vote"
)

// A mailer sends answers to voters. It waits for the mail server so that nobody
// else does; when more than maxWaiting wait, those that come later are dropped
// and the log says so.
type mailer struct {
	config Mail
	texts  text.Choice
	log    *slog.Logger
	queue  chan answer
	send   func(to string, text []byte) error
}

type answer struct {
	to   string
	body []byte
}

const (
	maxWaiting = 20_000
	mailTries  = 5
	mailWait   = 30 * time.Second
)

func newMailer(c Mail, texts text.Choice, log *slog.Logger) *mailer {
	m := &mailer{config: c, texts: texts, log: log, queue: make(chan answer, maxWaiting)}
	m.send = func(to string, text []byte) error {
		if _, _, err := net.SplitHostPort(c.Server); err != nil {
			return smtp.SendMail(net.JoinHostPort(c.Server, "25"), nil, c.From, []string{to}, text)
		}
		return smtp.SendMail(c.Server, nil, c.From, []string{to}, text)
	}
	return m
}

// add queues the answers of a decision.
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
	for try := 1; ; try++ {
		err := m.send(a.to, a.body)
		if err == nil {
			return
		}
		if try == mailTries {
			m.log.Error("an answer by mail is given up", "server", m.config.Server, "error", err)
			return
		}
		select {
		case <-time.After(mailWait):
		case <-ctx.Done():
			return
		}
	}
}
