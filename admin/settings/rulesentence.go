package settings

import (
	"slices"
	"strconv"
	"strings"

	"shuultuur/check/service"
	"shuultuur/text"
)

// A piece is a part of a sentence. What somebody has chosen is shown as a thing of its own.
type piece struct {
	Text   string
	Chosen bool
}

// Characters that stand around what was chosen while a sentence is made: languages put it elsewhere.
const chosenFirst, chosenEnd = "\x01", "\x02"

func chosen(s string) string {
	return chosenFirst + strings.NewReplacer(chosenFirst, "", chosenEnd, "").Replace(s) + chosenEnd
}

// pieces takes a sentence apart.
func pieces(s string) (all []piece) {
	for s != "" {
		before, rest, found := strings.Cut(s, chosenFirst)
		if before != "" {
			all = append(all, piece{Text: before})
		}
		if !found {
			break
		}
		inside, after, _ := strings.Cut(rest, chosenEnd)
		all = append(all, piece{inside, true})
		s = after
	}
	return all
}

// plainSentence is a sentence as text.
func plainSentence(s string) string {
	return strings.NewReplacer(chosenFirst, "", chosenEnd, "").Replace(s)
}

// A ruleAction is what a rule does, with the sentence for it, in the order of the form.
type ruleAction struct {
	Action, Icon, Verdict string
	Name                  string // in the form
	Sentence              string
}

// actions begin with the one that changes nothing, so that somebody can watch before a rule closes
// anything.
var actions = []ruleAction{
	{"monitor", "count", "count", text.Mark("Only count"), text.Mark("Only count {what}")},
	{"block", "block", "block", text.Mark("Block"), text.Mark("Block {what}")},
	{"warn", "warn", "warn", text.Mark("Warn of"), text.Mark("Warn of {what}")},
	{"allow", "allow", "allow", text.Mark("Allow"), text.Mark("Allow {what}")},
	{"redirect", "move", "move", text.Mark("Send to"), text.Mark("Send {what} to {place}")},
	{"blur", "eyeoff", "warn", text.Mark("Blur pictures"), text.Mark("Blur pictures of {what}")},
	{"placeholder", "image", "warn", text.Mark("Hide pictures"), text.Mark("Hide pictures of {what}")},
	{limitAction, "hourglass", "warn", text.Mark("Limit a day"), ""},
}

// limitAction is the choice of the form that makes a limit of a day instead of a rule.
const limitAction = "limit"

func actionOf(name string) ruleAction {
	if i := slices.IndexFunc(actions, func(a ruleAction) bool { return a.Action == name }); i >= 0 {
		return actions[i]
	}
	return ruleAction{Action: name, Icon: "rules", Verdict: "count", Sentence: name + " {what}"}
}

// categoryNames are categories of our lists and checks in words. Others are shown as they are called.
var categoryNames = map[string]string{
	"ads": text.Mark("Advertising"), "tracking": text.Mark("Tracking"), "malware": text.Mark("Malware"), "phishing": text.Mark("Phishing"),
	"porn": text.Mark("Pornography"), "drugs": text.Mark("Drugs"), "weapons": text.Mark("Weapons"), "news": text.Mark("News"),
	"phrase": text.Mark("Many bad words"), "bannedphrase": text.Mark("Forbidden words"), "virus": text.Mark("Viruses"),
	"doh": text.Mark("Hidden name servers"), "proxies": text.Mark("Proxies"), "certificate": text.Mark("Faulty certificates"),
}

// categoryName returns a category in words.
func categoryName(t *text.Texts, category string) string {
	if id, ok := strings.CutPrefix(category, "service/"); ok {
		return serviceName(id)
	}
	bare := strings.ToLower(strings.TrimPrefix(category, "category/"))
	for _, k := range kinds {
		if k.kind == bare {
			return t.Say(k.name)
		}
	}
	if name, ok := categoryNames[bare]; ok {
		return t.Say(name)
	}
	return category
}

// serviceName returns the name of a service.
func serviceName(id string) string {
	all := service.All()
	if i := slices.IndexFunc(all, func(s service.Service) bool { return strings.EqualFold(s.ID, id) }); i >= 0 {
		return all[i].Name
	}
	return id
}

