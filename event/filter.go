package event

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
)

// A Field is a value that a [Term] examines, and by which a [Question] groups rows.
type Field uint8

const (
	Text   Field = iota // part of URL, host, rule, evidence or note, ignoring the case of ASCII letters; or the whole ID
	ID                  // compared exactly, like the fields below unless their comments say otherwise
	Client              // an address, or a network that contains it
	User
	Host // the host or a domain above it
	Action
	Policy
	Rule
	Category // of the finding that decided
	Proto
	Method
	Status
	Type
	Learned // "yes"
	Source
	Unread
	Cache
	Picture
	Conversation
	Monitored // the name of one of the rules
	Signature // the identifier of one of the signatures
	lastField = Signature
)

var fieldNames = [...]string{"text", "id", "client", "user", "host", "action", "policy", "rule", "category", "proto",
	"method", "status", "type", "learned", "source", "unread", "cache", "picture", "conversation", "monitored", "signature"}

// String returns the name of the field in the language of [ParseFilter].
func (f Field) String() string { return fieldNames[int(f)%len(fieldNames)] }

// FieldNamed returns the field with that name.
func FieldNamed(name string) (Field, bool) {
	i := slices.Index(fieldNames[:], name)
	return Field(max(i, 0)), i >= 0
}

// Of returns the value of the field in r, or "". Text has no value; Monitored
// and Signature give the whole JSON array.
func (f Field) Of(r *Row) string {
	switch f {
	case ID:
		return r.ID
	case Client:
		if r.Client.IsValid() {
			return r.Client.String()
		}
	case User:
		return r.User
	case Host:
		return r.Host
	case Action:
		return r.Action.String()
	case Policy:
		return r.Policy
	case Rule:
		return r.Rule
	case Category:
		return r.Category
	case Proto:
		return r.Proto.String()
	case Method:
		return r.Method
	case Status:
		if r.Status != 0 {
			return strconv.Itoa(r.Status)
		}
	case Type:
		return r.Type
	case Learned:
		if r.Learned {
			return "yes"
		}
	}
	return f.ofMore(&r.RareValues)
}

func (f Field) ofMore(m *RareValues) string {
	switch f {
	case Source:
		return m.Source
	case Unread:
		return m.Unread
	case Cache:
		return m.Cache
	case Picture:
		return m.Picture
	case Conversation:
		return m.Conversation
	case Monitored:
		return m.Monitored
	case Signature:
		return m.Signatures
	}
	return ""
}

// A Term is a condition on one field.
type Term struct {
	Field  Field
	Not    bool     // inverted: matches the rows that would not match otherwise
	Values []string // one of them must match; "" matches rows without the field
	nets   []netip.Prefix
}

// Key is the same for terms that match the same rows.
func (t *Term) Key() string {
	return fmt.Sprint(t.Field, t.Not, t.nets) + strings.Join(t.Values, "\x00")
}

// NewTerm makes a term. It normalises the values, and returns an error for one that the field
// cannot have.
func NewTerm(f Field, not bool, values ...string) (Term, error) {
	t := Term{Field: f, Not: not}
	for _, v := range values {
		if v == "" {
			if f == Text {
				continue
			}
			t.Values = append(t.Values, v)
			continue
		}
		if err := t.add(v); err != nil {
			return Term{}, err
		}
	}
	return t, nil
}

func (t *Term) add(v string) error {
	switch t.Field {
	case Client:
		p, err := network(v)
		if err != nil {
			return err
		}
		t.nets = append(t.nets, p)
		return nil
	case Host:
		v = strings.ToLower(strings.Trim(v, "."))
	case Type, Cache:
		v = strings.ToLower(v)
	case Action:
		if actionNamed(v) < 0 {
			return fmt.Errorf("%q is not an action: write pass, allow, warn, block or redirect", v)
		}
	case Proto:
		if !slices.Contains([]string{"http", "tls", "dns"}, v) {
			return fmt.Errorf("%q is not a protocol: write http, tls or dns", v)
		}
	case Learned:
		if v != "yes" {
			return fmt.Errorf("learned:%q: write learned:yes or -learned:yes", v)
		}
	case Status:
		if n, err := strconv.Atoi(v); err != nil || n < 0 || n > 65535 {
			return fmt.Errorf("%q is not a status: write a number such as 403", v)
		}
	case Signature:
		if _, err := strconv.ParseUint(v, 10, 32); err != nil {
			return fmt.Errorf("%q is not the identifier of a signature: write a number", v)
		}
	}
	t.Values = append(t.Values, v)
	return nil
}

