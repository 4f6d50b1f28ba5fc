package capture

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"strings"

	"shuultuur/lib/suricata/rule"
	"shuultuur/tool/capture/mail"
)

// Limits of SMTP.
const (
	maxCommand = 4096
	maxMail    = 16 << 20
)

// An smtp reads mail as it is handed over, RFC 5321.
type smtp struct {
	r        *Run
	f        *flow
	sides    [2]lineReader
	tx       *partsTx
	helo     []byte
	pending  []string // commands without a reply
	mail     []byte   // the mail that is being sent
	inData   bool
	left     int // bytes of the current chunk (BDAT)
	last     bool
	waits    bool // the mail is whole, and its reply is awaited
	welcomed bool
	rejected bool // the last DATA was
}

func newSMTP(r *Run, f *flow) *smtp { return &smtp{r: r, f: f} }

func (s *smtp) name() string { return "smtp" }

// data implements parser.
func (s *smtp) data(dir rule.Direction, b []byte, gap int64) {
	l := &s.sides[index(dir)]
	if gap > 0 {
		l.buf = nil
	}
	l.buf = append(l.buf, b...)
	if dir == rule.ToClient {
		s.replies()
	} else {
		s.commands()
	}
}

// end implements parser.
func (s *smtp) end(dir rule.Direction) {
	if dir == rule.ToServer && s.inData && len(s.mail) > 0 {
		s.read(false)
	}
	if t := s.tx; t != nil && dir == rule.ToClient {
		s.finish()
	}
}

// current returns the message that is being made.
func (s *smtp) current() *partsTx {
	if s.tx == nil {
		t := s.r.parts(s.f, "smtp", "smtp")
		s.tx = t
		if s.helo != nil {
			t.Set(rule.ToServer, rule.Helo, s.helo)
		}
		t.make = func() map[string]any { return smtpRecord(t) }
	}
	return s.tx
}

// finish ends the current message.
func (s *smtp) finish() {
	t := s.tx
	s.tx, s.waits, s.mail = nil, false, nil
	if t == nil {
		return
	}
	s.r.inspect(t, t.tx, rule.ToServer, rule.Complete)
	s.r.inspect(t, t.tx, rule.ToClient, rule.Complete)
	s.r.out.partsRecord(s.r, s.f, t)
}

func (s *smtp) odd(event string, dir rule.Direction) {
	t := s.current()
	t.AddAnomaly("smtp." + event)
	s.r.inspect(t, t.tx, dir, rule.Line)
}

// commands reads what the client sends.
func (s *smtp) commands() {
	l := &s.sides[0]
	for s.f.app == parser(s) {
		if s.left > 0 {
			n := min(s.left, len(l.buf))
			s.keep(l.buf[:n])
			l.buf, s.left = l.buf[n:], s.left-n
			if s.left > 0 {
				return
			}
			if s.last {
				s.whole()
			}
			continue
		}
		if s.inData && s.rejected {
			s.inData = false
		}
		if s.inData {
			line, _, ok := l.next(maxMail)
			if !ok {
				return
			}
			if string(line) == "." {
				s.inData = false
				s.whole()
				continue
			}
			if len(line) > 0 && line[0] == '.' {
				line = line[1:]
			}
			s.keep(line)
			s.keep([]byte("\r\n"))
			continue
		}
		line, too, ok := l.next(maxCommand)
		if !ok {
			return
		}
		s.command(line, too)
	}
}

func (s *smtp) keep(b []byte) {
	if len(s.mail)+len(b) <= maxMail {
		s.mail = append(s.mail, b...)
	}
}

// command handles one command.
func (s *smtp) command(line []byte, too bool) {
	s.r.frame(s.f, rule.ToServer, rule.SMTPCommandFrame, line)
	word, rest, _ := bytes.Cut(line, []byte(" "))
	verb := strings.ToUpper(string(word))
	rest = bytes.TrimSpace(rest)
	if verb == "MAIL" && s.tx != nil && len(s.tx.Values[0][rule.MailFrom]) > 0 {
		s.finish()
	}
	if verb == "QUIT" {
		s.pending = append(s.pending, verb)
		return
	}
	t := s.current()
	if too {
		t.AddAnomaly("smtp.max_command_line_len_exceeded")
	}
	s.pending = append(s.pending, verb)
	switch verb {
	case "HELO", "EHLO":
		s.helo = rest
		t.Set(rule.ToServer, rule.Helo, rest)
	case "MAIL":
		t.Set(rule.ToServer, rule.MailFrom, path(rest))
	case "RCPT":
		t.Add(rule.ToServer, rule.RcptTo, path(rest))
	case "DATA":
		s.inData, s.rejected, s.mail = true, false, nil
	case "BDAT":
		size, tail, _ := strings.Cut(string(rest), " ")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 {
			return
		}
		s.left, s.last = n, strings.EqualFold(strings.TrimSpace(tail), "LAST")
		if n == 0 && s.last {
			s.whole()
		}
	case "RSET":
		s.finish()
		return
	}
	if verb == "DATA" || verb == "BDAT" { // what is absent until here is absent
		s.r.inspect(t, t.tx, rule.ToServer, rule.Line)
	}
}

// path returns the address in FROM:<a@b> SIZE=1 as it was sent.
func path(b []byte) []byte {
	_, b, _ = bytes.Cut(b, []byte(":"))
	b = bytes.TrimSpace(b)
	if i := bytes.IndexByte(b, '>'); len(b) > 0 && b[0] == '<' && i > 0 {
		return b[:i+1]
	}
	if i := bytes.IndexByte(b, ' '); i > 0 {
		b = b[:i]
	}
	return b
}

