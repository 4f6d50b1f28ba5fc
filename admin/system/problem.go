package system

import (
	"context"
	"slices"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/lib/problem"
	"shuultuur/text"
)

// A sentence says what problems of a kind are, for people, and where they are mended.
type sentence struct {
	icon, verdict string
	title, more   string
	to, do        string
}

var (
	seeLists    = text.Mark("See the lists")
	seeSettings = text.Mark("See the settings")
	seeSystem   = text.Mark("See the system")
	seePeople   = text.Mark("See the people")
)

// sentences has one for each kind.
var sentences = map[problem.Kind]sentence{
	problem.Awaited:     {icon: "lists", verdict: "off", title: text.Mark("Some lists are not here yet"), more: text.Mark("Until they come, they know no site. They are tried again by themselves."), to: "/lists", do: seeLists},
	problem.Lists:       {icon: "lists", verdict: "warn", title: text.Mark("Some lists need a look"), more: text.Mark("They could not be fetched or read. The versions before stay in use."), to: "/lists", do: seeLists},
	problem.Settings:    {icon: "sliders", verdict: "warn", title: text.Mark("The settings in the file could not be used"), more: text.Mark("The gateway goes on with those before."), to: "/settings", do: seeSettings},
	problem.Restart:     {icon: "refresh", verdict: "warn", title: text.Mark("A change of the settings waits for a restart"), to: "/settings/form", do: seeSettings},
	problem.Disk:        {icon: "disk", verdict: "block", title: text.Mark("There is no room on the disk"), more: text.Mark("New entries of the log may be lost until there is."), to: "/system", do: seeSystem},
	problem.Clock:       {icon: "clock", verdict: "warn", title: text.Mark("The clock of this machine seems wrong"), to: "/system", do: seeSystem},
	problem.Messages:    {icon: "mail", verdict: "warn", title: text.Mark("Some messages could not be sent"), more: text.Mark("They are tried again by themselves."), to: "/settings", do: seeSettings},
	problem.Audit:       {icon: "history", verdict: "block", title: text.Mark("Changes cannot be recorded, so nothing is changed"), to: "/audit", do: text.Mark("See the audit log")},
	problem.Certificate: {icon: "certificate", verdict: "warn", title: text.Mark("A certificate needs a look"), to: "/ca", do: text.Mark("See the certificate")},
	problem.Ending:      {icon: "certificate", verdict: "warn", title: text.Mark("A certificate ends soon"), more: text.Mark("It is not renewed by itself. Put a new one in its place before that."), to: "/ca", do: text.Mark("See the certificate")},
	problem.Directory:   {icon: "people", verdict: "warn", title: text.Mark("The list of people cannot be asked"), more: text.Mark("People whose groups are not known get the rules for that, or cannot sign in."), to: "/settings", do: seeSettings},
	problem.Devices:     {icon: "devices", verdict: "off", title: text.Mark("The names of some devices cannot be read"), to: "/clients", do: seePeople},
	problem.Fleet:       {icon: "server", verdict: "warn", title: text.Mark("The other nodes cannot be reached"), more: text.Mark("This one goes on with what it knows."), to: "/system", do: seeSystem},
	problem.Names:       {icon: "names", verdict: "warn", title: text.Mark("Some name servers do not answer"), to: "/names", do: text.Mark("See the names")},
	problem.Zones:       {icon: "names", verdict: "warn", title: text.Mark("An own zone needs a look"), to: "/zones", do: text.Mark("See the zones")},
	problem.Log:         {icon: "history", verdict: "warn", title: text.Mark("Some entries of the log cannot be kept"), to: "/system", do: seeSystem},
	problem.Rules:       {icon: "rules", verdict: "warn", title: text.Mark("Some rules need a look"), to: "/policies", do: text.Mark("See the rules")},
	problem.Checks:      {icon: "shield", verdict: "warn", title: text.Mark("Something that checks pages does not work"), more: text.Mark("What it would have to check is closed or opened as the rules say."), to: "/settings", do: seeSettings},
	problem.Bodies:      {icon: "hourglass", verdict: "warn", title: text.Mark("Some pages took too long to check"), more: text.Mark("They counted as pages that could not be read."), to: "/events", do: text.Mark("See the activity")},
	problem.Damaged:     {icon: "disk", verdict: "warn", title: text.Mark("A damaged file was set aside"), more: text.Mark("The gateway goes on with its last copy, or without it."), to: "/system", do: seeSystem},
	problem.Listen:      {icon: "network", verdict: "warn", title: text.Mark("An address of the settings is not there"), more: text.Mark("Devices that use it are not served until it is."), to: "/settings", do: seeSettings},
	problem.Paused:      {icon: "pause", verdict: "warn", title: text.Mark("Filtering is paused for somebody"), to: "/pause", do: text.Mark("See the pauses")},
	problem.Requests:    {icon: "hand", verdict: "warn", title: text.Mark("Some requests to open cannot be counted"), to: "/system", do: seeSystem},
	problem.Memory:      {icon: "disk", verdict: "block", title: text.Mark("Pauses, decisions and sign-ins cannot be kept"), more: text.Mark("New ones are refused until they can."), to: "/system", do: seeSystem},
	problem.Restore:     {icon: "box", verdict: "warn", title: text.Mark("A backup could not be put back"), more: text.Mark("What was here before is still in use."), to: "/system", do: seeSystem},
	problem.Upgrade:     {icon: "refresh", verdict: "block", title: text.Mark("An upgrade did not come to its end"), more: text.Mark("What is remembered is not kept until the gateway is restarted."), to: "/system", do: seeSystem},
}