// network parses an address or a network.
func network(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%q is not the address of a client: write 10.1.2.3 or a network such as 10.1.0.0/16", s)
	}
	return p.Masked(), nil
}

// actionNamed returns the action with a name, or -1.
func actionNamed(name string) int {
	for a := filter.Pass; a <= filter.Redirect; a++ {
		if a.String() == name {
			return int(a)
		}
	}
	return -1
}

// Networks returns the networks of a term about clients.
func (t *Term) Networks() []netip.Prefix { return t.nets }

// Matches reports whether the term matches a row with v in its field. It is not
// for Text, which has several fields: use [Term.Match].
func (t *Term) Matches(v string) bool { return t.has(v) != t.Not }

func (t *Term) has(v string) bool {
	switch {
	case t.Field == Client && v != "":
		a, err := netip.ParseAddr(v)
		return err == nil && t.covers(a)
	case t.Field == Host && v != "":
		return slices.ContainsFunc(t.Values, func(domain string) bool { return domain != "" && isWithin(v, domain) })
	case t.Field == Monitored && v != "":
		return slices.ContainsFunc(t.Values, func(rule string) bool { return rule != "" && strings.Contains(v, string(AppendJSON(nil, rule))) })
	case t.Field == Signature && v != "":
		return slices.ContainsFunc(t.Values, func(id string) bool {
			return id != "" && slices.Contains(strings.Split(strings.Trim(v, "[]"), ","), id)
		})
	}
	return slices.Contains(t.Values, v)
}