// whole handles the end of a mail.
func (s *smtp) whole() {
	s.waits = true
	s.pending = append(s.pending, ".")
	s.read(true)
}

// read reads the mail as far as it was sent.
func (s *smtp) read(complete bool) {
	s.r.frame(s.f, rule.ToServer, rule.SMTPDataFrame, s.mail)
	t := s.current()
	m := mail.Read(s.mail, complete)
	for b, name := range map[rule.Buffer]string{rule.EmailFrom: "from", rule.EmailSubject: "subject", rule.EmailTo: "to", rule.EmailCc: "cc",
		rule.EmailDate: "date", rule.EmailMessageID: "message-id", rule.EmailMailer: "x-mailer"} {
		if v, ok := m.Field(name); ok {
			t.Set(rule.ToServer, b, v)
		}
	}
	for _, h := range m.Fields {
		if strings.EqualFold(string(h.Name), "received") {
			t.Add(rule.ToServer, rule.EmailReceived, h.Value)
		}
	}
	for _, u := range m.URLs {
		t.Add(rule.ToServer, rule.EmailURL, []byte(u))
	}
	if complete {
		sum := md5.Sum(m.Body)
		t.Set(rule.ToServer, rule.EmailBodyMD5, []byte(hex.EncodeToString(sum[:])))
	}
	t.Attached[0] = m.Files
	for _, e := range m.Odd {
		t.AddAnomaly("smtp." + e)
	}
	at := rule.Body
	if complete {
		at = rule.Trailer
	}
	s.r.inspect(t, t.tx, rule.ToServer, at)
}

// replies reads what the server sends.
func (s *smtp) replies() {
	for s.f.app == parser(s) {
		line, too, ok := s.sides[1].next(maxCommand)
		if !ok {
			return
		}
		s.r.frame(s.f, rule.ToClient, rule.SMTPReplyFrame, line)
		if too {
			s.odd("max_reply_line_len_exceeded", rule.ToClient)
		}
		code := 0
		if len(line) >= 3 {
			code, _ = strconv.Atoi(string(line[:3]))
		}
		if code < 100 {
			s.odd("invalid_reply", rule.ToClient)
			continue
		}
		if len(line) > 3 && line[3] == '-' { // more lines follow
			continue
		}
		s.reply(code)
	}
}

// reply handles the last line of a reply.
func (s *smtp) reply(code int) {
	if !s.welcomed {
		s.welcomed = true
		if code == 220 && len(s.pending) == 0 {
			return
		}
		if code != 220 && len(s.pending) == 0 {
			s.odd("no_server_welcome_message", rule.ToClient)
			return
		}
		if code == 220 {
			return
		}
	}
	if len(s.pending) == 0 {
		if code != 421 {
			s.odd("unable_to_match_reply_with_request", rule.ToClient)
		}
		return
	}
	verb := s.pending[0]
	s.pending = s.pending[1:]
	switch verb {
	case "DATA":
		if code != 354 {
			s.rejected = true
			s.odd("data_command_rejected", rule.ToClient)
		}
	case "STARTTLS":
		if code != 220 {
			s.odd("tls_rejected", rule.ToClient)
			return
		}
		s.finish()
		s.f.app, s.f.appName, s.f.before, s.f.gaveUp = nil, "", s.name(), false
	case ".":
		s.finish()
	}
}

// smtpRecord returns the parts of a record about a mail.
func smtpRecord(t *partsTx) map[string]any {
	const c = rule.ToServer
	m, letter := map[string]any{}, map[string]any{}
	text := func(m map[string]any, key string, b rule.Buffer) {
		if v := t.Text(c, b); v != "" {
			m[key] = v
		}
	}
	list := func(m map[string]any, key string, values [][]byte) {
		var all []string
		for _, v := range values {
			all = append(all, string(v))
		}
		if len(all) > 0 {
			m[key] = all
		}
	}
	text(m, "helo", rule.Helo)
	text(m, "mail_from", rule.MailFrom)
	list(m, "rcpt_to", t.Values[0][rule.RcptTo])
	out := map[string]any{"smtp": m}
	text(letter, "from", rule.EmailFrom)
	for key, b := range map[string]rule.Buffer{"to": rule.EmailTo, "cc": rule.EmailCc} {
		if v, ok := t.Buffer(c, b, 0); ok {
			var parts [][]byte
			for part := range bytes.SplitSeq(v, []byte(",")) {
				parts = append(parts, bytes.TrimSpace(part))
			}
			list(letter, key, parts)
		}
	}
	text(letter, "subject", rule.EmailSubject)
	text(letter, "date", rule.EmailDate)
	text(letter, "message_id", rule.EmailMessageID)
	text(letter, "x_mailer", rule.EmailMailer)
	text(letter, "body_md5", rule.EmailBodyMD5)
	list(letter, "received", t.Values[0][rule.EmailReceived])
	list(letter, "url", t.Values[0][rule.EmailURL])
	var names []string
	for _, f := range t.Attached[0] {
		names = append(names, f.Name)
	}
	if len(names) > 0 {
		letter["attachment"] = names
	}
	if len(letter) > 0 {
		letter["status"] = "PARSE_DONE"
		out["email"] = letter
	}
	return out
}
