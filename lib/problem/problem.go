// Package problem has what an operator should look at: what is wrong in words, and of what kind it
// is for programs and for sentences in other languages.
package problem

import (
	"errors"

	"shuultuur/lib/platform"
)

// A Kind says what a problem is about. Its text may change with a version, its kind does not.
type Kind string

// Kinds of problems.
const (
	Other       Kind = ""
	Awaited     Kind = "lists-awaited" // lists that have not been fetched yet, and are empty
	Lists       Kind = "lists"         // lists that were refused, or could not be fetched again
	Settings    Kind = "settings"      // settings or their files that cannot be used
	Restart     Kind = "restart"       // changes that wait for a restart
	Disk        Kind = "disk"          // no space is left
	Clock       Kind = "clock"
	Messages    Kind = "messages" // alerts, requests and reports that are not delivered
	Audit       Kind = "audit"    // changes cannot be recorded
	Certificate Kind = "certificate"
	Ending      Kind = "certificate-ends" // one that ends soon and is not renewed by itself
	Directory   Kind = "directory"        // who people are cannot be asked
	Devices     Kind = "devices"          // names of devices cannot be read
	Fleet       Kind = "fleet"            // other nodes or Redis
	Names       Kind = "names"            // name servers, hosts files
	Zones       Kind = "zones"
	Log         Kind = "log"    // stores of events
	Rules       Kind = "rules"  // rules that do not do what they say
	Checks      Kind = "checks" // checks that fail, scanners that are away
	Bodies      Kind = "bodies" // content that takes too long to judge
	Damaged     Kind = "damaged-file"
	Listen      Kind = "listen"   // addresses that cannot be served
	Paused      Kind = "paused"   // filtering is, for somebody
	Requests    Kind = "requests" // requests to open that are not kept or counted
	Memory      Kind = "memory"   // pauses, decisions and sessions that are not kept
	Restore     Kind = "restore"
	Upgrade     Kind = "upgrade"
)

// All has the kinds that have a name.
var All = []Kind{Awaited, Lists, Settings, Restart, Disk, Clock, Messages, Audit, Certificate, Ending, Directory, Devices, Fleet, Names,
	Zones, Log, Rules, Checks, Bodies, Damaged, Listen, Paused, Requests, Memory, Restore, Upgrade}

// A Problem is one thing to look at.
type Problem struct {
	Kind Kind
	Text string
}

// Of returns texts as problems of one kind.
func Of(k Kind, texts ...string) (all []Problem) {
	for _, t := range texts {
		all = append(all, Problem{k, t})
	}
	return all
}

// Because returns a kind, or Disk if the reason is that no space is left.
func Because(k Kind, reason error) Kind {
	if errors.Is(reason, platform.ENOSPC) {
		return Disk
	}
	return k
}

// Texts returns the texts of problems.
func Texts(all []Problem) (texts []string) {
	for _, p := range all {
		texts = append(texts, p.Text)
	}
	return texts
}

// Kinds returns the kinds of problems, in their order.
func Kinds(all []Problem) (kinds []Kind) {
	for _, p := range all {
		kinds = append(kinds, p.Kind)
	}
	return kinds
}