// series joins what was chosen: "a, b and c".
func series(t *text.Texts, all []string) string {
	for i := range all {
		all[i] = chosen(all[i])
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	last := len(all) - 1
	return t.Say("{all} and {last}", "all", listed(t, all[:last]), "last", all[last])
}

// listed writes parts with the comma of the language between them.
func listed(t *text.Texts, parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	all := parts[0]
	for _, p := range parts[1:] {
		all = t.Say("{first}, {rest}", "first", all, "rest", p)
	}
	return all
}

// things returns the kinds and services of a rule or a limit.
func (f *ruleFields) things(t *text.Texts) (all []string) {
	for _, c := range f.Values["category"] {
		all = append(all, categoryName(t, c))
	}
	for _, s := range f.Values["service"] {
		all = append(all, serviceName(s))
	}
	return all
}

// sentence says in a sentence what a rule does.
func (f *ruleFields) sentence(t *text.Texts) string {
	sites := slices.DeleteFunc(slices.Clone(f.Values["host"]), func(h string) bool { return h == "*" })
	what, clauses := series(t, f.things(t)), []string{}
	switch {
	case what == "" && len(sites) > 0:
		what = series(t, sites)
	case what == "":
		what = chosen(t.Say("everything"))
	case len(sites) > 0:
		clauses = append(clauses, t.Say("on {sites}", "sites", series(t, sites)))
	}
	a := actionOf(f.One("action"))
	first := t.Say(a.Sentence, "what", what, "place", chosen(f.One("to")))
	for _, k := range ruleKeys {
		if all := f.Values[k.key]; k.label != "" && len(all) > 0 {
			clauses = append(clauses, t.Say("if {condition} {values}", "condition", t.Say(k.label), "values", series(t, slices.Clone(all))))
		}
	}
	if times := f.times(t); times != "" {
		clauses = append(clauses, times)
	}
	except := slices.Clone(f.Values["except"])
	for _, c := range f.Values["unless"] {
		except = append(except, categoryName(t, c))
	}
	if len(except) > 0 {
		clauses = append(clauses, t.Say("except {what}", "what", series(t, except)))
	}
	if says := f.One("text"); says != "" {
		clauses = append(clauses, t.Say("and say {text}", "text", chosen(says)))
	}
	return listed(t, append([]string{first}, clauses...))
}

// times says when a rule holds, "" for always.
func (f *ruleFields) times(t *text.Texts) string {
	var all []string
	for _, row := range f.Times {
		says := []string{}
		if days := dayWords(t, row.Days); days != "" {
			says = append(says, days)
		}
		if row.From != 0 || row.To != wholeDay {
			says = append(says, clock(row.From)+"–"+clock(row.To))
		}
		if dates, not := strings.CutPrefix(row.Dates, "not "); not {
			says = append(says, t.Say("not on {dates}", "dates", dates))
		} else if dates != "" {
			says = append(says, t.Say("on {dates}", "dates", dates))
		}
		if row.Zone != "" {
			says = append(says, "("+row.Zone+")")
		}
		if len(says) > 0 {
			all = append(all, strings.Join(says, " "))
		}
	}
	return series(t, all)
}

// dayWords writes days for people, "" for all.
func dayWords(t *text.Texts, days [7]bool) string {
	name := func(d int) string { return t.Say([...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[d]) }
	var parts []string
	for _, run := range runs(days) {
		switch {
		case run == [2]int{0, 6}:
			return ""
		case run[1] == run[0]+1:
			parts = append(parts, name(run[0]), name(run[1]))
		case run[1] > run[0]:
			parts = append(parts, name(run[0])+"–"+name(run[1]))
		default:
			parts = append(parts, name(run[0]))
		}
	}
	return listed(t, parts)
}

// limitSentence says in a sentence what a limit of a day is.
func (f *ruleFields) limitSentence(t *text.Texts) string {
	what := series(t, f.things(t))
	if what == "" {
		what = chosen(t.Say("Everything"))
	}
	var most []string
	if d := f.One("time"); d != "" {
		if minutes := minutesOf(d); minutes > 0 {
			d = t.Say("{n} minutes", "n", strconv.Itoa(minutes))
		}
		most = append(most, d)
	}
	if b := f.One("bytes"); b != "" {
		most = append(most, b)
	}
	return t.Say("{what}: {most} a day", "what", what, "most", series(t, most))
}
