package home

import (
	"strings"

	"shuultuur/text"
)

// A problem is one of /health in a sentence, with the way to mend it. What the program said is
// behind "details".
type problem struct {
	Icon, Verdict string
	Title, More   string
	To, Do        string
	Text          string
}

// sentences say what a problem is about, by words of what the program says. The first that fits
// is used.
var sentences = []struct {
	words []string // one of them is in the text
	problem
}{
	{[]string{"not been fetched yet", "not fetched yet"}, problem{Icon: "lists", Verdict: "off", Title: text.Mark("Some lists are not here yet"), More: text.Mark("Until they come, they know no site. They are tried again by themselves."), To: "/lists", Do: text.Mark("See the lists")}},
	{[]string{"list ", "lists "}, problem{Icon: "lists", Verdict: "warn", Title: text.Mark("Some lists need a look"), To: "/lists", Do: text.Mark("See the lists")}},
	{[]string{"settings", ".yaml"}, problem{Icon: "sliders", Verdict: "warn", Title: text.Mark("The settings in the file could not be used"), More: text.Mark("The gateway goes on with those before."), To: "/settings", Do: text.Mark("See the settings")}},
	{[]string{"no space left", "disk"}, problem{Icon: "disk", Verdict: "block", Title: text.Mark("There is no room on the disk"), More: text.Mark("New entries of the log may be lost until there is."), To: "/system", Do: text.Mark("See the system")}},
	{[]string{"clock"}, problem{Icon: "clock", Verdict: "warn", Title: text.Mark("The clock of this machine seems wrong"), To: "/system", Do: text.Mark("See the system")}},
	{[]string{"mail", "webhook", "smtp"}, problem{Icon: "mail", Verdict: "warn", Title: text.Mark("Some messages could not be sent"), More: text.Mark("They are tried again by themselves."), To: "/settings", Do: text.Mark("See the settings")}},
	{[]string{"audit"}, problem{Icon: "history", Verdict: "block", Title: text.Mark("Changes cannot be recorded, so nothing is changed"), To: "/audit", Do: text.Mark("See the audit log")}},
	{[]string{"certificate", "root"}, problem{Icon: "certificate", Verdict: "warn", Title: text.Mark("A certificate needs a look"), To: "/ca", Do: text.Mark("See the certificate")}},
	{[]string{"Redis", "redis"}, problem{Icon: "server", Verdict: "warn", Title: text.Mark("The other nodes cannot be reached"), More: text.Mark("This one goes on with what it knows."), To: "/system", Do: text.Mark("See the system")}},
	{[]string{"upstream", "name server", "dns"}, problem{Icon: "names", Verdict: "warn", Title: text.Mark("Some name servers do not answer"), To: "/names", Do: text.Mark("See the names")}},
	{[]string{"zone"}, problem{Icon: "names", Verdict: "warn", Title: text.Mark("An own zone needs a look"), To: "/zones", Do: text.Mark("See the zones")}},
	{[]string{"event", "sqlite", "postgres", "syslog", "spool"}, problem{Icon: "history", Verdict: "warn", Title: text.Mark("Some entries of the log cannot be kept"), To: "/system", Do: text.Mark("See the system")}},
	{[]string{"polic", "rule"}, problem{Icon: "rules", Verdict: "warn", Title: text.Mark("Some rules need a look"), To: "/policies", Do: text.Mark("See the rules")}},
}

// problemOf returns the sentence for what the program says, or what it says.
func problemOf(said string) problem {
	for _, s := range sentences {
		for _, word := range s.words {
			if strings.Contains(said, word) {
				p := s.problem
				p.Text = said
				return p
			}
		}
	}
	return problem{Icon: "info", Verdict: "warn", Title: said, Text: said}
}
