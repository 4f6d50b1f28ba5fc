package terminal

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"shuultuur/admin/nodes"
)

// PrintFleet writes what a fleet is offered, and a line for each node.
func PrintFleet(w io.Writer, ink Ink, f *nodes.Fleet, now time.Time) {
	if o := &f.Offered; o.Serial != 0 {
		fmt.Fprintf(w, "Bundle %s is for %.0f %% of the nodes, since %s.\n", plain(o.Version), o.Percent(), Moment(o.Created, now))
		if o.Waits != "" {
			fmt.Fprintln(w, "  "+plain(o.Waits))
		}
	}
	if f.Offered.Stopped != "" {
		fmt.Fprintln(w, ink.Bad("A bundle was taken back: "+plain(f.Offered.Stopped)))
	}
	if len(f.Nodes) == 0 {
		fmt.Fprintln(w, "No node was heard of yet.")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tBUNDLE\tSTATE\tREQUESTS\tFAILED\tPROBLEMS\tPROGRAM")
	for _, n := range f.Nodes {
		state := n.State
		for _, d := range n.Drift {
			state += " " + plain(d)
		}
		if n.Why != "" {
			state += ": " + plain(n.Why)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", plain(n.Name), cmp.Or(plain(n.Version), "none"), state, n.Requests, n.Failures, n.Faults, plain(n.Program))
	}
	_ = t.Flush() // an error of w is the caller's to see
}
