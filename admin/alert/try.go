package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shuultuur/admin/mail"
	"shuultuur/text"
)

// mostTried is how many receivers one test sends to.
const mostTried = 20

// Try sends a test to each mailbox and webhook of the settings. The answers name those that took it, the
// error the others.
func Try(ctx context.Context, c Config, sender *mail.Sender, texts text.Choice) (answers []string, err error) {
	w, err := New(c, sender, texts)
	if err != nil {
		return nil, err
	}
	return w.try(ctx)
}

func (w *Watch) try(ctx context.Context) (answers []string, err error) {
	var wrong []error
	tried := map[string]bool{}
	one := func(key, name, language string) {
		if tried[key] || len(tried) >= mostTried {
			return
		}
		tried[key] = true
		t := w.texts.For(language)
		m := &message{id: "test-" + time.Now().UTC().Format("20060102T150405.000"), title: t.Say("Test of the alerts"),
			text: t.Say("This message was sent by a press of the button Test in the settings of the web filter.") + "\n", link: w.link("/inbox"), open: t.Say("Open the page"), severity: Low}
		since := time.Now()
		if err := w.find(key).send(ctx, m); err != nil {
			wrong = append(wrong, fmt.Errorf("%s did not take the test: %w", name, err))
			return
		}
		answers = append(answers, fmt.Sprintf("%s took the test in %d ms. Look whether it arrived.", name, max(time.Since(since).Milliseconds(), 1)))
	}
	for i := range w.config.To {
		r := &w.config.To[i]
		for _, m := range r.Mail {
			one("mail:"+m, m, r.Language)
		}
		for j := range r.Webhook {
			one(r.Webhook[j].key(), r.Webhook[j].name(), r.Language)
		}
	}
	if len(tried) == 0 {
		return nil, errors.New("nobody is told yet: name a mailbox or a webhook under to")
	}
	return answers, errors.Join(wrong...)
}
