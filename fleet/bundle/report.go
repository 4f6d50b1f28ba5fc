package bundle

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/state"
)

// Topics of instructions: reports, whose key is the name of the node, and the news that a desk offers a
// bundle.
const (
	Topic        = "bundle"
	OfferedTopic = "bundle-offered"
)

// newsFor is how long the news is kept for nodes that are away. They ask by themselves, too.
const newsFor = time.Hour

func offeredInstruction(serial uint64) state.Instruction {
	return state.Instruction{Topic: OfferedTopic, Value: strconv.FormatUint(serial, 10), Until: time.Now().Add(newsFor), Brief: true}
}

// Reports are sent when something changed, and at intervals, which are shorter while a bundle is young:
// then its rates are news. A node of which nothing was heard for longer than silent is not waited for,
// and for longer than forgotten has left.
const (
	reportYoung = 10 * time.Second // in the first minutes, young, of a bundle
	reportEvery = time.Minute      // in its first hour
	reportAnew  = 5 * time.Minute
	young       = 10 * time.Minute
	silent      = 3 * reportAnew
	forgotten   = 24 * time.Hour
)

// A Report says what a node runs, and how it fares.
type Report struct {
	Node    string    `json:"-"`
	Serial  uint64    `json:"serial"` // of the bundle that it runs; 0: none
	Version string    `json:"version"`
	Content string    `json:"content"` // digest of what the bundle contains
	Since   time.Time `json:"since,omitzero"`
	At      time.Time `json:"at"`
	// Refused is the serial number of a later bundle that the node cannot use, and Why the reason. Why
	// is also given where the node gets no bundles.
	Refused uint64   `json:"refused,omitempty"`
	Why     string   `json:"why,omitempty"`
	Drift   []string `json:"drift,omitempty"` // keys and files of the bundle that were changed on the node
	Before  Rates    `json:"before"`          // in the hour before the bundle
	Now     Rates    `json:"now"`             // since
	Faults  int      `json:"faults"`          // problems in its /health
	New     int      `json:"new"`             // those of them that were not there before the bundle
	Program string   `json:"program"`         // version of the program
}

// Rates are how a node fared over a while.
type Rates struct {
	Requests int64   `json:"requests"`
	Failures int64   `json:"failures"` // requests that the gateway could not serve
	Asked    int64   `json:"asked"`    // people who asked to open what is blocked
	Load     float64 `json:"load"`     // processors in use, on average
}

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// What a bundle may cost. A node with few requests says little.
const (
	fewRequests = 100
	fewAsked    = 5
	moreFaults  = 0.02 // of requests fail, and twice as many as before
	moreAsked   = 0.01 // of requests are asked to be opened, and three times as many as before
	moreLoad    = 0.5  // of a processor more, and half as much again as before
)

// Bad returns why a node fares badly with the bundle of a serial number, "" if it does not.
func (r *Report) Bad(serial uint64) string {
	if r.Refused == serial {
		return "it cannot use the bundle: " + r.Why
	}
	if r.Serial != serial {
		return ""
	}
	now, was := share(r.Now.Failures, r.Now.Requests), share(r.Before.Failures, r.Before.Requests)
	asked, askedBefore := share(r.Now.Asked, r.Now.Requests), share(r.Before.Asked, r.Before.Requests)
	switch {
	case r.New > 0:
		return "it has new problems since"
	case r.Now.Requests < fewRequests:
		return ""
	case now > max(moreFaults, 2*was):
		return "more requests fail since"
	case r.Now.Asked >= fewAsked && asked > max(moreAsked, 3*askedBefore):
		return "more people ask to open what is blocked since"
	case r.Now.Load > max(r.Before.Load+moreLoad, 1.5*r.Before.Load):
		return "it needs more of its processors since"
	}
	return ""
}

// Instruction returns the report as an instruction.
func (r *Report) Instruction() (state.Instruction, error) {
	b, err := json.Marshal(r)
	return state.Instruction{Topic: Topic, Key: r.Node, Value: string(b), Until: r.At.Add(forgotten), Brief: true}, err
}

// Reports reads the reports in instructions, sorted by node. It leaves out values that it cannot read:
// another version of the program may send other reports.
func Reports(all []state.Instruction) (reports []Report) {
	for i := range all {
		r := Report{}
		if all[i].Topic == Topic && json.Unmarshal([]byte(all[i].Value), &r) == nil {
			r.Node = all[i].Key
			reports = append(reports, r)
		}
	}
	slices.SortFunc(reports, func(a, b Report) int { return strings.Compare(a.Node, b.Node) })
	return reports
}

// Heard reports whether the node was heard of lately.
func (r *Report) Heard(now time.Time) bool { return now.Sub(r.At) < silent }
