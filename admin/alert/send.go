package alert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"shuultuur/admin/mail"
	"shuultuur/text"
)

// Messages are sent again at growing intervals, until a day after the alert last grew. A
// message that was given up is a problem of the gateway for a week.
const (
	firstPause = 10 * time.Second
	longPause  = time.Hour
	giveUp     = 24 * time.Hour
	longest    = 8 * 24 * time.Hour // after the alert was made
	nameEnded  = 7 * 24 * time.Hour
	atOnce     = 8 // messages in flight
	hookTime   = 15 * time.Second
)

// wants reports whether a route is for an alert.
func (r *Route) wants(a *Alert) bool {
	if len(r.Themes) > 0 && !slices.Contains(r.Themes, a.Theme) || r.Severity != nil && a.Severity.rank() < r.Severity.rank() {
		return false
	}
	return len(r.Groups) == 0 || slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(r.Groups, g) })
}

// sendings returns the messages for an alert. Nobody gets two.
func (w *Watch) sendings(a *Alert, now time.Time) (all []Sending) {
	add := func(to, key string, due time.Time) {
		for i := range all {
			if s := &all[i]; s.Key == key {
				if due.Before(s.Due) {
					s.Due = due
				}
				return
			}
		}
		all = append(all, Sending{To: to, Key: key, Due: due})
	}
	for i := range w.config.To {
		r := &w.config.To[i]
		if !r.wants(a) {
			continue
		}
		due := now.UTC()
		if a.Severity != High {
			due = w.after(i, due)
		}
		for _, m := range r.Mail {
			add(m, "mail:"+m, due)
		}
		for j := range r.Webhook {
			h := &r.Webhook[j]
			add(h.name(), h.key(), due)
		}
	}
	return all
}

// maxQuiet is how many days ahead the end of quiet hours is looked for, because dates may cover
// holidays and recur each year.
const maxQuiet = 370

// after returns the end of the quiet hours of a route, or now.
func (w *Watch) after(route int, now time.Time) time.Time {
	quiet, at := w.quiet[route], now
	for range maxQuiet * 24 * 60 {
		if !quiet.Open(at) {
			return at
		}
		at = at.Truncate(time.Minute).Add(time.Minute)
	}
	return now // if it is always quiet, never
}

// name returns the displayed name of a webhook; its address may be secret.
func (h *Webhook) name() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return h.Format
	}
	return formatOr(h.Format) + " at " + u.Host
}

func formatOr(f string) string {
	if f == "" {
		return "json"
	}
	return f
}

// key identifies a webhook without storing its secrets.
func (h *Webhook) key() string {
	sum := sha256.Sum256([]byte(h.URL + "\x00" + h.Format + "\x00" + h.Chat))
	return "webhook:" + hex.EncodeToString(sum[:8])
}

// find returns the function that sends to the receiver of a message.
func (w *Watch) find(key string) func(context.Context, *Alert) error {
	for i := range w.config.To {
		r := &w.config.To[i]
		t := w.texts.For(r.Language)
		for _, m := range r.Mail {
			if "mail:"+m == key && w.sender != nil {
				return func(ctx context.Context, a *Alert) error {
					return w.sender.Send(ctx, &mail.Message{To: []string{m}, Subject: a.Title(t), Text: w.Text(t, a)})
				}
			}
		}
		for j := range r.Webhook {
			if h := r.Webhook[j]; h.key() == key {
				return func(ctx context.Context, a *Alert) error { return w.post(ctx, t, &h, a) }
			}
		}
	}
	return nil
}

// tooLate reports whether a message is too old for another attempt. Then it is
// given up, which [Desk.Problems] reports.
func (d *Desk) tooLate(a *Alert, s *Sending, now time.Time) bool {
	end := a.First.Add(longest)
	if by := a.Last.Add(giveUp); s.Tries > 0 && by.Before(end) {
		end = by
	}
	if !now.After(end) {
		s.Ended = time.Time{} // the alert has grown since
		return false
	}
	if !s.Ended.Equal(end) {
		s.Ended, d.dirty = end, true // zero means unknown: a file may have old alerts
		d.ended.Inc()
		d.log.Error("a message about an alert is dropped", "to", s.To, "alert", a.ID, "error", s.Error)
	}
	return true
}

// deliver sends the messages that are due.
func (d *Desk) deliver(ctx context.Context) {
	type job struct {
		of   *Alert
		copy Alert
		i    int
		send func(context.Context, *Alert) error
	}
	d.mu.Lock()
	now := d.now()
	var jobs []job
	for _, a := range d.alerts {
		for i := range a.Sent {
			s := &a.Sent[i]
			if d.watch == nil || !s.At.IsZero() || now.Before(s.Due) || d.tooLate(a, s, now) {
				continue
			}
			send := d.watch.find(s.Key)
			if send == nil { // the settings no longer name it
				s.At, s.Error = now.UTC(), "the settings no longer name it"
				d.dirty = true
				continue
			}
			if len(jobs) < atOnce {
				jobs = append(jobs, job{a, a.clone(), i, send})
			}
		}
	}
	d.mu.Unlock()
	var work sync.WaitGroup
	for _, j := range jobs {
		work.Go(func() {
			err := j.send(ctx, &j.copy)
			d.mu.Lock()
			defer d.mu.Unlock()
			s := &j.of.Sent[j.i]
			s.Tries++
			d.dirty = true
			if err == nil {
				s.At, s.Error = d.now().UTC().Truncate(time.Second), ""
				return
			}
			d.fails.Inc()
			s.Error = err.Error()
			s.Due = d.now().UTC().Add(min(firstPause<<min(s.Tries-1, 12), longPause))
			d.log.Error("a message about an alert was not taken", "to", s.To, "error", err)
		})
	}
	work.Wait()
	if len(jobs) == atOnce {
		d.wake()
	}
}