func (t *Term) covers(a netip.Addr) bool {
	return slices.ContainsFunc(t.nets, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Match reports whether the term matches r.
func (t *Term) Match(r *Row) bool {
	switch t.Field {
	case Text:
		return t.inText(r) != t.Not
	case Client:
		if r.Client.IsValid() { // avoids making a text of the address
			return t.covers(r.Client) != t.Not
		}
	}
	return t.Matches(t.Field.Of(r))
}

func (t *Term) inText(r *Row) bool {
	return t.InText(r.URL) || t.InText(r.Host) || t.InText(r.Rule) || t.InText(r.Evidence) || t.InText(r.Note) || slices.Contains(t.Values, r.ID)
}

// InText reports whether s contains one of the values, compared as for [Text].
func (t *Term) InText(s string) bool {
	return slices.ContainsFunc(t.Values, func(v string) bool { return containsFold(s, v) })
}

// SearchText returns the texts that [Text] searches, in lower case, one per line, and the ID.
// Database servers store it: a value that it does not contain does not match.
func (r *Row) SearchText() string {
	return ascii.ToLower(strings.Join([]string{r.URL, r.Host, r.Rule, r.Evidence, r.Note, r.ID}, "\n"))
}

// RoundUp rounds up to microseconds: rows have no finer times.
func RoundUp(t time.Time) time.Time { return t.Add(time.Microsecond - 1).Truncate(time.Microsecond) }

// isWithin reports whether host is domain or a subdomain of it.
func isWithin(host, domain string) bool {
	rest, ok := strings.CutSuffix(host, domain)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}

// containsFold is strings.Contains ignoring the case of ASCII letters, as
// SQLite's LIKE does.
func containsFold(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		j := 0
		for j < len(part) && ascii.Lower(s[i+j]) == ascii.Lower(part[j]) {
			j++
		}
		if j == len(part) {
			return true
		}
	}
	return false
}

// A Filter selects rows: those within a span of time that match every term. The zero Filter
// selects all rows.
type Filter struct {
	Since, Until time.Time // Since <= Time < Until; a zero time is no bound
	Terms        []Term
}

// Match reports whether the filter selects r.
func (f *Filter) Match(r *Row) bool {
	if !f.Since.IsZero() && r.Time.Before(f.Since) || !f.Until.IsZero() && !r.Time.Before(f.Until) {
		return false
	}
	for i := range f.Terms {
		if !f.Terms[i].Match(r) {
			return false
		}
	}
	return true
}

// And adds a term. A term for an empty text adds nothing.
func (f *Filter) And(field Field, not bool, values ...string) error {
	t, err := NewTerm(field, not, values...)
	if err == nil && len(t.Values)+len(t.nets) > 0 {
		f.Terms = append(f.Terms, t)
	}
	return err
}

const (
	maxTerms  = 64 // of one filter
	maxValues = 64 // of one term
)

// ParseFilter reads a filter as people write it, on pages and at the command line:
//
//	host:example.com action:block,warn -category:ads since:2d "two words"
//
// Words are separated by blanks and all have to match. field:value examines one field; of
// several values separated by commas, one has to match. A word without a field is searched for
// in the texts. A minus sign in front inverts a word; an empty value stands for nothing (user:
// finds rows without a user). Quotation marks keep blanks and commas in a value. since: and
// until: take a [Moment]; ages count back from now.
func ParseFilter(s string, now time.Time) (Filter, error) {
	var f Filter
	for rest := strings.TrimLeft(s, blanks); rest != ""; rest = strings.TrimLeft(rest, blanks) {
		not := len(rest) > 1 && rest[0] == '-'
		if not {
			rest = rest[1:]
		}
		name, after, ok := fieldIn(rest)
		if !ok {
			name, after = "text", rest
		}
		values, after, err := valuesIn(after, ok)
		if err == nil {
			err = f.word(name, not, values, now)
		}
		if err != nil {
			return Filter{}, err
		}
		rest = after
	}
	return f, nil
}

const blanks = " \t\r\n"

// word adds the term that one word stands for.
func (f *Filter) word(name string, not bool, values []string, now time.Time) (err error) {
	if name == "since" || name == "until" {
		if len(values) != 1 || not {
			return fmt.Errorf("%s: takes one time", name)
		}
		at := &f.Since
		if name == "until" {
			at = &f.Until
		}
		*at, err = Moment(values[0], now)
		return err
	}
	field, ok := FieldNamed(name)
	if !ok {
		return fmt.Errorf("%q is not a field: use one of %s, since or until, or put quotation marks around the word", name, strings.Join(fieldNames[:], ", "))
	}
	if len(f.Terms) == maxTerms {
		return fmt.Errorf("more than %d words", maxTerms)
	}
	return f.And(field, not, values...)
}

// fieldIn cuts a prefix "name:" off s. "http://a" and "2001:db8::1" have none: they are
// searched for as they are.
func fieldIn(s string) (name, after string, ok bool) {
	i := 0
	for i < len(s) && 'a' <= ascii.Lower(s[i]) && ascii.Lower(s[i]) <= 'z' {
		i++
	}
	if i == 0 || i == len(s) || s[i] != ':' || strings.HasPrefix(s[i+1:], "//") {
		return "", s, false
	}
	if word, _, _ := strings.Cut(s, " "); strings.Count(word, ":") > 1 {
		if _, err := netip.ParseAddr(word); err == nil {
			return "", s, false
		}
	}
	return strings.ToLower(s[:i]), s[i+1:], true
}

// valuesIn cuts the values off the front of s: several, separated by commas, if list is set.
func valuesIn(s string, list bool) (values []string, after string, err error) {
	var v strings.Builder
	for {
		switch {
		case s == "" || strings.IndexByte(blanks, s[0]) >= 0:
			return append(values, v.String()), s, nil
		case s[0] == '"':
			end := strings.IndexByte(s[1:], '"')
			if end < 0 {
				return nil, "", fmt.Errorf("quotation marks are not closed in %q", s)
			}
			v.WriteString(s[1 : 1+end])
			s = s[end+2:]
		case s[0] == ',' && list:
			if values = append(values, v.String()); len(values) == maxValues {
				return nil, "", fmt.Errorf("more than %d values", maxValues)
			}
			v.Reset()
			s = s[1:]
		default:
			v.WriteByte(s[0])
			s = s[1:]
		}
	}
}

// Moment parses a time: an age ("2h", "3d"), a day, a minute or second of a day in the zone of
// now, or RFC 3339. A day begins at the first moment of its date.
func Moment(s string, now time.Time) (time.Time, error) {
	var ago setting.Duration
	if err := ago.UnmarshalText([]byte(s)); err == nil {
		return now.Add(-ago.Or(0)), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			y, m, d := t.Date()
			return clock.Moment(y, m, d, t.Hour()*60+t.Minute(), now.Location()).Add(time.Duration(t.Second()) * time.Second), nil
		}
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2h, 3d, 2026-01-31 or 2026-01-31T08:00", s)
}
