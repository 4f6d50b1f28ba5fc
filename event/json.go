package event

import (
	"encoding/json"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendJSON appends s as a JSON string (RFC 8259, section 7). Bytes that are
// not UTF-8 become U+FFFD. Control characters, also those above U+007F and the
// line separators of Unicode, are escaped, so that they neither break a line
// nor steer a terminal.
func AppendJSON(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 || r < 0xa0 || r == 0x2028 || r == 0x2029 {
				dst = append(dst, s[start:i]...)
				dst = appendU(dst, r)
				start = i + n
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = appendU(dst, rune(c))
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendU(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// AppendTexts appends the texts of m that are not empty as members of a JSON object, with a
// comma before each.
func (m *RareValues) AppendTexts(dst []byte) []byte {
	for _, t := range [...]struct{ key, text string }{
		{`,"source":`, m.Source}, {`,"unread":`, m.Unread}, {`,"cache":`, m.Cache}, {`,"picture":`, m.Picture},
		{`,"conversation":`, m.Conversation}, {`,"minutes":`, m.Minutes},
	} {
		if t.text != "" {
			dst = AppendJSON(append(dst, t.key...), t.text)
		}
	}
	if m.Monitored != "" {
		dst = append(append(dst, `,"monitored":`...), m.Monitored...)
	}
	if m.Signatures != "" {
		dst = append(append(dst, `,"signatures":`...), m.Signatures...)
	}
	return dst
}

// MoreTexts are the texts of More as members of a JSON object.
type MoreTexts struct {
	Source       string          `json:"source"`
	Unread       string          `json:"unread"`
	Cache        string          `json:"cache"`
	Picture      string          `json:"picture"`
	Conversation string          `json:"conversation"`
	Minutes      string          `json:"minutes"`
	Monitored    json.RawMessage `json:"monitored"`
	Signatures   json.RawMessage `json:"signatures"`
}

// Set copies the texts into m.
func (t *MoreTexts) Set(m *RareValues) {
	m.Source, m.Unread, m.Cache, m.Picture = t.Source, t.Unread, t.Cache, t.Picture
	m.Conversation, m.Minutes = t.Conversation, t.Minutes
	m.Monitored, m.Signatures = RawText(t.Monitored), RawText(t.Signatures)
}

// ParseTexts reads the texts of a JSON object into m.
func (m *RareValues) ParseTexts(object string) error {
	var t MoreTexts
	if err := json.Unmarshal([]byte(object), &t); err != nil {
		return err
	}
	t.Set(m)
	return nil
}

// RawText returns a JSON value as text, or "" for none and null.
func RawText(v json.RawMessage) string {
	if string(v) == "null" {
		return ""
	}
	return string(v)
}
