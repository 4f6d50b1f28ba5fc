package vote

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An Action is the content of a decision.
type Action string

// The possible actions.
const (
	Open  Action = "open"  // the site passes
	Block Action = "block" // the site is blocked
	Keep  Action = "keep"  // nothing changes
	More  Action = "more"  // who asked has MoreMinutes more today
)

// MoreMinutes is what the decision More gives beyond quotas.
const MoreMinutes = 15

// A Decision answers all votes for a remedy.
type Decision struct {
	ID     int64     `json:"id"`
	Remedy string    `json:"remedy"`
	Site   string    `json:"site"` // a host name; its subdomains are included
	Action Action    `json:"action"`
	Who    string    `json:"who,omitempty"`    // an address, a network, a user or a group; "" is everyone
	Until  time.Time `json:"until,omitzero"`   // zero is for good
	Reason string    `json:"reason,omitempty"` // shown to the voters
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
	Votes  int64     `json:"votes"` // the number of votes that it answers
	// Ended is when the decision was withdrawn; zero if it was not.
	Ended time.Time `json:"ended,omitzero"`
}

// IsTime reports whether the decision is about time, and not about a site.
func (d *Decision) IsTime() bool { return d.Action == More }

// Check returns the first mistake.
func (d *Decision) Check(now time.Time) error {
	switch {
	case d.Action != Open && d.Action != Block && d.Action != Keep && d.Action != More:
		return fmt.Errorf(`%.40q is not a decision; write "open", "block", "keep" or "more"`, d.Action)
	case d.Action == More && d.Who == "":
		return errors.New("who gets more time? a decision that gives minutes names an address, a user or a group")
	case d.Remedy == "":
		return errors.New("a decision names the remedy whose votes it answers")
	case !plainName(d.Site):
		return fmt.Errorf("%.80q is not a host name that a decision can be about", d.Site)
	case !d.Until.IsZero() && !d.Until.After(now):
		return errors.New("the decision would be over already")
	case len(d.Reason) > maxComment || len(d.Who) > maxText:
		return fmt.Errorf("a reason has at most %d bytes, and a client or group at most %d", maxComment, maxText)
	}
	return nil
}

// A Case is the set of all votes that one change would answer.
type Case struct {
	Remedy   string    `json:"remedy"`
	Kind     string    `json:"kind"`
	Host     string    `json:"host"` // of the first vote
	Check    string    `json:"check,omitempty"`
	Category string    `json:"category,omitempty"`
	Votes    int64     `json:"votes"`
	People   int64     `json:"people"` // waiting users, or addresses without a user
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Examples []Example `json:"examples,omitempty"`
}

// ForTime reports whether the case is about time: a quota of minutes was used up.
func (c *Case) ForTime() bool { return c.Kind == Wrong.String() && isQuota(c.Check, c.Category) }

// ForHours reports whether the case is about a site that is closed at certain hours: it may be open a
// little longer.
func (c *Case) ForHours() bool { return c.Kind == Wrong.String() && c.Check == Schedule }

// isQuota reports whether a quota blocked. Those of bytes take no votes.
func isQuota(check, category string) bool { return check == "policy" && category == "quota" }

// An Example is a vote as shown in the queue.
type Example struct {
	URL     string    `json:"url"`
	Comment string    `json:"comment,omitempty"`
	Voter   string    `json:"voter"`
	Groups  string    `json:"groups,omitempty"`
	Policy  string    `json:"policy,omitempty"`
	At      time.Time `json:"at"`
}

// A Tally is the number of votes for one value of a dimension.
type Tally struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	N    int64  `json:"votes"`
}

// dimensions are the attributes that votes are counted by.
var dimensions = [...]string{"host", "url", "category", "entry", "group"}

// Dimensions returns the attributes that votes are counted by.
func Dimensions() []string { return dimensions[:] }

// A Store keeps counted votes and decisions. Package storetest is its
// conformance suite.
type Store interface {
	// Count counts votes that were not counted before, and returns these. When it
	// returns, they survive a power cut.
	Count(ctx context.Context, votes []Vote) (fresh []Vote, err error)
	State(ctx context.Context, id ID) (State, error) // or ErrUnknown
	// Tallies returns the largest tallies of a dimension, or only that of name.
	Tallies(ctx context.Context, dimension, name string, most int) ([]Tally, error)
	Queue(ctx context.Context, most int) ([]Case, error)
	// Case returns a case with examples, even if it is decided.
	Case(ctx context.Context, remedy string) (Case, error)
	// Decide stores a decision and closes its case. It sets ID and Votes.
	Decide(ctx context.Context, d *Decision) error
	// Decision returns one decision.
	Decision(ctx context.Context, id int64) (Decision, error)
	// Withdraw marks a decision as ended.
	Withdraw(ctx context.Context, id int64, now time.Time) (Decision, error)
	Decisions(ctx context.Context, most int) ([]Decision, error)
	// Voters returns the number of people in one of the groups who have voted for an open case
	// since a time. Without groups, everyone counts.
	Voters(ctx context.Context, remedy string, since time.Time, groups []string, most int) (int, error)
	// Mails returns the addresses that wait for the answer to a decision.
	Mails(ctx context.Context, remedy string, most int) ([]string, error)
	// Total returns the number of counted votes.
	Total(ctx context.Context) (int64, error)
	// Newest returns the time of the newest vote, zero if there is none.
	Newest(ctx context.Context) (time.Time, error)
	// Prune deletes votes that are older than before. Tallies and decisions stay.
	Prune(ctx context.Context, before time.Time) (int64, error)
	// Erase removes a person's votes, and their bytes if the database is a file. It
	// returns their number. Tallies and cases are reduced.
	Erase(ctx context.Context, p *Person, dry bool) (votes int64, err error)
	Close() error
}
