package settings

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/policy/schedule"
	"shuultuur/text"
)

// A form of values says how a key of a rule is written in a form.
type valueForm int

const (
	oneWord  valueForm = iota
	number             // a whole number
	yesOrNo            // true or false
	names              // names, between which blanks, commas and ends of lines may stand
	oneALine           // values that may contain blanks and commas
)

// A ruleKey is a key of a rule that the form knows. A key without a label has a place of its own
// in the form; the others are further conditions.
type ruleKey struct {
	key   string
	form  valueForm
	label string
}

// ruleKeys are the keys that the form of a rule knows. Whatever else a rule says stays as it is.
var ruleKeys = []ruleKey{
	{"name", oneWord, ""}, {"action", oneWord, ""},
	{"category", names, ""}, {"service", names, ""}, {"host", names, ""},
	{"except", names, ""}, {"unless", names, ""},
	{"to", oneWord, ""}, {"text", oneWord, ""},
	{"over", number, text.Mark("the page counts more than")},
	{"search", oneALine, text.Mark("somebody searches for")},
	{"extension", names, text.Mark("a file ends with")},
	{"type", names, text.Mark("the type is")},
	{"url", oneALine, text.Mark("the address has the pattern")},
	{"method", names, text.Mark("the method is")},
	{"port", names, text.Mark("the port is")},
	{"scheme", names, text.Mark("the scheme is")},
	{"agent", oneALine, text.Mark("the program calls itself")},
	{"referer", names, text.Mark("the page before is of")},
	{"query", names, text.Mark("a name is asked for with the type")},
	{"words", oneALine, text.Mark("somebody sends the words")},
	{"file", oneALine, text.Mark("somebody sends the file")},
	{"larger", oneWord, text.Mark("somebody sends more than")},
}

// quotaKeys are the keys that the form of a limit of a day knows.
var quotaKeys = []ruleKey{{"category", names, ""}, {"service", names, ""}, {"time", oneWord, ""}, {"bytes", oneWord, ""}}

// ruleFields is a rule, or a limit of a day, in the form for pages.
type ruleFields struct {
	Values url.Values // by key; a key without values is not there
	Times  []timeRow
	Others []string // keys that the form does not know
}

// One returns a value of a key that has one.
func (f *ruleFields) One(key string) string { return f.Values.Get(key) }

// All returns the values of a key.
func (f *ruleFields) All(key string) []string { return f.Values[key] }

// Lines returns the values of a key, one a line.
func (f *ruleFields) Lines(key string) string { return strings.Join(f.Values[key], "\n") }

// fieldsIn reads a rule from its text.
func fieldsIn(yaml string, keys []ruleKey) (*ruleFields, error) {
	f := &ruleFields{Values: url.Values{}}
	if strings.TrimSpace(yaml) == "" {
		return f, nil
	}
	var m map[string]any
	if err := setting.LoadYAML([]byte(yaml), &m); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch i := slices.IndexFunc(keys, func(k ruleKey) bool { return k.key == key }); {
		case key == "schedule":
			var of struct{ Schedule schedule.Schedule }
			err := setting.LoadYAML([]byte(yaml), &of)
			if err == nil {
				f.Times, err = timeRowsOf(of.Schedule)
			}
			if err != nil {
				return nil, setting.At("schedule", err)
			}
		case i < 0:
			f.Others = append(f.Others, key)
		default:
			f.set(key, stringsOf(m[key]))
		}
	}
	return f, nil
}

func (f *ruleFields) set(key string, values []string) {
	if delete(f.Values, key); len(values) > 0 {
		f.Values[key] = values
	}
}

// stringsOf returns a value of the settings as strings.
func stringsOf(v any) (all []string) {
	switch v := v.(type) {
	case nil:
	case []any:
		for _, x := range v {
			all = append(all, fmt.Sprint(x))
		}
	default:
		if s := fmt.Sprint(v); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// submitted reads the fields of a form.
func submitted(form url.Values, keys []ruleKey) (*ruleFields, error) {
	f := &ruleFields{Values: url.Values{}}
	for _, k := range keys {
		f.set(k.key, valuesOf(form[k.key], k.form))
	}
	var err error
	f.Times, err = timeRowsIn(form)
	return f, err
}

// valuesOf reads the values of a field. A field that stands several times, such as check boxes and a
// line for others, has the values of all.
func valuesOf(given []string, as valueForm) (all []string) {
	for _, g := range given {
		g = strings.TrimSpace(strings.ReplaceAll(g, "\r\n", "\n"))
		switch as {
		case oneWord, number, yesOrNo:
			if g != "" && len(all) == 0 {
				all = []string{g}
			}
			continue
		case names:
			g = strings.NewReplacer(",", "\n", " ", "\n", "\t", "\n").Replace(g)
		}
		for line := range strings.SplitSeq(g, "\n") {
			if line = strings.TrimSpace(line); line != "" && !slices.Contains(all, line) {
				all = append(all, line)
			}
		}
	}
	return all
}

// changes returns what has to be changed at a path so that a rule, which has the fields f, has those of
// another: each key that differs, and no other.
func (f *ruleFields) changes(path []any, to *ruleFields, keys []ruleKey) (all []setting.Change, err error) {
	for _, k := range keys {
		is := to.Values[k.key]
		if slices.Equal(f.Values[k.key], is) {
			continue
		}
		c := setting.Change{Path: append(slices.Clone(path), k.key)}
		switch {
		case len(is) == 0:
			c.Remove = true
		case k.form == number:
			if c.Value, err = strconv.Atoi(is[0]); err != nil {
				return nil, setting.At(k.key, fmt.Errorf("%q is not a whole number", is[0]))
			}
		case k.form == yesOrNo:
			c.Value = is[0] == "true"
		case k.form == oneWord:
			c.Value = is[0]
		default:
			c.Value = is
		}
		all = append(all, c)
	}
	if sameTimes(f.Times, to.Times) {
		return all, nil
	}
	s, err := scheduleOf(to.Times)
	if err != nil {
		return nil, setting.At("schedule", err)
	}
	return append(all, setting.Change{Path: append(slices.Clone(path), "schedule"), Remove: len(s) == 0, Value: scheduleText(s)}), nil
}

// keepOrder puts the values that a rule had before into their order, and new ones behind them: a form shows
// them in another.
func (f *ruleFields) keepOrder(was *ruleFields) {
	for key, all := range f.Values {
		old := was.Values[key]
		place := func(v string) int {
			if i := slices.Index(old, v); i >= 0 {
				return i
			}
			return len(old)
		}
		slices.SortStableFunc(all, func(a, b string) int { return place(a) - place(b) })
	}
}

// ruleName returns a name for a rule that has none: what it is about, and a number if that is taken.
func ruleName(f *ruleFields, taken func(string) bool) string {
	name := "rule"
	for _, key := range []string{"category", "service", "host", "search", "extension"} {
		if all := f.Values[key]; len(all) > 0 {
			name = strings.Join(all[:min(len(all), 3)], ", ")
			break
		}
	}
	name = strings.TrimPrefix(name, "*")
	if len(name) > 60 {
		name = strings.ToValidUTF8(name[:60], "")
	}
	for n := 1; ; n++ {
		full := name
		if n > 1 {
			full = fmt.Sprintf("%s %d", name, n)
		}
		if full != "" && !taken(full) {
			return full
		}
	}
}

// isRuleOf reports whether a policy, with its base, has a rule of a name.
func isRuleOf(p *policy.Policy, name string) bool {
	return slices.ContainsFunc(p.Rules, func(r policy.Rule) bool { return r.Name == name })
}
