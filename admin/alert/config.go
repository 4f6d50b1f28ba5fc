package alert

import (
	"fmt"
	"log/slog"
	"slices"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// A Config sets what is watched, and who is notified.
type Config struct {
	Themes map[string]*Theme `yaml:"themes"`
	To     []Route           `yaml:"to" role:"owner" two:"people"`
	Link   string            `yaml:"link" role:"owner"` // the admin address as people open it: https://filter.example:8081
	Keep   setting.Duration  `yaml:"keep"`              // how long closed alerts are kept; default 365d
}

// A Theme is a subject of alerts. One matching condition is enough.
type Theme struct {
	Category []string `yaml:"category"` // that checks report, as in rules
	Over     *int     `yaml:"over"`     // the score from which a scored category counts
	Search   []string `yaml:"search"`   // words or phrases in search terms
	Host     []string `yaml:"host"`     // sites
	URL      []string `yaml:"url"`      // expressions on addresses
	Words    []string `yaml:"words"`    // words or phrases in what is sent: forms, chats

	Severity Severity         `yaml:"severity"` // low, medium (default) or high
	After    int              `yaml:"after"`    // matches that make an alert; default 1
	Within   setting.Duration `yaml:"within"`   // the time in which they are counted; default 1h
}

// A Severity says how urgent an alert is.
type Severity int

// Severities. The zero value is the default.
const (
	Medium Severity = iota
	Low
	High
)

var severities = [...]string{Medium: "medium", Low: "low", High: "high"}

func (s Severity) String() string { return severities[s] }

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a severity: write low, medium or high", text)
	}
	*s = Severity(i)
	return nil
}

// A Route sets who receives which alerts. An omitted condition matches all.
type Route struct {
	Groups   []string  `yaml:"groups" names:"people"` // of the person
	Themes   []string  `yaml:"themes"`                // names; "requests" are those to open a site
	Severity *Severity `yaml:"severity"`              // this one and above
	// Quiet are hours in which nothing is sent; waiting mails are sent when they
	// end. Alerts of high severity do not wait.
	Quiet   policy.Schedule            `yaml:"quiet"`
	Mail    setting.OneOrMore[string]  `yaml:"mail" names:"people"`
	Webhook setting.OneOrMore[Webhook] `yaml:"webhook" role:"owner"`
	// Language is the language of messages, a tag such as mn or uz-Cyrl; default
	// en.
	Language string `yaml:"language"`
}

// A Webhook is an address to which messages are posted.
type Webhook struct {
	URL    string `yaml:"url" secret:"yes"`
	Format string `yaml:"format"`             // json (default), slack, teams, ntfy or telegram
	Chat   string `yaml:"chat"`               // for telegram: the identifier of the chat
	Token  string `yaml:"token" secret:"yes"` // sent as a bearer token, for servers that ask for one
	Key    string `yaml:"key" secret:"yes"`   // signs messages, so that the receiver knows that they are ours
}

// WatchSet is the set of watched themes in one reading of the settings, and the
// desk that all readings share.
type WatchSet struct {
	*Watch
	Desk *Desk // nil on trial
}

// Parts are the parts of the gateway that alerts need.
type Parts struct {
	Checks   []filter.Check
	Key      []byte    // of policies
	File     string    // file that keeps the alerts; "" on trial
	Previous *WatchSet // the previous one, whose desk is kept, or nil
	Log      *slog.Logger
}
