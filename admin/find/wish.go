package find

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/exception"
	"shuultuur/check/service"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// A wish is what somebody has written, as far as it is understood: "open roblox for anna 1h".
type wish struct {
	Verb string `json:"verb,omitempty"` // one of the names of verbs, or ""
	Site string `json:"site,omitempty"` // a host, or the name of a service in the catalogue
	Who  string `json:"who,omitempty"`  // a person, a group or an address
	For  string `json:"for,omitempty"`  // how long, as forms say it: 15m, 1h, 7d
	Rest string `json:"rest,omitempty"` // the other words

	kind kind   // of Who
	name string // of the site, for people
}

// A kind is what a name is of.
type kind int

const (
	nobody kind = iota
	person
	group
	device
)

// The verbs.
const (
	open  = "open"
	block = "block"
	pause = "pause"
	why   = "why"
	more  = "more"
	goTo  = "go"
)

// verbs are what people call a verb, with commas between; each language adds its words.
var verbs = []struct{ name, words string }{
	{open, text.Mark("open, allow, unblock")},
	{block, text.Mark("block, close, forbid")},
	{pause, text.Mark("pause, stop filtering")},
	{why, text.Mark("why, check")},
	{more, text.Mark("more, more time, extend")},
	{goTo, text.Mark("go, go to, show")},
}

// units are what people call a length of time.
var units = []struct{ unit, words string }{
	{"m", text.Mark("m, min, minute, minutes")},
	{"h", text.Mark("h, hour, hours")},
	{"d", text.Mark("d, day, days")},
	{"w", text.Mark("w, week, weeks")},
}

// fillers are words that may stand between.
var fillers = text.Mark("for, to, the, please")

// names are those that a search may be about.
type names struct {
	people, groups []string // sorted
}

// Bounds on what is read.
const (
	maxQuery = 200 // bytes
	maxWords = 12
	minBegun = 3 // letters by which a name may be found
)

// parse reads what somebody has written in their language or in English. t is nil for English.
func parse(written string, t *text.Texts, known names) (w wish) {
	words := strings.Fields(strings.ToLower(written[:min(len(written), maxQuery)]))
	words = words[:min(len(words), maxWords)]
	words, w.For = length(words, t)
	for _, v := range verbs {
		if i, n := begins(words, t, v.words); n > 0 && w.Verb == "" {
			w.Verb, words = v.name, slices.Delete(words, i, i+n)
		}
	}
	words = slices.DeleteFunc(words, func(s string) bool { return slices.Contains(wordsOf(t, fillers), s) })
	words = w.takeWho(words, known)
	words = w.takeSite(words)
	w.Rest = strings.Join(words, " ")
	return w
}

// wordsOf returns the words of a list in English and in a language.
func wordsOf(t *text.Texts, list string) (all []string) {
	for _, l := range []string{list, t.Say(list)} {
		for word := range strings.SplitSeq(l, ",") {
			if word = strings.ToLower(strings.TrimSpace(word)); word != "" && !slices.Contains(all, word) {
				all = append(all, word)
			}
		}
	}
	return all
}

// begins returns where one of a list of phrases stands, at the beginning or at the end of words, and
// of how many words it is; the longest counts.
func begins(words []string, t *text.Texts, list string) (at, n int) {
	for _, phrase := range wordsOf(t, list) {
		parts := strings.Fields(phrase)
		if len(parts) <= n || len(parts) > len(words) {
			continue
		}
		if slices.Equal(words[:len(parts)], parts) {
			at, n = 0, len(parts)
		} else if end := len(words) - len(parts); slices.Equal(words[end:], parts) {
			at, n = end, len(parts)
		}
	}
	return at, n
}

var number = regexp.MustCompile(`^(\d{1,4})(\pL*)$`)

// length takes a length of time, such as "1h", "30 minutes" or "2 days".
func length(words []string, t *text.Texts) (rest []string, long string) {
	for i, word := range words {
		m := number.FindStringSubmatch(word)
		if m == nil {
			continue
		}
		unit, n := m[2], 1
		if unit == "" && i+1 < len(words) {
			unit, n = words[i+1], 2
		}
		for _, u := range units {
			if slices.Contains(wordsOf(t, u.words), unit) {
				value, _ := strconv.Atoi(m[1]) // four digits
				return slices.Delete(slices.Clone(words), i, i+n), inUnit(value, u.unit)
			}
		}
	}
	return words, ""
}

// inUnit writes a length as forms take it: settings have no weeks.
func inUnit(n int, unit string) string {
	if unit == "w" {
		n, unit = 7*n, "d"
	}
	return strconv.Itoa(n) + unit
}

// takeWho takes an address, or the name of a person or group: as a whole, or else the only one that
// begins so.
func (w *wish) takeWho(words []string, known names) []string {
	for i, word := range words {
		if a, err := setting.Client(word); err == nil {
			w.Who, w.kind = a.String(), device
			return slices.Delete(words, i, i+1)
		}
	}
	for n := len(words); n > 0; n-- { // names may have several words
		for i := 0; i+n <= len(words); i++ {
			called := strings.Join(words[i:i+n], " ")
			if w.Who, w.kind = known.find(func(name string) bool { return strings.ToLower(name) == called }); w.kind != nobody {
				return slices.Delete(words, i, i+n)
			}
		}
	}
	for i, word := range words {
		if len(word) < minBegun || strings.Contains(word, ".") {
			continue
		}
		if _, ok := service.Find(word); ok {
			continue
		}
		if w.Who, w.kind = known.find(func(name string) bool { return strings.HasPrefix(strings.ToLower(name), word) }); w.kind != nobody {
			return slices.Delete(words, i, i+1)
		}
	}
	return words
}

// find returns the only name that is meant; nobody if several are.
func (k names) find(is func(string) bool) (found string, of kind) {
	for _, all := range []struct {
		names []string
		kind  kind
	}{{k.people, person}, {k.groups, group}} {
		for _, name := range all.names {
			if !is(name) {
				continue
			}
			if of != nobody && name != found {
				return "", nobody
			}
			if of == nobody {
				found, of = name, all.kind
			}
		}
	}
	return found, of
}

// takeSite takes a host, the host of a URL, or a service.
func (w *wish) takeSite(words []string) []string {
	for i, word := range words {
		host := hostIn(word)
		if s, ok := service.Find(word); ok {
			w.Site, w.name = s.ID, s.Name
		} else if host != "" {
			w.Site, w.name = host, host
		} else {
			continue
		}
		return slices.Delete(words, i, i+1)
	}
	joined := strings.Join(words, " ")
	for _, s := range service.All() {
		if strings.ToLower(s.Name) == joined {
			w.Site, w.name = s.ID, s.Name
			return nil
		}
	}
	return words
}

// hostIn returns the host of a word that is a host or a URL, or "".
func hostIn(word string) string {
	host := exception.SiteIn(word)
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") || strings.ContainsAny(host, "@?#:\"'<>") {
		return ""
	}
	return host
}
