package alert

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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
	"time"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/wait"

	"shuultuur/text"
)

// wants reports whether a route is for an alert.
func (r *Route) wants(a *Alert) bool {
	if (len(r.Themes) > 0 || a.Theme == Requests) && !slices.Contains(r.Themes, a.Theme) || r.Severity != nil && a.Severity.rank() < r.Severity.rank() {
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

// Title is an alert in a line.
func (a *Alert) Title(t *text.Texts) string {
	who := a.called()
	if a.Theme == Requests && a.Time {
		return t.Say("{who} asks for 15 minutes more", "who", who)
	}
	if a.Theme == Requests {
		return t.Say("{who} asks to open {site}", "who", who, "site", strings.Join(a.Hosts, ", "))
	}
	return fmt.Sprintf("%s: %s (%s)", capital(a.Theme), who, t.Say(a.Severity.String()))
}

// called is the person by the shortest name there is.
func (a *Alert) called() string {
	return cmp.Or(a.User, a.Name, a.Client.String())
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
	if a.Theme == Requests {
		return w.requestText(t, a, who, at)
	}
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
	if link := w.link("/alerts/" + a.ID); link != "" {
		lines = append(lines, "", t.Say("See what happened before and after, and say what was done:"), link)
	}
	return strings.Join(lines, "\n") + "\n"
}

// requestText says who asks for which site, and what was said about it.
func (w *Watch) requestText(t *text.Texts, a *Alert, who, at string) string {
	if a.User == "" && a.Name != "" {
		who = a.Name + ", " + who
	}
	lines := []string{t.Say("Who: {who}", "who", who), t.Say("Where: {hosts}", "hosts", strings.Join(a.Hosts, ", ")), t.Say("When: {time}", "time", at)}
	for _, said := range a.Evidence {
		lines = append(lines, "“"+said+"”")
	}
	if link := w.link(a.page()); link != "" {
		lines = append(lines, "", t.Say("Answer it here:"), link)
	}
	return strings.Join(lines, "\n") + "\n"
}

// page is where the alert or the request is answered.
func (a *Alert) page() string {
	if a.Theme == Requests {
		return "/votes"
	}
	return "/alerts/" + a.ID
}

// link returns the address of a page below the admin address, "" if that is not known.
func (w *Watch) link(page string) string {
	if w.config.Link == "" {
		return ""
	}
	return strings.TrimSuffix(w.config.Link, "/") + page
}

// A message tells a receiver of an alert, or of many in a digest.
type message struct {
	id                string // the same at each attempt
	title, text, link string
	open              string // the button that leads to link
	severity          Severity
	alerts            []*Alert // in the order in which they were raised
}

// message makes the message about some alerts.
func (w *Watch) message(t *text.Texts, id string, of []*Alert) *message {
	if len(of) == 1 {
		a := of[0]
		return &message{id: id, title: a.Title(t), text: w.Text(t, a), link: w.link(a.page()), open: t.Say("Open the page"), severity: a.Severity, alerts: of}
	}
	all, requests := "/alerts", 0 // the page that has all
	for _, a := range of {
		if a.Theme == Requests {
			requests++
		}
	}
	switch requests {
	case 0:
	case len(of):
		all = "/votes"
	default:
		all = "/inbox"
	}
	m := &message{id: id, link: w.link(all), open: t.Say("Open the page"), severity: Low, alerts: of}
	people := map[string]bool{}
	var lines []string
	for i, a := range of {
		people[a.Who()] = true
		if a.Severity.rank() > m.severity.rank() {
			m.severity = a.Severity
		}
		if i < maxListed {
			lines = append(lines, t.Time(a.First)+" "+a.Title(t))
		}
	}
	m.title = t.Say("Alerts: {n}; people: {people}", "n", strconv.Itoa(len(of)), "people", strconv.Itoa(len(people)))
	answer := t.Say("See what happened before and after, and say what was done:")
	if requests > 0 {
		m.title = t.Say("For the inbox: {n}; people: {people}", "n", strconv.Itoa(len(of)), "people", strconv.Itoa(len(people)))
		answer = t.Say("Answer it here:")
	}
	if more := len(of) - maxListed; more > 0 {
		lines = append(lines, t.Say("… and {n} more", "n", strconv.Itoa(more)))
	}
	if m.link != "" {
		lines = append(lines, "", answer, m.link)
	}
	m.text = strings.Join(lines, "\n") + "\n"
	return m
}

// maxListed is how many alerts the text of a digest names.
const maxListed = 20

// fields are those of an alert in a message of JSON.
func (w *Watch) fields(a *Alert) map[string]any {
	return map[string]any{"id": a.ID, "kind": a.kind(), "theme": a.Theme, "severity": a.Severity, "user": a.User, "client": a.Client, "groups": a.Groups,
		"first": a.First, "last": a.Last, "matches": a.Matches, "blocked": a.Blocked, "hosts": a.Hosts, "link": w.link(a.page())}
}

func (a *Alert) kind() string {
	if a.Theme == Requests {
		return "request"
	}
	return "alert"
}

// formats make the body of a message to a webhook, and its header.
var formats = map[string]func(w *Watch, h *Webhook, m *message, header http.Header) any{
	"json": func(w *Watch, _ *Webhook, m *message, _ http.Header) any {
		body := map[string]any{}
		if len(m.alerts) == 1 {
			body = w.fields(m.alerts[0])
		} else {
			all := make([]any, len(m.alerts))
			for i, a := range m.alerts {
				all[i] = w.fields(a)
			}
			body["alerts"] = all
		}
		body["title"], body["text"], body["link"] = m.title, m.text, m.link
		return body
	},
	"slack": func(_ *Watch, _ *Webhook, m *message, _ http.Header) any {
		escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
		return map[string]any{"text": escape.Replace(m.title), "blocks": []any{
			map[string]any{"type": "header", "text": map[string]any{"type": "plain_text", "text": cut(m.title, 150)}},
			map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": cut(escape.Replace(m.text), 3000)}},
		}}
	},
	"teams": func(_ *Watch, _ *Webhook, m *message, _ http.Header) any {
		block := func(line string, more map[string]any) map[string]any {
			b := map[string]any{"type": "TextBlock", "text": line, "wrap": true}
			for k, v := range more {
				b[k] = v
			}
			return b
		}
		body := []any{block(m.title, map[string]any{"weight": "Bolder", "size": "Medium"})}
		for line := range strings.Lines(m.text) {
			if line = strings.TrimSpace(line); line != "" {
				body = append(body, block(line, nil))
			}
		}
		card := map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
		if m.link != "" {
			card["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": m.open, "url": m.link}}
		}
		return map[string]any{"type": "message", "attachments": []any{map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}}}
	},
	"ntfy": func(_ *Watch, _ *Webhook, m *message, header http.Header) any {
		header.Set("Title", mime.QEncoding.Encode("utf-8", m.title))
		header.Set("Priority", map[Severity]string{Low: "2", Medium: "3", High: "5"}[m.severity])
		header.Set("Tags", "warning")
		if m.link != "" {
			header.Set("Click", m.link)
			label := strings.NewReplacer("\"", "", "\\", "").Replace(m.open)
			header.Set("Actions", mime.QEncoding.Encode("utf-8", `view, "`+label+`", "`+m.link+`", clear=true`))
		}
		return m.text
	},
	"telegram": func(_ *Watch, h *Webhook, m *message, _ http.Header) any {
		body := map[string]any{"chat_id": h.Chat, "text": cut(m.title+"\n\n"+m.text, 4000), "link_preview_options": map[string]any{"is_disabled": true}}
		// Telegram refuses the whole message if the host of a button is a name without a dot.
		if u, err := url.Parse(m.link); err == nil && strings.Contains(u.Hostname(), ".") {
			body["reply_markup"] = map[string]any{"inline_keyboard": [][]any{{map[string]any{"text": m.open, "url": m.link}}}}
		}
		return body
	},
}