// TasksOf returns the problems as sentences of a language, one for each kind, in the order of the
// problems, with ways to pages that the reader may see. What the program said is their details.
func TasksOf(h *Health, t *text.Texts, may func(path string) bool) (all []web.Task) {
	at := map[problem.Kind]int{}
	for _, p := range h.All() {
		s, known := sentences[p.Kind]
		if !known {
			all = append(all, web.Task{Icon: "info", Verdict: "warn", Title: t.Message(p.Text), Trouble: true})
			continue
		}
		i, again := at[p.Kind]
		if !again {
			i = len(all)
			at[p.Kind] = i
			all = append(all, web.Task{Icon: s.icon, Verdict: s.verdict, Title: t.Say(s.title), Trouble: true, Urgent: s.verdict == "block"})
			if s.more != "" {
				all[i].More = t.Say(s.more)
			}
			if may(s.to) {
				all[i].To, all[i].Do = s.to, t.Say(s.do)
			}
		}
		all[i].Details = append(all[i].Details, t.Message(p.Text))
	}
	return all
}

// needSomebody returns the problems that wait for somebody, for operators: a pause ends by itself.
func (s *System) needSomebody(_ context.Context, _ *account.Who, t *text.Texts) []web.Task {
	h := s.Health()
	h.Say(slices.DeleteFunc(h.All(), func(p problem.Problem) bool { return p.Kind == problem.Paused }))
	return TasksOf(&h, t, func(string) bool { return true })
}

// A well is what a good gateway does.
type well struct {
	Icon, Title string
	unless      []problem.Kind // what says otherwise
}

// wellOf returns what is as it should be.
func wellOf(h *Health) (all []well) {
	for _, w := range []well{
		{"lists", text.Mark("The lists are here and fresh"), []problem.Kind{problem.Awaited, problem.Lists}},
		{"sliders", text.Mark("The settings of the file are in use"), []problem.Kind{problem.Settings, problem.Restart, problem.Listen}},
		{"history", text.Mark("The log is kept"), []problem.Kind{problem.Log, problem.Disk, problem.Clock}},
		{"shield", text.Mark("Everything that checks pages works"), []problem.Kind{problem.Checks, problem.Bodies}},
	} {
		if !slices.ContainsFunc(h.Kinds, func(k problem.Kind) bool { return slices.Contains(w.unless, k) }) {
			all = append(all, w)
		}
	}
	return all
}
