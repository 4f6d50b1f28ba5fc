// Package terminal has what commands print for people: colours where there is a terminal, tables of
// commands in groups, and how a gateway is, in sentences.
package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"shuultuur/admin/account"
	"shuultuur/admin/remote"
	"shuultuur/policy"
)

// An Ink colours text for a terminal. The zero value leaves it as it is.
type Ink struct{ colours bool }

// InkFor returns the ink for an output: colours for a terminal that shows them, unless somebody wants
// none (NO_COLOR, https://no-color.org).
func InkFor(w io.Writer) Ink {
	f, ok := w.(*os.File)
	return Ink{ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))}
}

func (i Ink) with(code, text string) string {
	if !i.colours || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Strong, Good, Bad and Faint colour a text by its part in what is said.
func (i Ink) Strong(text string) string { return i.with("1", text) }

// Good is for what is as it should be.
func (i Ink) Good(text string) string { return i.with("32", text) }

// Bad is for what somebody has to mend.
func (i Ink) Bad(text string) string { return i.with("31", text) }

// Faint is for what explains.
func (i Ink) Faint(text string) string { return i.with("2", text) }

// JSON writes a value for programs.
func JSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", b)
	}
	return err
}

// PrintStatus writes how a gateway is for people: one sentence first, then what is wrong with it.
func PrintStatus(w io.Writer, ink Ink, s *remote.Status, now time.Time) {
	var first strings.Builder
	switch {
	case !s.Ready:
		first.WriteString("The gateway starts or stops: it takes no connections at the moment")
	case slices.ContainsFunc(s.Paused, func(p policy.Pause) bool { return p.Who == "" }):
		first.WriteString("Filtering is paused for everybody")
	default:
		first.WriteString("Filtering")
		if s.Devices >= 0 {
			first.WriteString(" for " + Count(s.Devices, "device"))
		}
	}
	if at, err := time.Parse(time.RFC3339, s.Started); err == nil && s.Ready {
		first.WriteString(", since " + Moment(at, now))
	}
	switch n := len(s.Problems); {
	case n > 0:
		first.WriteString("; " + Count(n, "problem"))
	case s.Ready:
		first.WriteString("; no problems")
	}
	colour := ink.Good
	if !s.Ready || len(s.Problems) > 0 || len(s.Paused) > 0 {
		colour = ink.Bad
	}
	fmt.Fprintln(w, colour(first.String()+"."))
	for _, p := range s.Problems {
		fmt.Fprintln(w, "  "+plain(p))
	}
	for _, p := range s.Paused {
		fmt.Fprintf(w, "  Paused for %s until %s.\n", plain(p.Whom()), Moment(p.Until, now))
	}
	if s.Update != "" {
		fmt.Fprintf(w, "  Version %s is there; this one is older.\n", plain(s.Update))
	}
	fmt.Fprintln(w, ink.Faint("  settings "+plain(s.Settings)+", state "+plain(s.State)))
}

// Ruling returns a decision about a site as a sentence.
func Ruling(d policy.Decision, ended bool, now time.Time) string {
	who := cmp.Or(d.Who, "everybody")
	switch {
	case ended:
		return fmt.Sprintf("Lists and rules decide about %s for %s again.", d.Site, who)
	case d.Until.IsZero():
		return fmt.Sprintf("%s is open for %s, for good.", d.Site, who)
	}
	return fmt.Sprintf("%s is open for %s until %s.", d.Site, who, Moment(d.Until, now))
}

// Count returns a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Moment returns a time as people say it: without the day today, and without the year this year.
func Moment(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	switch {
	case day(at) == day(now):
		return "today, " + at.Format("15:04")
	case day(at) == day(now.AddDate(0, 0, -1)):
		return "yesterday, " + at.Format("15:04")
	case day(at) == day(now.AddDate(0, 0, 1)):
		return "tomorrow, " + at.Format("15:04")
	case at.Year() == now.Year():
		return at.Format("2 January, 15:04")
	}
	return at.Format("2 January 2006, 15:04")
}

// plain returns a text without characters that steer a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s)
}

// An Outcome is what a command has said, for programs.
type Outcome struct {
	Good     bool     `json:"good"`
	Says     []string `json:"says"`     // lines
	Mistakes []string `json:"mistakes"` // lines
}

// NewOutcome returns the outcome of a command that wrote out and errs.
func NewOutcome(status int, out, errs string) Outcome {
	lines := func(s string) []string {
		all := []string{}
		for l := range strings.Lines(s) {
			all = append(all, strings.TrimRight(l, "\n"))
		}
		return all
	}
	return Outcome{status == 0, lines(out), lines(errs)}
}

// An Account is what may be shown of an account: no secrets and no hashes.
type Account struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Groups   []string `json:"groups"`
	Password bool     `json:"password"`
	TOTP     bool     `json:"totp"`
	Passkeys int      `json:"passkeys"`
}

// Accounts returns what may be shown of accounts.
func Accounts(all []account.Account) []Account {
	shown := []Account{}
	for _, a := range all {
		shown = append(shown, Account{a.Name, string(a.Role), append([]string{}, a.Groups...), a.Password != "", a.TOTP != "", len(a.Passkeys)})
	}
	return shown
}

// Line returns an account with how its owner signs in.
func (a Account) Line() string {
	var by []string
	if a.Password {
		by = append(by, "password")
	}
	if a.TOTP {
		by = append(by, "one-time code")
	}
	if a.Passkeys > 0 {
		by = append(by, Count(a.Passkeys, "passkey"))
	}
	of := ""
	if len(a.Groups) > 0 {
		of = " of " + strings.Join(a.Groups, ", ")
	}
	return plain(a.Name) + "\t" + a.Role + plain(of) + "\t" + strings.Join(by, ", ")
}