// Title is an alert in a line.
func (a *Alert) Title(t *text.Texts) string {
	who := a.User
	if who == "" {
		who = a.Client.String()
	}
	return fmt.Sprintf("%s: %s (%s)", capital(a.Theme), who, t.Say(a.Severity.String()))
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// Text says in plain words who did something, but not which pages they saw, because messages
// pass through other services. The page shows the rest.
func (w *Watch) Text(t *text.Texts, a *Alert) string {
	who := a.Who()
	if len(a.Groups) > 0 {
		who += " (" + strings.Join(a.Groups, ", ") + ")"
	}
	at := t.Time(a.First)
	lines := []string{t.Say("Who: {who}", "who", who), t.Say("Theme: {theme}", "theme", a.Theme), t.Say("Severity: {severity}", "severity", t.Say(a.Severity.String()))}
	if a.Matches == 1 {
		lines = append(lines, t.Say("When: {time}", "time", at))
	} else {
		lines = append(lines, t.Say("When: {n} times since {time}", "n", strconv.Itoa(a.Matches), "time", at))
	}
	if len(a.Hosts) > 0 {
		lines = append(lines, t.Say("Where: {hosts}", "hosts", strings.Join(a.Hosts[max(0, len(a.Hosts)-3):], ", ")))
	}
	switch a.Blocked {
	case 0:
		lines = append(lines, t.Say("None of it was blocked."))
	case a.Matches:
		lines = append(lines, t.Say("All of it was blocked."))
	default:
		lines = append(lines, t.Say("Blocked of it: {n}.", "n", strconv.Itoa(a.Blocked)))
	}
	if link := w.link(a); link != "" {
		lines = append(lines, "", t.Say("See what happened before and after, and say what was done:"), link)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (w *Watch) link(a *Alert) string {
	if w.config.Link == "" {
		return ""
	}
	return strings.TrimSuffix(w.config.Link, "/") + "/alerts/" + a.ID
}

// formats make the body of a message to a webhook, and its header.
var formats = map[string]func(w *Watch, t *text.Texts, h *Webhook, a *Alert, header http.Header) any{
	"json": func(w *Watch, t *text.Texts, _ *Webhook, a *Alert, _ http.Header) any {
		return map[string]any{"id": a.ID, "theme": a.Theme, "severity": a.Severity, "user": a.User, "client": a.Client, "groups": a.Groups,
			"first": a.First, "last": a.Last, "matches": a.Matches, "blocked": a.Blocked, "hosts": a.Hosts, "title": a.Title(t), "text": w.Text(t, a), "link": w.link(a)}
	},
	"slack": func(w *Watch, t *text.Texts, _ *Webhook, a *Alert, _ http.Header) any {
		escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
		body := escape.Replace(w.Text(t, a))
		return map[string]any{"text": escape.Replace(a.Title(t)), "blocks": []any{
			map[string]any{"type": "header", "text": map[string]any{"type": "plain_text", "text": cut(a.Title(t), 150)}},
			map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": cut(body, 3000)}},
		}}
	},
	"teams": func(w *Watch, t *text.Texts, _ *Webhook, a *Alert, _ http.Header) any {
		block := func(line string, more map[string]any) map[string]any {
			b := map[string]any{"type": "TextBlock", "text": line, "wrap": true}
			for k, v := range more {
				b[k] = v
			}
			return b
		}
		body := []any{block(a.Title(t), map[string]any{"weight": "Bolder", "size": "Medium"})}
		for line := range strings.Lines(w.Text(t, a)) {
			if line = strings.TrimSpace(line); line != "" {
				body = append(body, block(line, nil))
			}
		}
		card := map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
		if link := w.link(a); link != "" {
			card["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": "Open", "url": link}}
		}
		return map[string]any{"type": "message", "attachments": []any{map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}}}
	},
	"ntfy": func(w *Watch, t *text.Texts, _ *Webhook, a *Alert, header http.Header) any {
		header.Set("Title", mime.QEncoding.Encode("utf-8", a.Title(t)))
		header.Set("Priority", map[Severity]string{Low: "2", Medium: "3", High: "5"}[a.Severity])
		header.Set("Tags", "warning")
		if link := w.link(a); link != "" {
			header.Set("Click", link)
		}
		return w.Text(t, a)
	},
	"telegram": func(w *Watch, t *text.Texts, h *Webhook, a *Alert, _ http.Header) any {
		return map[string]any{"chat_id": h.Chat, "text": cut(a.Title(t)+"\n\n"+w.Text(t, a), 4000), "disable_web_page_preview": true}
	},
}

// cut returns the first n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// post sends an alert to a webhook. Redirects are not followed: they would carry
// the secret of the address elsewhere.
func (w *Watch) post(ctx context.Context, t *text.Texts, h *Webhook, a *Alert) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	header := http.Header{"User-Agent": {"Shuultuur"}, "Content-Type": {"application/json"}}
	body := formats[formatOr(h.Format)](w, t, h, a, header)
	var sent []byte
	if plain, ok := body.(string); ok {
		header.Set("Content-Type", "text/plain; charset=utf-8")
		sent = []byte(plain)
	} else {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(body); err != nil {
			return err
		}
		sent = b.Bytes()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(sent))
	if err != nil {
		return errors.New("the address of the webhook cannot be read") // it is a secret
	}
	r.Header = header
	if h.Token != "" {
		r.Header.Set("Authorization", "Bearer "+h.Token)
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return fmt.Errorf("%s: %w", h.name(), err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, 300))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("%s: status %d: %s", h.name(), res.StatusCode, strconv.QuoteToASCII(string(answer)))
	}
	return nil
}
