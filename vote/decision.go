package vote

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An Action is what was decided.
type Action string

// What can be decided.
const (
	Open  Action = "open"  // the site passes
	Block Action = "block" // the site is blocked
	Keep  Action = "keep"  // nothing changes
)

// A Decision answers all votes for a remedy.
type Decision struct {
	ID     int64     `json:"id"`
	Remedy string    `json:"remedy"`
	Site   string    `json:"site"` // host name, with everything below it
	Action Action    `json:"action"`
	Who    string    `json:"who,omitempty"`    // an address, a network, a user or a group; "" is everyone
	Until  time.Time `json:"until,omitzero"`   // zero is for good
	Reason string    `json:"reason,omitempty"` // for the voters
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
	Votes  int64     `json:"votes"` // that it answers
	// Ended is when somebody withdrew it; zero: nobody did.
	Ended time.Time `json:"ended,omitzero"`
}

// Check looks for mistakes.
func (d *Decision) Check(now time.Time) error {
	switch {
	case d.Action != Open && d.Action != Block && d.Action != Keep:
		return fmt.Errorf(`%.40q is not a decision; write "open", "block" or "keep"`, d.Action)
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

// A Case is all votes that one change would answer.
type Case struct {
	Remedy   string    `json:"remedy"`
	Kind     string    `json:"kind"`
	Host     string    `json:"host"` // of the first vote
	Check    string    `json:"check,omitempty"`
	Category string    `json:"category,omitempty"`
	Votes    int64     `json:"votes"`
	People   int64     `json:"people"` // users, or addresses, that wait
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Examples []Example `json:"examples,omitempty"`
}

// An Example is a vote as the queue shows it.
type Example struct {
	URL     string    `json:"url"`
	Comment string    `json:"comment,omitempty"`
	Voter   string    `json:"voter"`
	Groups  string    `json:"groups,omitempty"`
	Policy  string    `json:"policy,omitempty"`
	At      time.Time `json:"at"`
}

// A Tally is how many votes there are for something.
type Tally struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
	N    int64  `json:"votes"`
}

// Dimensions are what votes are counted by.
var dimensions = [...]string{"host", "url", "category", "entry", "group"}

// Dimensions returns what votes are counted by.
func Dimensions() []string { return dimensions[:] }

// A Store keeps counted votes and decisions. Package storetest is its
// conformance suite.
type Store interface {
	// Count counts votes that were not counted before, and returns which of them
	// were fresh. When it returns, they outlive a power cut.
	Count(ctx context.Context, votes []Vote) (fresh []Vote, err error)
	State(ctx context.Context, id ID) (State, error) // or ErrUnknown
	// Tallies returns the greatest tallies of a dimension, or those of one name.
	Tallies(ctx context.Context, dimension, name string, most int) ([]Tally, error)
	Queue(ctx context.Context, most int) ([]Case, error)
	// Case returns a case with examples, also one that is decided.
	Case(ctx context.Context, remedy string) (Case, error)
	// Decide keeps a decision and closes its case. It sets ID and Votes.
	Decide(ctx context.Context, d *Decision) error
	// Decision returns one decision.
	Decision(ctx context.Context, id int64) (Decision, error)
	// Withdraw notes that a decision has ended.
	Withdraw(ctx context.Context, id int64, now time.Time) (Decision, error)
	Decisions(ctx context.Context, most int) ([]Decision, error)
	// Voters returns the people who have voted for an open case since a time and are in one of
	// the groups; without groups, anybody.
	Voters(ctx context.Context, remedy string, since time.Time, groups []string, most int) (int, error)
	// Mails returns addresses that wait for the answer of a decision.
	Mails(ctx context.Context, remedy string, most int) ([]string, error)
	// Total returns how many votes are counted.
	Total(ctx context.Context) (int64, error)
	// Prune deletes votes from before a time. Tallies and decisions stay.
	Prune(ctx context.Context, before time.Time) (int64, error)
	// Erase takes out the votes of a person, and their bytes where the database is
	// a file, and returns how many there were. Tallies and cases count what is left.
	Erase(ctx context.Context, p *Person) (votes int64, err error)
	Close() error
}