// cut returns the first n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// encode makes the body of a message to a webhook, and its header. The names of its identifier, its time
// and its signature are those of Standard Webhooks.
func (w *Watch) encode(h *Webhook, m *message, now time.Time) (body []byte, header http.Header, err error) {
	header = http.Header{"User-Agent": {"Shuultuur"}, "Content-Type": {"application/json"}, "Webhook-Id": {m.id}}
	of := formats[formatOr(h.Format)](w, h, m, header)
	if plain, ok := of.(string); ok {
		header.Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(plain)
	} else {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(of); err != nil {
			return nil, nil, err
		}
		body = b.Bytes()
	}
	if h.Token != "" {
		header.Set("Authorization", "Bearer "+h.Token)
	}
	if h.Key != "" {
		at := strconv.FormatInt(now.Unix(), 10)
		header.Set("Webhook-Timestamp", at)
		mac := hmac.New(sha256.New, []byte(h.Key))
		mac.Write([]byte(m.id + "." + at + "."))
		mac.Write(body)
		header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return body, header, nil
}

// post sends a message to a webhook. Redirects are not followed: they would carry the secret of the
// address elsewhere.
func (w *Watch) post(ctx context.Context, h *Webhook, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	body, header, err := w.encode(h, m, time.Now())
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the webhook cannot be read") // it is a secret
	}
	r.Header = header
	c := http.Client{Transport: w.web, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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
		after := wait.Asked(res.Header, time.Now())
		var telegram struct { // says in its body how long to wait
			Parameters struct {
				After int64 `json:"retry_after"`
			}
		}
		if after == 0 && h.Format == "telegram" && json.Unmarshal(answer, &telegram) == nil {
			after = time.Duration(min(telegram.Parameters.After, int64(maxPause/time.Second))) * time.Second
		}
		return &refusal{fmt.Errorf("%s: status %d: %s", h.name(), res.StatusCode, strconv.QuoteToASCII(string(answer))), ofItself(res.StatusCode), after}
	}
	return nil
}

// hookTime is how long a webhook may take for a message.
const hookTime = 15 * time.Second

// A refusal is the answer of a receiver that has not taken a message.
type refusal struct {
	error
	ofItself bool          // the message was refused, not the moment
	after    time.Duration // when to try again; 0: it has not said
}

func (r *refusal) Unwrap() error { return r.error }

// ofItself reports whether a status refuses a message for what it is.
func ofItself(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		return false // another message would get the same answer
	}
	return status >= 400 && status < 500
}
